use tracea::prelude::*;

#[kernel]
fn never<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>, z: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[i];
    });
}

#[kernel]
fn input<M: Dim>(x: &Tensor<f32, (M,)>, y: &Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[i];
    });
}

#[kernel]
fn read_after_write<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[i];
        y[i] = y[i] * 2.0;
    });
}

#[kernel]
fn accumulate_in_memory<M: Dim, K: Dim>(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        tile!(for k in K {
            y[i] += x[(i, k)].row_sum();
        });
    });
}

#[kernel]
fn the_last_block_remains<M: Dim, K: Dim>(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        tile!(for k in K {
            y[i] = x[(i, k)].row_sum();
        });
    });
}

#[kernel]
fn neighbour<M: Dim>(y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = y[i + 1];
    });
}

#[kernel]
fn scattered<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, to: &Tensor<i32, (M,)>, y: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        y[(to[i], j)] = x[(i, j)];
    });
}

#[kernel]
fn gathered_by_what_is_computed<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, at: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        y[(i, j)] = x[(at[i].floor().to::<i32>(), j)];
    });
}

#[kernel]
fn diagonals<M: Dim>(x: &Tensor<f32, (M, M)>, y: &mut Tensor<f32, (M, M)>) {
    tile!(for (i, j) in (M, M) {
        y[(i, j - i)] = x[(i, j)];
    });
}

fn main() {}
