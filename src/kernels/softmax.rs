//! Softmax over rows.

use crate::prelude::*;

/// `y = exp(x − max x) / Σ exp(x − max x)` along each row of x (M, N).
///
/// One pass finds maximum and sum together, a second one writes. An element of −∞ becomes 0; a row of nothing else becomes NaN.
#[kernel(T = [f16, bf16, f32])]
pub fn softmax<T: Float, M: Dim, N: Dim>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M, N)>) {
    tile!(for i in M {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        tile!(for j in N {
            let s = x[(i, j)].to::<f32>();
            // Finite even where all is −∞ so far: the difference of two infinities would be NaN.
            let m_new = m.max(s.row_max()).max(f32::MIN);
            l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
            m = m_new;
        });
        tile!(for j in N {
            y[(i, j)] = ((x[(i, j)].to::<f32>() - m).exp() / l).to();
        });
    });
}
