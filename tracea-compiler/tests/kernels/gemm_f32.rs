/// Exact products.
#[kernel]
pub fn gemm_f32<M: Dim, N: Dim, K: Dim>(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (K, N)>, c: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]);
        });
        c[(i, j)] = acc;
    });
}
