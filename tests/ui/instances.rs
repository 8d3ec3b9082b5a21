use tracea::prelude::*;

#[kernel]
fn unlisted_constant<M: Dim, const D: usize>(x: &Tensor<f32, (M, Const<D>)>, y: &mut Tensor<f32, (M, Const<D>)>) {
    tile!(for i in M {
        y[(i, ..)] = x[(i, ..)];
    });
}

#[kernel]
fn unlisted_flag<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>, double: bool) {
    tile!(for i in M {
        y[i] = if double { x[i] * 2.0 } else { x[i] };
    });
}

#[kernel(T = [])]
fn no_values<T: Float, M: Dim>(x: &Tensor<T, (M,)>, y: &mut Tensor<T, (M,)>) {
    tile!(for i in M {
        y[i] = x[i];
    });
}

#[kernel(T = [f16, f16], E = [1])]
fn twice_and_unknown<T: Float, M: Dim>(x: &Tensor<T, (M,)>, y: &mut Tensor<T, (M,)>) {
    tile!(for i in M {
        y[i] = x[i];
    });
}

#[kernel(T = [i32])]
fn no_float<T: Float, M: Dim>(x: &Tensor<T, (M,)>, y: &mut Tensor<T, (M,)>) {
    tile!(for i in M {
        y[i] = x[i];
    });
}

fn main() {}
