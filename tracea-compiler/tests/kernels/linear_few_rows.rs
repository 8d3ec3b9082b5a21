/// C = silu(A · Bᵀ + bias), for few rows
#[kernel]
#[schedule(sm_90a, i = 16, j = 128, k = 64, stages = 6, consumers = 2, swapped = true, resident = 2)]
pub fn linear_few_rows<M: Dim, N: Dim, K: Dim>(
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
        c[(i, j)] = (acc + bias[j].to::<f32>()).map(silu).to();
    });
}
