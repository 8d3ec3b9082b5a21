//! Attention in the forms that papers keep adding: biased by distance, within a window, with capped scores, with keys and values of
//! different sizes.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, BF16, Expected, F16, F32, sum};
use tracea::activation::sigmoid;
use tracea::prelude::*;

/// Scores fall with the distance between query and key, at a slope for each head ([ALiBi](https://arxiv.org/abs/2108.12409)).
#[kernel]
pub fn attention_alibi<B: Dim, H: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, H, S, Const<64>)>,
    k: &Tensor<f16, (B, H, T, Const<64>)>,
    v: &Tensor<f16, (B, H, T, Const<64>)>,
    slope: &Tensor<f32, (H,)>,
    o: &mut Tensor<f16, (B, H, S, Const<64>)>,
    scale: f32,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let distance = (iota(i) - iota(j)).abs().to::<f32>();
            let s = dot(q[(b, h, i, ..)], k[(b, h, j, ..)].t()) * scale - distance * slope[h];
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, h, j, ..)]);
            m = m_new;
        });
        o[(b, h, i, ..)] = (acc / l).to();
    });
}

/// A query sees itself and the `window − 1` keys before it; blocks of keys that no query of a block sees are not looked at.
#[kernel]
pub fn attention_window<B: Dim, S: Dim>(
    q: &Tensor<f16, (B, S, Const<64>)>,
    k: &Tensor<f16, (B, S, Const<64>)>,
    v: &Tensor<f16, (B, S, Const<64>)>,
    o: &mut Tensor<f16, (B, S, Const<64>)>,
    scale: f32,
    window: i32,
) {
    tile!(for (b, i) in (each(B), S) {
        // The least finite number, not −∞: a block may hold no key that a query sees, and the difference of two infinities is NaN.
        let mut m = full::<f32>(i, f32::MIN);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in S.range(i.start() - window + 1..i.end()) {
            let mut s = dot(q[(b, i, ..)], k[(b, j, ..)].t()) * scale;
            s = s.mask(|i, j| j <= i && i - j < window, f32::NEG_INFINITY);
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, j, ..)]);
            m = m_new;
        });
        o[(b, i, ..)] = (acc / l).to();
    });
}

/// Scores stay within `±cap` ([Gemma 2](https://arxiv.org/abs/2408.00118)).
#[kernel]
pub fn attention_capped<B: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, S, Const<128>)>,
    k: &Tensor<f16, (B, T, Const<128>)>,
    v: &Tensor<f16, (B, T, Const<128>)>,
    o: &mut Tensor<f16, (B, S, Const<128>)>,
    scale: f32,
    cap: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let s = dot(q[(b, i, ..)], k[(b, j, ..)].t()) * scale;
            let s = (s / cap).tanh() * cap;
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, j, ..)]);
            m = m_new;
        });
        o[(b, i, ..)] = (acc / l).to();
    });
}

/// Keys of D elements, values of E, causal ([DeepSeek-V2](https://arxiv.org/abs/2405.04434) has 192 and 128).
#[kernel(D = [192], E = [128])]
pub fn attention_two_sizes<B: Dim, S: Dim, const D: usize, const E: usize>(
    q: &Tensor<bf16, (B, S, Const<D>)>,
    k: &Tensor<bf16, (B, S, Const<D>)>,
    v: &Tensor<bf16, (B, S, Const<E>)>,
    o: &mut Tensor<bf16, (B, S, Const<E>)>,
    scale: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in S.until(i.end()) {
            let s = dot(q[(b, i, ..)], k[(b, j, ..)].t()) * scale;
            let s = s.mask(|i, j| j <= i, f32::NEG_INFINITY);
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<bf16>(), v[(b, j, ..)]);
            m = m_new;
        });
        o[(b, i, ..)] = (acc / l).to();
    });
}

/// Each element of the result has a gate of its own ([Gated Attention](https://arxiv.org/abs/2505.06708)).
#[kernel]
pub fn attention_gated<B: Dim, H: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, H, S, Const<128>)>,
    k: &Tensor<f16, (B, H, T, Const<128>)>,
    v: &Tensor<f16, (B, H, T, Const<128>)>,
    gate: &Tensor<f16, (B, H, S, Const<128>)>,
    o: &mut Tensor<f16, (B, H, S, Const<128>)>,
    scale: f32,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let s = dot(q[(b, h, i, ..)], k[(b, h, j, ..)].t()) * scale;
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, h, j, ..)]);
            m = m_new;
        });
        let opened = gate[(b, h, i, ..)].to::<f32>().map(sigmoid);
        o[(b, h, i, ..)] = (acc / l * opened).to();
    });
}

