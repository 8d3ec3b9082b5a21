/// C = silu(A · Bᵀ + bias) + R
#[kernel]
#[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2, raster = 8)]
pub fn linear_silu_residual<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    bias: &Tensor<f16, (N,)>,
    r: &Tensor<f16, (M, N)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)].t());
        });
        let activated = (acc + bias[j].to::<f32>()).map(silu);
        c[(i, j)] = (activated + r[(i, j)].to::<f32>()).to();
    });
}
