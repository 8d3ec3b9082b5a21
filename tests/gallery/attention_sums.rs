//! Attention that tells of its sums: their logarithms, as the gradients want them, the weight of the best key, or sums that begin with a
//! learned sink.

use crate::attention::{CROSS, Heads, Weights, merged};
use crate::case::{Outcome, Setting, Stored, Subject};
use crate::expected::{Array, Expected, F16, F32, sum};
use libtest_mimic::Failed;
use std::f32::consts;
use tracea::prelude::*;

/// With the logarithm of each query's sum of exponentials.
#[kernel]
pub fn attention_log_sums<B: Dim, H: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, H, S, Const<64>)>,
    k: &Tensor<f16, (B, H, T, Const<64>)>,
    v: &Tensor<f16, (B, H, T, Const<64>)>,
    o: &mut Tensor<f16, (B, H, S, Const<64>)>,
    log_sums: &mut Tensor<f32, (B, H, S)>,
    temperature: f32,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let s = dot(q[(b, h, i, ..)], k[(b, h, j, ..)].t()) / temperature;
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, h, j, ..)]);
            m = m_new;
        });
        o[(b, h, i, ..)] = (acc / l).to();
        log_sums[(b, h, i)] = m + l.ln();
    });
}

/// With the weight of the key that each query looks at most.
#[kernel]
pub fn attention_peaks<B: Dim, H: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, H, S, Const<64>)>,
    k: &Tensor<f16, (B, H, T, Const<64>)>,
    v: &Tensor<f16, (B, H, T, Const<64>)>,
    o: &mut Tensor<f16, (B, H, S, Const<64>)>,
    peaks: &mut Tensor<f32, (B, H, S)>,
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
        o[(b, h, i, ..)] = (acc / l).to();
        peaks[(b, h, i)] = 1.0 / l;
    });
}

/// Each head's queries may look at nothing, which has a score of its own ([gpt-oss](https://arxiv.org/abs/2508.10925)); by powers of two.
#[kernel]
pub fn attention_sinks<B: Dim, H: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, H, S, Const<64>)>,
    k: &Tensor<f16, (B, H, T, Const<64>)>,
    v: &Tensor<f16, (B, H, T, Const<64>)>,
    sink: &Tensor<f32, (H,)>,
    o: &mut Tensor<f16, (B, H, S, Const<64>)>,
    scale: f32,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let mut m = zeros::<f32>(i) + sink[h] * consts::LOG2_E;
        let mut l = full::<f32>(i, 1.0);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let s = dot(q[(b, h, i, ..)], k[(b, h, j, ..)].t()) * (scale * consts::LOG2_E);
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp2();
            let fade = (m - m_new).exp2();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, h, j, ..)]);
            m = m_new;
        });
        o[(b, h, i, ..)] = (acc / l).to();
    });
}

/// What each query scores, key by key.
fn scores(q: &Array, k: &Array, score: impl Fn(usize, Expected) -> Expected) -> Vec<Vec<(usize, Expected)>> {
    let ([heads, queries, size], [_, keys, _]) = (q.shape(), k.shape());
    let product = |h, i, j| sum((0..size).map(|d| q.at(&[h, i, d]) * k.at(&[h, j, d])), 0.0);
    let rows = (0..heads).flat_map(|h| (0..queries).map(move |i| (h, i)));
    rows.map(|(h, i)| (0..keys).map(|j| (j, score(h, product(h, i, j)))).collect()).collect()
}

fn log_sum(scores: &[(usize, Expected)]) -> Expected {
    let largest = scores.iter().map(|(_, score)| score.value).fold(f64::NEG_INFINITY, f64::max);
    if scores.is_empty() {
        return f64::NEG_INFINITY.into();
    }
    let total: f64 = scores.iter().map(|(_, score)| (score.value - largest).exp()).sum();
    let value = largest + total.ln();
    // The sum's relative error is its logarithm's; the extreme may be any number that is not too far.
    let slack = Weights::of(scores, 0.0).blur + 4.0 * F32 * (largest.abs() + total.ln() + 16.0);
    Expected { value, slack }
}

fn peak(scores: &[(usize, Expected)]) -> Expected {
    if scores.is_empty() {
        return f64::INFINITY.into();
    }
    let largest = scores.iter().map(|(_, score)| score.value).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|(_, score)| (score.value - largest).exp()).sum();
    // What moves the maximum moves all.
    let moved = scores.iter().map(|(_, score)| score.slack).fold(0.0, f64::max);
    Expected { value: 1.0 / total, slack: 1.1 * (Weights::of(scores, 0.0).blur + 2.0 * moved + 8.0 * F32) / total }
}

