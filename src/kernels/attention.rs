//! Attention, forward.

use crate::prelude::*;

/// `o = softmax(q · kᵀ · scale) · v` in one pass over k and v ([FlashAttention](https://arxiv.org/abs/2205.14135)).
///
/// Shapes: q and o (B, H, S, D), k and v (B, G, T, D). H is a multiple of G: each head of k and v serves H / G heads of q. With `causal`, query
/// `i` sees keys `0..=i`. Scores and sums are f32.
#[kernel(T = [f16, bf16], D = [64, 128, 256], causal = [false, true])]
pub fn attention<T: Float, B: Dim, H: Dim, G: Dim, S: Dim, L: Dim, const D: usize>(
    q: &Tensor<T, (B, H, S, Const<D>)>,
    k: &Tensor<T, (B, G, L, Const<D>)>,
    v: &Tensor<T, (B, G, L, Const<D>)>,
    o: &mut Tensor<T, (B, H, S, Const<D>)>,
    scale: f32,
    causal: bool,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let g = h / (H / G);
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in if causal { L.until(i.end()) } else { L } {
            let mut s = dot(q[(b, h, i, ..)], k[(b, g, j, ..)].t()) * scale;
            if causal {
                s = s.mask(|i, j| j <= i, f32::NEG_INFINITY);
            }
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<T>(), v[(b, g, j, ..)]);
            m = m_new;
        });
        o[(b, h, i, ..)] = (acc / l).to();
    });
}
