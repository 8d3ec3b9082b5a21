//! Norms over rows. Shapes: x and y (M, N), gamma and beta (N). Sums are f32.

use crate::prelude::*;

/// `y = (x − mean) / √(variance + epsilon) · gamma + beta` ([Ba, Kiros, Hinton](https://arxiv.org/abs/1607.06450)).
///
/// The variance is that of the differences from the mean, in a second pass: nothing cancels.
#[kernel(T = [f16, bf16, f32])]
pub fn layer_norm<T: Float, M: Dim, N: Dim>(
    x: &Tensor<T, (M, N)>,
    gamma: &Tensor<T, (N,)>,
    beta: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    tile!(for i in M {
        let mut sum = zeros::<f32>(i);
        tile!(for j in N {
            sum += x[(i, j)].to::<f32>().row_sum();
        });
        let mean = sum / (N as f32);
        let mut squares = zeros::<f32>(i);
        tile!(for j in N {
            let difference = x[(i, j)].to::<f32>() - mean;
            squares += (difference * difference).row_sum();
        });
        let rate = (squares / (N as f32) + epsilon).rsqrt();
        tile!(for j in N {
            let normal = (x[(i, j)].to::<f32>() - mean) * rate;
            y[(i, j)] = (normal * gamma[j].to::<f32>() + beta[j].to::<f32>()).to();
        });
    });
}

/// `y = x / √(mean of x² + epsilon) · gamma` ([Zhang, Sennrich](https://arxiv.org/abs/1910.07467)).
#[kernel(T = [f16, bf16, f32])]
pub fn rms_norm<T: Float, M: Dim, N: Dim>(
    x: &Tensor<T, (M, N)>,
    gamma: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    tile!(for i in M {
        let mut squares = zeros::<f32>(i);
        tile!(for j in N {
            let value = x[(i, j)].to::<f32>();
            squares += (value * value).row_sum();
        });
        let rate = (squares / (N as f32) + epsilon).rsqrt();
        tile!(for j in N {
            y[(i, j)] = (x[(i, j)].to::<f32>() * rate * gamma[j].to::<f32>()).to();
        });
    });
}