const D: usize = 64;

type Rows = Stored<f16, (usize, usize, usize, Const<D>)>;

/// Tensors of a setting's sizes, and what queries, keys and values hold, batch and heads as one axis.
struct Tensors {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    q: Rows,
    k: Rows,
    v: Rows,
    o: Rows,
    values: [Array; 3],
}

impl Tensors {
    fn of(setting: &Setting) -> Result<Tensors, Failed> {
        let [batch, heads, queries, keys] = setting.sizes()?;
        let rows = |rows: usize| setting.input::<f16, _>((batch, heads, rows, Const::<D>));
        let ((q, of_q), (k, of_k), (v, of_v)) = (rows(queries)?, rows(keys)?, rows(keys)?);
        let o = setting.output::<f16, _>((batch, heads, queries, Const::<D>))?;
        Ok(Tensors { batch, heads, queries, keys, q, k, v, o, values: [of_q, of_k, of_v].map(merged) })
    }
}

/// What attention gives, and beside it what `sums` makes of each query's scores.
fn with_sums(
    (o, sums): (Rows, Stored<f32, (usize, usize, usize)>),
    [q, k, v]: [Array; 3],
    score: impl Fn(Expected) -> Expected + Clone + 'static,
    of_scores: fn(&[(usize, Expected)]) -> Expected,
) -> Result<Outcome, Failed> {
    let (q_of, k_of, score_of) = (q.clone(), k.clone(), score.clone());
    let mean = move || Heads { q: &q, k: &k, v: &v, rounding: F16 }.reference(|_, _, _, product| Some(score(product)));
    Outcome::new(o, mean)?.and(sums, move || {
        scores(&q_of, &k_of, |_, product| score_of(product)).iter().map(|row| of_scores(row)).collect()
    })
}

pub fn subjects() -> Vec<Subject> {
    let log_sums = Subject::new("attention_log_sums", CROSS, |setting, visit| {
        let Tensors { batch, heads, queries, q, k, v, mut o, values, .. } = Tensors::of(setting)?;
        let mut sums = setting.output::<f32, _>((batch, heads, queries))?;
        let by = setting.one_of(&[8.0, 1.0, -3.0]);
        visit(attention_log_sums(
            &*q.view()?,
            &*k.view()?,
            &*v.view()?,
            &mut *o.view_mut()?,
            &mut *sums.view_mut()?,
            by,
        ))?;
        let by = 1.0 / f64::from(by);
        // By a reciprocal, which was rounded too.
        with_sums((o, sums), values, move |product| product.times(by).times(1.0), log_sum)
    });
    let peaks = Subject::new("attention_peaks", CROSS, |setting, visit| {
        let Tensors { batch, heads, queries, q, k, v, mut o, values, .. } = Tensors::of(setting)?;
        let mut peaks = setting.output::<f32, _>((batch, heads, queries))?;
        let scale = setting.one_of(&[0.125, -0.125, 1.0]);
        visit(attention_peaks(
            &*q.view()?,
            &*k.view()?,
            &*v.view()?,
            &mut *o.view_mut()?,
            &mut *peaks.view_mut()?,
            scale,
        ))?;
        let scale = f64::from(scale);
        with_sums((o, peaks), values, move |product| product.times(scale), peak)
    });
    let sinks = Subject::new("attention_sinks", CROSS, |setting, visit| {
        let Tensors { heads, queries, keys, q, k, v, mut o, values: [q_of, k_of, v_of], .. } = Tensors::of(setting)?;
        let (sink, sink_values) = setting.input::<f32, _>((heads,))?;
        let scale = setting.one_of(&[0.125, -0.125, 1.0]);
        visit(attention_sinks(&*q.view()?, &*k.view()?, &*v.view()?, &*sink.view()?, &mut *o.view_mut()?, scale))?;
        let scale = f64::from(scale);
        Outcome::new(o, move || {
            let rows = scores(&q_of, &k_of, |_, product| product.times(scale).times(1.0));
            let means = rows.into_iter().enumerate().flat_map(|(row, mut scores)| {
                let h = row / queries.max(1);
                // A key of its own, whose value is zero.
                scores.push((keys, Expected::from(sink_values.at(&[h % heads])).times(1.0)));
                let weights = Weights::of(&scores, F16);
                let value = |d: usize| weights.mean(|j| if j < keys { v_of.at(&[h, j, d]) } else { 0.0 });
                (0..D).map(value).collect::<Vec<_>>()
            });
            means.collect()
        })
    });
    vec![log_sums, peaks, sinks]
}