/// Neighbouring blocks of queries fetch keys and values for each other.
#[kernel]
#[schedule(sm_90a, i = 128, j = 128, stages = 2, consumers = 2, cluster = 2)]
#[schedule(sm_90a, i = 64, j = 64, stages = 3, consumers = 1, cluster = 2)]
pub fn attention_in_pairs<B: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, S, Const<128>)>,
    k: &Tensor<f16, (B, T, Const<128>)>,
    v: &Tensor<f16, (B, T, Const<64>)>,
    o: &mut Tensor<f16, (B, S, Const<64>)>,
    scale: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let s = dot(q[(b, i, ..)], k[(b, j, ..)].t()) * scale;
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, j, ..)]);
            m = m_new;
        });
        o[(b, i, ..)] = (acc / l).to();
    });
}

/// Keys and values lie in pages of 64, which each sequence has in an order of its own, as far as it is long.
#[kernel]
pub fn attention_paged<B: Dim, S: Dim, P: Dim, Z: Dim>(
    q: &Tensor<f16, (B, S, Const<128>)>,
    k: &Tensor<f16, (Z, Const<64>, Const<128>)>,
    v: &Tensor<f16, (Z, Const<64>, Const<128>)>,
    pages: &Tensor<i32, (B, P)>,
    length: &Tensor<i32, (B,)>,
    o: &mut Tensor<f16, (B, S, Const<128>)>,
    scale: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let length = length[b];
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for (p, j) in (each(P.until((length + 63) / 64)), Const::<64>) {
            let page = pages[(b, p)];
            let s =
                (dot(q[(b, i, ..)], k[(page, j, ..)].t()) * scale).mask(|_, j| 64 * p + j < length, f32::NEG_INFINITY);
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(page, j, ..)]);
            m = m_new;
        });
        o[(b, i, ..)] = (acc / l).to();
    });
}

/// Keys and values of all sequences one after another, from where each begins.
#[kernel]
pub fn attention_packed<B: Dim, S: Dim, Z: Dim>(
    q: &Tensor<f16, (B, S, Const<64>)>,
    k: &Tensor<f16, (Z, Const<64>)>,
    v: &Tensor<f16, (Z, Const<64>)>,
    start: &Tensor<i32, (B,)>,
    length: &Tensor<i32, (B,)>,
    o: &mut Tensor<f16, (B, S, Const<64>)>,
    scale: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let (start, length) = (start[b], length[b]);
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in S.until(length) {
            let s = (dot(q[(b, i, ..)], k[(start + j, ..)].t()) * scale).mask(|_, j| j < length, f32::NEG_INFINITY);
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(start + j, ..)]);
            m = m_new;
        });
        o[(b, i, ..)] = (acc / l).to();
    });
}

/// Queries, keys and values of one head after another.
pub struct Heads<'a> {
    pub q: &'a Array,
    pub k: &'a Array,
    pub v: &'a Array,
    /// Of the probabilities before their product with v.
    pub rounding: f64,
}

impl Heads<'_> {
    /// `score` makes of head, query, key and their product what the softmax takes, or nothing where the query does not see the key.
    pub fn reference(&self, score: impl Fn(usize, usize, usize, Expected) -> Option<Expected>) -> Vec<Expected> {
        let ([heads, queries, size], [_, keys, value_size]) = (self.q.shape(), self.v.shape());
        let mut o = Vec::new();
        for h in 0..heads {
            for i in 0..queries {
                let product = |j| sum((0..size).map(|d| self.q.at(&[h, i, d]) * self.k.at(&[h, j, d])), 0.0);
                let scores: Vec<_> = (0..keys).filter_map(|j| Some((j, score(h, i, j, product(j))?))).collect();
                let weights = Weights::of(&scores, self.rounding);
                o.extend((0..value_size).map(|d| weights.mean(|j| self.v.at(&[h, j, d]))));
            }
        }
        o
    }
}

/// The softmax of one query's scores.
pub struct Weights {
    /// Key, weight, and how far off the weight may be.
    keys: Vec<(usize, f64, f64)>,
    /// Of the denominator, relatively.
    pub blur: f64,
}

