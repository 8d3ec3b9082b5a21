use tracea::prelude::*;

#[kernel]
fn rows<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for (i, j) in (M, N) {
        y[i] = x[(i, j)].row_sum();
    });
}

#[kernel]
fn heads<B: Dim, H: Dim, S: Dim>(x: &Tensor<f32, (B, H, S)>, y: &mut Tensor<f32, (B, H, S)>) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let pair = h / 2;
        y[(b, pair, i)] = x[(b, h, i)];
    });
}

#[kernel]
fn flattened<N: Dim, P: Dim, Q: Dim>(x: &Tensor<f32, (N, P, Q)>, y: &mut Tensor<f32, (N, P)>) {
    tile!(for npq in flat(N, P, Q) {
        let (n, p, q) = npq.coords();
        y[(n, p)] = x[(n, p, q)];
    });
}

fn main() {}
