use tracea::prelude::*;

#[kernel]
fn three<A: Dim, B: Dim, C: Dim>(x: &Tensor<f32, (A, B, C)>, y: &mut Tensor<f32, (A, B, C)>) {
    tile!(for (a, b, c) in (A, B, C) {
        y[(a, b, c)] = x[(a, b, c)];
    });
}

#[kernel]
fn whole_of_dyn<M: Dim, K: Dim>(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[(i, ..)].row_sum();
    });
}

#[kernel]
fn vector_bound<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        let mut sum = zeros::<f32>(i);
        tile!(for j in N.until(i + 1) {
            sum += x[(i, j)].row_sum();
        });
        y[i] = sum;
    });
}

fn main() {}