impl Weights {
    pub fn of(scores: &[(usize, Expected)], rounding: f64) -> Weights {
        let largest = scores.iter().map(|(_, score)| score.value).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|(_, score)| (score.value - largest).exp()).sum();
        // A score's own error moves its weight by as much, relatively; so do the error of the maximum and a step down for each block.
        let blur = |score: &Expected| {
            2.0 * score.slack + F32 * (16.0 + 4.0 * (largest - score.value) + 2.0 * scores.len() as f64)
        };
        let weight = |score: &Expected| (score.value - largest).exp() / total;
        let keys = scores.iter().map(|(j, score)| {
            // Weights below f16's normal numbers lose more than their relative rounding.
            let lost = rounding * weight(score) + 3e-8 / total;
            (*j, weight(score), weight(score) * blur(score) + lost)
        });
        Weights { keys: keys.collect(), blur: scores.iter().map(|(_, score)| weight(score) * blur(score)).sum() }
    }

    pub fn mean(&self, value: impl Fn(usize) -> f64) -> Expected {
        if self.keys.is_empty() {
            return f64::NAN.into();
        }
        let mean: f64 = self.keys.iter().map(|(j, weight, _)| weight * value(*j)).sum();
        let moved: f64 = self.keys.iter().map(|(j, _, error)| error * value(*j).abs()).sum();
        Expected { value: mean, slack: 1.01 * (moved + mean.abs() * self.blur) }
    }
}

/// Batch and heads as one axis.
pub fn merged(array: Array) -> Array {
    let [batch, heads, length, size] = array.shape();
    Array { sizes: vec![batch * heads, length, size], ..array }
}

/// Batch, heads, queries, keys.
pub const CROSS: Sizes = Sizes {
    fixed: &[
        &[0, 1, 4, 4],
        &[1, 1, 0, 4],
        &[1, 2, 4, 0],
        &[1, 1, 1, 1],
        &[1, 2, 37, 131],
        &[1, 1, 131, 17],
        &[2, 2, 64, 64],
    ],
    random: &[1..=2, 1..=2, 0..=140, 0..=140],
};

/// Batch, queries, keys.
const ONE_HEAD: Sizes = Sizes {
    fixed: &[&[0, 4, 4], &[1, 0, 4], &[2, 4, 0], &[1, 1, 1], &[2, 37, 131], &[1, 131, 17], &[2, 64, 64]],
    random: &[1..=2, 0..=140, 0..=140],
};

/// The same with more keys and queries; more blocks than multiprocessors are for GPUs.
const IN_PAIRS: Sizes = Sizes {
    fixed: &[&[0, 4, 4], &[1, 0, 4], &[2, 4, 0], &[1, 1, 1], &[2, 37, 531], &[1, 300, 17]],
    random: &[1..=2, 0..=400, 0..=140],
};

/// Batch, positions, window.
const WINDOWED: Sizes = Sizes {
    fixed: &[
        &[0, 4, 4],
        &[1, 0, 4],
        &[1, 1, 1],
        &[2, 37, 5],
        &[1, 131, 1],
        &[1, 257, 40],
        &[2, 128, 64],
        &[1, 200, 1000],
    ],
    random: &[1..=2, 0..=260, 1..=100],
};

/// Batch, queries, pages of each, pages in all.
const PAGED: Sizes = Sizes {
    fixed: &[&[0, 4, 1, 1], &[1, 0, 1, 1], &[2, 4, 0, 3], &[1, 1, 1, 1], &[2, 37, 3, 7], &[3, 131, 2, 4]],
    random: &[1..=3, 0..=140, 0..=4, 1..=6],
};

/// Batch, positions of the longest sequence, of all together.
const PACKED: Sizes = Sizes {
    fixed: &[&[0, 4, 9], &[2, 0, 9], &[2, 4, 0], &[1, 1, 1], &[2, 37, 65], &[3, 131, 500]],
    random: &[1..=3, 0..=140, 0..=400],
};

/// Batch, positions.
const POSITIONS: Sizes =
    Sizes { fixed: &[&[0, 4], &[1, 0], &[1, 1], &[2, 37], &[1, 131], &[2, 64]], random: &[1..=2, 0..=140] };

