//! The three programs by which the language is measured, as a user writes them: verified against themselves in f64, on the first
//! GPU or else on the CPU.

use tracea::prelude::*;

/// C = relu(A · Bᵀ + bias)
#[kernel]
#[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2, cluster = (2, 1), raster = 8)]
#[schedule(sm_80, i = 128, j = 128, k = 32, stages = 4, warps = (2, 2))]
#[rustfmt::skip]
pub fn linear_relu<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, bias: &Tensor<f16, (N,)>, c: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)].t());
        });
        c[(i, j)] = (acc + bias[j].to::<f32>()).map(relu).to();
    });
}

/// Flash attention, grouped queries, optionally causal.
#[kernel(D = [64, 128, 256], causal = [false, true])]
#[rustfmt::skip]
pub fn attention<B: Dim, H: Dim, G: Dim, S: Dim, T: Dim, const D: usize>(
    q: &Tensor<f16, (B, H, S, Const<D>)>, k: &Tensor<f16, (B, G, T, Const<D>)>, v: &Tensor<f16, (B, G, T, Const<D>)>,
    o: &mut Tensor<f16, (B, H, S, Const<D>)>, scale: f32, causal: bool,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let g = h / (H / G);
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in if causal { T.until(i.end()) } else { T } {
            let mut s = dot(q[(b, h, i, ..)], k[(b, g, j, ..)].t()) * scale;
            if causal { s = s.mask(|i, j| j <= i, f32::NEG_INFINITY); }
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

/// NHWC convolution as an implicit GEMM: no im2col buffer anywhere.
#[kernel]
#[rustfmt::skip]
#[allow(clippy::too_many_arguments)]
pub fn conv2d<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, H, W, C)>, w: &Tensor<f16, (K, R, S, C)>, bias: &Tensor<f16, (K,)>,
    y: &mut Tensor<f16, (N, P, Q, K)>, stride: i32, pad: i32, dilation: i32,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(R), each(S), C) {
            let window = x[(n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)];  // outside reads 0
            acc += dot(window, w[(ko, r, s, c)].t());
        });
        y[(n, p, q, ko)] = (acc + bias[ko].to::<f32>()).map(silu).to();
    });
}

/// Numbers between -1 and 1 without a pattern that a kernel could share.
fn noise(count: usize, seed: u32) -> Vec<f16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f16::from_f32(state as f32 / u32::MAX as f32 * 2.0 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn linear_relu_is_right() -> Result<(), Error> {
    let dev = Device::best()?;
    for (m, n, k) in [(128, 256, 64), (257, 131, 97), (1, 1, 1), (5, 7, 0)] {
        let a = dev.tensor(&noise(m * k, 1), (m, k))?;
        let b = dev.tensor(&noise(n * k, 2), (n, k))?;
        let bias = dev.tensor(&noise(n, 3), (n,))?;
        let mut c = dev.zeros::<f16, _>((m, n))?;
        linear_relu(&a, &b, &bias, &mut c).verify_with(Verify::All)?;
    }
    Ok(())
}

#[test]
fn attention_is_right() -> Result<(), Error> {
    let dev = Device::best()?;
    for (heads, groups, s, t) in [(4, 2, 200, 200), (3, 3, 77, 131)] {
        for causal in [false, true] {
            let shape = |heads: usize, length: usize| (1, heads, length, Const::<64>);
            let q = dev.tensor(&noise(heads * s * 64, 4), shape(heads, s))?;
            let k = dev.tensor(&noise(groups * t * 64, 5), shape(groups, t))?;
            let v = dev.tensor(&noise(groups * t * 64, 6), shape(groups, t))?;
            let mut o = dev.zeros::<f16, _>(shape(heads, s))?;
            attention(&q, &k, &v, &mut o, 0.125, causal).verify_with(Verify::All)?;
        }
    }
    Ok(())
}

#[test]
fn conv2d_is_right() -> Result<(), Error> {
    let dev = Device::best()?;
    for (c, k, size, r, stride, pad, dilation) in
        [(64, 64, 14, 3, 1, 1, 1), (67, 61, 9, 3, 2, 1, 2), (3, 8, 15, 5, 2, 2, 1)]
    {
        let out = (size + 2 * pad - dilation * (r - 1) - 1) / stride + 1;
        let x = dev.tensor(&noise(2 * size * size * c, 7), (2, size, size, c))?;
        let w = dev.tensor(&noise(k * r * r * c, 8), (k, r, r, c))?;
        let bias = dev.tensor(&noise(k, 9), (k,))?;
        let mut y = dev.zeros::<f16, _>((2, out, out, k))?;
        conv2d(&x, &w, &bias, &mut y, stride as i32, pad as i32, dilation as i32).verify_with(Verify::All)?;
    }
    Ok(())
}
