/// An operand that is computed on its way to the tensor cores.
#[kernel]
pub fn dequantised<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    scale: &Tensor<f32, (K,)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            let wide = w[(j, k)].to::<f32>() * scale[k];
            acc += dot(a[(i, k)], wide.to::<f16>().t());
        });
        c[(i, j)] = acc;
    });
}