pub fn subjects() -> Vec<Subject> {
    let alibi = Subject::new("attention_alibi", CROSS, |setting, visit| {
        let [batch, heads, queries, keys] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batch, heads, queries, Const::<64>))?;
        let (k, k_values) = setting.input::<f16, _>((batch, heads, keys, Const::<64>))?;
        let (v, v_values) = setting.input::<f16, _>((batch, heads, keys, Const::<64>))?;
        let (slope, slopes) = setting.input::<f32, _>((heads,))?;
        let mut o = setting.output::<f16, _>((batch, heads, queries, Const::<64>))?;
        let scale = setting.one_of(&[0.125, -0.125, 2.5]);
        visit(attention_alibi(&*q.view()?, &*k.view()?, &*v.view()?, &*slope.view()?, &mut *o.view_mut()?, scale))?;
        Outcome::new(o, move || {
            let (q, k, v) = (merged(q_values), merged(k_values), merged(v_values));
            let bias =
                |h: usize, i: usize, j: usize| Expected::from(i.abs_diff(j) as f64).times(-slopes.at(&[h % heads]));
            Heads { q: &q, k: &k, v: &v, rounding: F16 }
                .reference(|h, i, j, product| Some(product.times(f64::from(scale)).plus(bias(h, i, j))))
        })
    });
    let window = Subject::new("attention_window", WINDOWED, |setting, visit| {
        let [batch, positions, window] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batch, positions, Const::<64>))?;
        let (k, k_values) = setting.input::<f16, _>((batch, positions, Const::<64>))?;
        let (v, v_values) = setting.input::<f16, _>((batch, positions, Const::<64>))?;
        let mut o = setting.output::<f16, _>((batch, positions, Const::<64>))?;
        let scale = setting.one_of(&[0.125, -0.125, 0.0, 2.5]);
        visit(attention_window(&*q.view()?, &*k.view()?, &*v.view()?, &mut *o.view_mut()?, scale, window as i32))?;
        Outcome::new(o, move || {
            let seen = |i: usize, j: usize| j <= i && i - j < window;
            Heads { q: &q_values, k: &k_values, v: &v_values, rounding: F16 }
                .reference(|_, i, j, product| seen(i, j).then(|| product.times(f64::from(scale))))
        })
    });
    let capped = Subject::new("attention_capped", ONE_HEAD, |setting, visit| {
        let [batch, queries, keys] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batch, queries, Const::<128>))?;
        let (k, k_values) = setting.input::<f16, _>((batch, keys, Const::<128>))?;
        let (v, v_values) = setting.input::<f16, _>((batch, keys, Const::<128>))?;
        let mut o = setting.output::<f16, _>((batch, queries, Const::<128>))?;
        let (scale, cap) = (0.25, 5.0);
        visit(attention_capped(&*q.view()?, &*k.view()?, &*v.view()?, &mut *o.view_mut()?, scale, cap))?;
        Outcome::new(o, move || {
            let (scale, cap) = (f64::from(scale), f64::from(cap));
            let capped = |score: Expected| score.times(1.0 / cap).then(f64::tanh).times(cap);
            Heads { q: &q_values, k: &k_values, v: &v_values, rounding: F16 }
                .reference(|_, _, _, product| Some(capped(product.times(scale))))
        })
    });
    let two_sizes = Subject::new("attention_two_sizes", POSITIONS, |setting, visit| {
        let [batch, positions] = setting.sizes()?;
        let (q, q_values) = setting.input::<bf16, _>((batch, positions, Const::<192>))?;
        let (k, k_values) = setting.input::<bf16, _>((batch, positions, Const::<192>))?;
        let (v, v_values) = setting.input::<bf16, _>((batch, positions, Const::<128>))?;
        let mut o = setting.output::<bf16, _>((batch, positions, Const::<128>))?;
        let scale = 0.0721;
        visit(attention_two_sizes(&*q.view()?, &*k.view()?, &*v.view()?, &mut *o.view_mut()?, scale))?;
        Outcome::new(o, move || {
            Heads { q: &q_values, k: &k_values, v: &v_values, rounding: BF16 }
                .reference(|_, i, j, product| (j <= i).then(|| product.times(f64::from(scale))))
        })
    });
    let gated = Subject::new("attention_gated", CROSS, |setting, visit| {
        let [batch, heads, queries, keys] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batch, heads, queries, Const::<128>))?;
        let (k, k_values) = setting.input::<f16, _>((batch, heads, keys, Const::<128>))?;
        let (v, v_values) = setting.input::<f16, _>((batch, heads, keys, Const::<128>))?;
        let (gate, gates) = setting.input::<f16, _>((batch, heads, queries, Const::<128>))?;
        let mut o = setting.output::<f16, _>((batch, heads, queries, Const::<128>))?;
        let scale = 0.088;
        visit(attention_gated(&*q.view()?, &*k.view()?, &*v.view()?, &*gate.view()?, &mut *o.view_mut()?, scale))?;
        Outcome::new(o, move || {
            let (q, k, v) = (merged(q_values), merged(k_values), merged(v_values));
            let plain = Heads { q: &q, k: &k, v: &v, rounding: F16 }
                .reference(|_, _, _, product| Some(product.times(f64::from(scale))));
            let opened = gates.values.iter().map(|gate| Expected::from(*gate).then(|gate| 1.0 / (1.0 + (-gate).exp())));
            plain.into_iter().zip(opened).map(|(value, opened)| value.times(opened)).collect()
        })
    });
    let in_pairs = Subject::new("attention_in_pairs", IN_PAIRS, |setting, visit| {
        let [batch, queries, keys] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batch, queries, Const::<128>))?;
        let (k, k_values) = setting.input::<f16, _>((batch, keys, Const::<128>))?;
        let (v, v_values) = setting.input::<f16, _>((batch, keys, Const::<64>))?;
        let mut o = setting.output::<f16, _>((batch, queries, Const::<64>))?;
        let scale = 0.088;
        visit(attention_in_pairs(&*q.view()?, &*k.view()?, &*v.view()?, &mut *o.view_mut()?, scale))?;
        Outcome::new(o, move || {
            Heads { q: &q_values, k: &k_values, v: &v_values, rounding: F16 }
                .reference(|_, _, _, product| Some(product.times(f64::from(scale))))
        })
    })
    .in_waves(&[&[140, 131, 24]]);
    let paged = Subject::new("attention_paged", PAGED, |setting, visit| {
        const PAGE: usize = 64;
        let [batch, queries, pages, in_all] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batch, queries, Const::<128>))?;
        let (k, k_values) = setting.input::<f16, _>((in_all, Const::<PAGE>, Const::<128>))?;
        let (v, v_values) = setting.input::<f16, _>((in_all, Const::<PAGE>, Const::<128>))?;
        let (table, order) = setting.integers((batch, pages), 0..in_all as i32)?;
        let (length, lengths) = setting.integers((batch,), 0..(pages * PAGE) as i32 + 1)?;
        let mut o = setting.output::<f16, _>((batch, queries, Const::<128>))?;
        let scale = 0.088;
        visit(attention_paged(
            &*q.view()?,
            &*k.view()?,
            &*v.view()?,
            &*table.view()?,
            &*length.view()?,
            &mut *o.view_mut()?,
            scale,
        ))?;
        Outcome::new(o, move || {
            let in_order = |stored: Array| {
                let [_, page, size] = stored.shape();
                let of_page =
                    |number: &f64| stored.values.iter().copied().skip(*number as usize * page * size).take(page * size);
                Array {
                    sizes: vec![batch, pages * page, size],
                    values: order.values.iter().flat_map(of_page).collect(),
                }
            };
            let (k, v) = (in_order(k_values), in_order(v_values));
            let seen = |b: usize, j: usize| (j as f64) < lengths.at(&[b]);
            Heads { q: &q_values, k: &k, v: &v, rounding: F16 }
                .reference(|b, _, j, product| seen(b, j).then(|| product.times(f64::from(scale))))
        })
    });
    let packed = Subject::new("attention_packed", PACKED, |setting, visit| {
        let [batch, longest, rows] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batch, longest, Const::<64>))?;
        let (length, lengths) = setting.integers((batch,), 0..longest.min(rows) as i32 + 1)?;
        let (start, starts) = setting.integers((batch,), 0..rows.saturating_sub(longest) as i32 + 1)?;
        // What is in no sequence is no number.
        let sequences = || starts.values.iter().zip(&lengths.values);
        let is_read = |row: usize| sequences().any(|(start, length)| (*start..start + length).contains(&(row as f64)));
        let (k, k_values) = setting.input_in_rows::<f16, _>((rows, Const::<64>), is_read)?;
        let (v, v_values) = setting.input_in_rows::<f16, _>((rows, Const::<64>), is_read)?;
        let mut o = setting.output::<f16, _>((batch, longest, Const::<64>))?;
        let scale = 0.125;
        visit(attention_packed(
            &*q.view()?,
            &*k.view()?,
            &*v.view()?,
            &*start.view()?,
            &*length.view()?,
            &mut *o.view_mut()?,
            scale,
        ))?;
        Outcome::new(o, move || {
            let apart = |all: &Array| {
                let element =
                    |start: &f64, at: usize| all.values.get(*start as usize * 64 + at).copied().unwrap_or(0.0);
                let of_sequence = |start: &f64| (0..longest * 64).map(|at| element(start, at)).collect::<Vec<_>>();
                Array { sizes: vec![batch, longest, 64], values: starts.values.iter().flat_map(of_sequence).collect() }
            };
            let (k, v) = (apart(&k_values), apart(&v_values));
            let seen = |b: usize, j: usize| (j as f64) < lengths.at(&[b]);
            Heads { q: &q_values, k: &k, v: &v, rounding: F16 }
                .reference(|b, _, j, product| seen(b, j).then(|| product.times(f64::from(scale))))
        })
    });
    vec![alibi, window, capped, two_sizes, gated, in_pairs, paged, packed]
}
