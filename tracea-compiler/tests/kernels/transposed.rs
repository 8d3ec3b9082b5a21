/// Turned in shared memory.
#[kernel]
pub fn transposed<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (N, M)>) {
    tile!(for (i, j) in (M, N) {
        y[(j, i)] = x[(i, j)].t();
    });
}
