/// Flash attention, grouped queries, optionally causal.
#[kernel(D = [64, 128, 256], causal = [false, true])]
pub fn attention<B: Dim, H: Dim, G: Dim, S: Dim, T: Dim, const D: usize>(
    q: &Tensor<f16, (B, H, S, Const<D>)>,
    k: &Tensor<f16, (B, G, T, Const<D>)>,
    v: &Tensor<f16, (B, G, T, Const<D>)>,
    o: &mut Tensor<f16, (B, H, S, Const<D>)>,
    scale: f32,
    causal: bool,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let g = h / (H / G);
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in if causal { T.until(i.end()) } else { T } {
            let mut s = dot(q[(b, h, i, ..)], k[(b, g, j, ..)].t()) * scale;
            if causal {
                s = s.mask(|i, j| j <= i, f32::NEG_INFINITY);
            }
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, g, j, ..)]);
            m = m_new;
        });
        o[(b, h, i, ..)] = (acc / l).to();
    });
}
