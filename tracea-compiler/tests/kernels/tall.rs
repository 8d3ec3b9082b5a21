/// `y = max(scale ∘ (x · wᵀ) + bias, 0) + r`, one scale a row and one bias a column
#[kernel]
#[schedule(sm_90a, i = 256, j = 128, k = 64, stages = 3, consumers = 2)]
#[schedule(sm_90a, i = 256, j = 96, k = 64, stages = 3, consumers = 2, cluster = (1, 2))]
#[schedule(sm_90a, i = 128, j = 64, k = 128, stages = 3, consumers = 1, cluster = (2, 1))]
pub fn tall_layers<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    scale: &Tensor<f32, (M,)>,
    bias: &Tensor<f16, (N,)>,
    r: &Tensor<f16, (M, N)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(x[(i, k)], w[(j, k)].t());
        });
        y[(i, j)] = ((acc * scale[i] + bias[j].to::<f32>()).max(0.0) + r[(i, j)].to::<f32>()).to();
    });
}

/// `c = a · bᵀ`
#[kernel]
#[schedule(sm_90a, i = 256, j = 160, k = 64, stages = 4, consumers = 2)]
#[schedule(sm_90a, i = 160, j = 256, k = 64, stages = 4, consumers = 2, swapped = true, cluster = (1, 2))]
#[schedule(sm_90a, i = 64, j = 256, k = 64, stages = 4, consumers = 2, swapped = true)]
pub fn tall_halves<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (M, K)>,
    b: &Tensor<bf16, (N, K)>,
    c: &mut Tensor<bf16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)].t());
        });
        c[(i, j)] = acc.to();
    });
}
