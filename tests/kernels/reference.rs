//! What the kernels should give: plain loops in f64 over plain arrays, written apart from the language.

use crate::expected::{Array, Expected, F32, sum};

pub fn identity(x: f64) -> f64 {
    x
}

pub fn relu(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.0 }
}

pub fn gelu(x: f64) -> f64 {
    x * 0.5 * libm::erfc(-x / 2f64.sqrt())
}

pub fn gelu_tanh(x: f64) -> f64 {
    x / (1.0 + (-2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).exp())
}

pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// `op(a) · op(b)`, row-major.
pub fn gemm(a: &Array, b: &Array, ta: bool, tb: bool, rounding: f64) -> Vec<Expected> {
    let (m, k) = if ta { (a.sizes[1], a.sizes[0]) } else { (a.sizes[0], a.sizes[1]) };
    let n = if tb { b.sizes[0] } else { b.sizes[1] };
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let a = |p| if ta { a.at(&[p, i]) } else { a.at(&[i, p]) };
            let b = |p| if tb { b.at(&[j, p]) } else { b.at(&[p, j]) };
            c.push(sum((0..k).map(|p| a(p) * b(p)), rounding));
        }
    }
    c
}

pub fn gemm_batched(a: &Array, b: &Array) -> Vec<Expected> {
    let [batch, m, k] = a.sizes[..] else { panic!("a has rank 3") };
    let n = b.sizes[2];
    let mut c = Vec::new();
    for s in 0..batch {
        for i in 0..m {
            for j in 0..n {
                c.push(sum((0..k).map(|p| a.at(&[s, i, p]) * b.at(&[s, p, j])), 0.0));
            }
        }
    }
    c
}

pub fn linear(x: &Array, w: &Array, bias: &Array, residual: Option<&Array>, act: fn(f64) -> f64) -> Vec<Expected> {
    let n = w.sizes[0];
    let product = gemm(x, w, false, true, 0.0);
    let finish = |(at, sum): (usize, Expected)| {
        let (i, j) = (at / n, at % n);
        let activated = sum.plus(bias.at(&[j])).then(act);
        residual.map_or(activated, |residual| activated.plus(residual.at(&[i, j])))
    };
    product.into_iter().enumerate().map(finish).collect()
}

/// Sizes of the output, and how the window walks.
pub struct Window {
    pub output: [usize; 4],
    pub stride: usize,
    pub pad: usize,
    pub dilation: usize,
}

/// `act(conv(x, w) · scale + shift + residual)`.
pub fn conv2d(
    x: &Array,
    w: &Array,
    scale: Option<&Array>,
    shift: &Array,
    residual: Option<&Array>,
    window: &Window,
    act: fn(f64) -> f64,
) -> Vec<Expected> {
    let [_, height, width, channels] = x.sizes[..] else { panic!("x has rank 4") };
    let [_, rows, cols, _] = w.sizes[..] else { panic!("w has rank 4") };
    let mut y = Vec::new();
    let [images, high, wide, channels_out] = window.output;
    for n in 0..images {
        for p in 0..high {
            for q in 0..wide {
                for k in 0..channels_out {
                    let mut terms = Vec::new();
                    for r in 0..rows {
                        for s in 0..cols {
                            let row = (p * window.stride + r * window.dilation).checked_sub(window.pad);
                            let col = (q * window.stride + s * window.dilation).checked_sub(window.pad);
                            if let (Some(row), Some(col)) = (row, col)
                                && row < height
                                && col < width
                            {
                                terms.extend((0..channels).map(|c| x.at(&[n, row, col, c]) * w.at(&[k, r, s, c])));
                            }
                        }
                    }
                    let scaled = sum(terms.into_iter(), 0.0).times(scale.map_or(1.0, |scale| scale.at(&[k])));
                    let shifted = scaled.plus(shift.at(&[k]));
                    let whole = residual.map_or(shifted, |residual| shifted.plus(residual.at(&[n, p, q, k])));
                    y.push(whole.then(act));
                }
            }
        }
    }
    y
}

/// `softmax(q · kᵀ · scale) · v`; `rounding` is that of the probabilities before their product with v.
pub fn attention(q: &Array, k: &Array, v: &Array, scale: f64, causal: bool, rounding: f64) -> Vec<Expected> {
    let [batch, heads, length, size] = q.sizes[..] else { panic!("q has rank 4") };
    let [_, groups, keys, _] = k.sizes[..] else { panic!("k has rank 4") };
    let mut o = Vec::new();
    for b in 0..batch {
        for h in 0..heads {
            let g = h / (heads / groups);
            for i in 0..length {
                let seen = if causal { keys.min(i + 1) } else { keys };
                let score =
                    |j: usize| (0..size).map(|d| q.at(&[b, h, i, d]) * k.at(&[b, g, j, d])).sum::<f64>() * scale;
                let scores: Vec<f64> = (0..seen).map(score).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let total: f64 = weights.iter().sum();
                // A score's own error moves its weight by as much, relatively.
                let blur = rounding + F32 * (64.0 + 4.0 * size as f64 * (1.0 + largest.abs()));
                for d in 0..size {
                    let terms = || (0..seen).map(|j| weights[j] / total * v.at(&[b, g, j, d]));
                    let value = if seen == 0 { f64::NAN } else { terms().sum() };
                    o.push(Expected { value, slack: 2.0 * blur * terms().map(f64::abs).sum::<f64>() });
                }
            }
        }
    }
    o
}

pub fn softmax(x: &Array) -> Vec<Expected> {
    let row = |row: &[f64]| {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        let blur = |x: f64| F32 * (row.len() as f64 + 16.0 + 4.0 * (x - largest).abs());
        let each =
            |x: &f64| Expected { value: (x - largest).exp() / total, slack: blur(*x) * (x - largest).exp() / total };
        row.iter().map(each).collect::<Vec<_>>()
    };
    x.rows().flat_map(row).collect()
}

pub fn layer_norm(x: &Array, gamma: &Array, beta: &Array, epsilon: f64) -> Vec<Expected> {
    let row = |row: &[f64]| {
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let magnitude = row.iter().map(|x| x.abs()).sum::<f64>() / count;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let rate = 1.0 / (variance + epsilon).sqrt();
        let slack = F32 * (2.0 * count + 16.0);
        let each = |(j, x): (usize, &f64)| {
            let (gamma, beta) = (gamma.at(&[j]), beta.at(&[j]));
            let (centred, shift) = (x - mean, magnitude + x.abs());
            // The mean's error moves this element, and through the variance all of them.
            let sensitivity = shift * rate * (1.0 + (centred * rate).abs());
            Expected { value: centred * rate * gamma + beta, slack: slack * (sensitivity * gamma.abs() + beta.abs()) }
        };
        row.iter().enumerate().map(each).collect::<Vec<_>>()
    };
    x.rows().flat_map(row).collect()
}

pub fn rms_norm(x: &Array, gamma: &Array, epsilon: f64) -> Vec<Expected> {
    let row = |row: &[f64]| {
        let squares = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        let rate = 1.0 / (squares + epsilon).sqrt();
        let slack = F32 * (row.len() as f64 + 16.0);
        let each = |(j, x): (usize, &f64)| {
            let value = x * rate * gamma.at(&[j]);
            Expected { value, slack: slack * value.abs() }
        };
        row.iter().enumerate().map(each).collect::<Vec<_>>()
    };
    x.rows().flat_map(row).collect()
}
