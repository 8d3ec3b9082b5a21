use tracea::prelude::*;

#[kernel]
fn missing<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {}

#[kernel]
fn two<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[i];
    });
    tile!(for i in M {
        y[i] = x[i];
    });
}

#[kernel]
fn ranged<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M.until(7) {
        y[i] = x[i];
    });
}

#[kernel]
fn outside<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    let first = x[0];
    tile!(for i in M {
        y[i] = x[i] + first;
    });
}

#[kernel]
fn uneven<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j, k) in (M, N) {
        y[(i, j)] = x[(i, j)];
    });
}

#[kernel]
fn no_loop<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    tile!(M, N);
}

fn main() {
    tile!(for i in 0..3 {});
}
