/// C = relu(A · Bᵀ + bias)
#[kernel]
#[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2, cluster = (2, 1), raster = 8)]
#[schedule(sm_80, i = 128, j = 128, k = 32, stages = 4, warps = (2, 2))]
pub fn linear_relu<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    bias: &Tensor<f16, (N,)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)].t());
        });
        c[(i, j)] = (acc + bias[j].to::<f32>()).map(relu).to();
    });
}
