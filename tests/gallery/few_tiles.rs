//! Few tiles whose loops are long, so that several blocks share out the steps: a softmax's running maximum, and the sums that are relative to
//! it, are put together from what each of them has.

use crate::attention::{Heads, Weights};
use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, F16, F32, sum};
use tracea::prelude::*;

/// A new token's queries that share their keys, over sequences as far as they are long.
#[kernel(D = [64, 128])]
pub fn attention_decode<B: Dim, G: Dim, R: Dim, T: Dim, const D: usize>(
    q: &Tensor<f16, (B, G, R, Const<D>)>,
    k: &Tensor<f16, (B, T, G, Const<D>)>,
    v: &Tensor<f16, (B, T, G, Const<D>)>,
    length: &Tensor<i32, (B,)>,
    o: &mut Tensor<f16, (B, G, R, Const<D>)>,
    scale: f32,
) {
    tile!(for (b, g, i) in (each(B), each(G), R) {
        let length = length[b];
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T.until(length) {
            let s = (dot(q[(b, g, i, ..)], k[(b, j, g, ..)].t()) * scale).mask(|_, j| j < length, f32::NEG_INFINITY);
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, j, g, ..)]);
            m = m_new;
        });
        o[(b, g, i, ..)] = (acc / l).to();
    });
}

/// Cross entropy of a product whose columns are never in memory.
#[kernel]
pub fn linear_cross_entropy<M: Dim, V: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (V, K)>,
    target: &Tensor<i32, (M,)>,
    loss: &mut Tensor<f32, (M,)>,
) {
    tile!(for i in M {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut at_target = zeros::<f32>(i);
        tile!(for j in V {
            let mut s = zeros::<f32>((i, j));
            tile!(for k in K {
                s += dot(x[(i, k)], w[(j, k)].t());
            });
            let m_new = m.max(s.row_max());
            l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
            at_target += iota(j).eq(target[i]).select(s, 0.0).row_sum();
            m = m_new;
        });
        loss[i] = m + l.log() - at_target;
    });
}

/// log Σ exp of each row.
#[kernel]
pub fn log_sums_of_rows<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        tile!(for j in N {
            let v = x[(i, j)];
            let m_new = m.max(v.row_max());
            l = l * (m - m_new).exp() + (v - m_new).exp().row_sum();
            m = m_new;
        });
        y[i] = m + l.log();
    });
}

/// And of each column.
#[kernel]
pub fn log_sums_of_columns<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>) {
    tile!(for j in N {
        let mut m = full::<f32>(j, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(j);
        tile!(for i in M {
            let v = x[(i, j)];
            let m_new = m.max(v.col_max());
            l = l * (m - m_new).exp() + (v - m_new).exp().col_sum();
            m = m_new;
        });
        y[j] = m + l.log();
    });
}

fn log_sum(scores: impl Iterator<Item = Expected>) -> Expected {
    let scores: Vec<(usize, Expected)> = scores.enumerate().collect();
    let largest = scores.iter().map(|(_, score)| score.value).fold(f64::NEG_INFINITY, f64::max);
    if scores.is_empty() {
        return largest.into();
    }
    let log = scores.iter().map(|(_, score)| (score.value - largest).exp()).sum::<f64>().ln();
    let blur = Weights::of(&scores, 0.0).blur;
    Expected { value: largest + log, slack: blur + 16.0 * F32 * (largest.abs() + log.abs()) }
}

/// Batch, groups, queries of each, keys.
const TOKENS: Sizes = Sizes {
    fixed: &[
        &[0, 1, 1, 4],
        &[1, 1, 0, 4],
        &[2, 1, 4, 0],
        &[1, 1, 1, 1],
        &[2, 2, 3, 131],
        &[1, 1, 70, 500],
        &[2, 1, 8, 4099],
    ],
    random: &[1..=2, 1..=2, 1..=9, 0..=3000],
};

/// Rows, columns, terms.
const LOGITS: Sizes = Sizes {
    fixed: &[&[0, 4, 4], &[1, 1, 1], &[3, 4, 0], &[37, 131, 17], &[129, 1031, 40], &[70, 3001, 136]],
    random: &[0..=140, 1..=2000, 0..=100],
};

const LONG: Sizes = Sizes {
    fixed: &[&[0, 5], &[5, 0], &[1, 1], &[3, 1], &[61, 257], &[3000, 7], &[20011, 2], &[2, 100_003]],
    random: &[0..=300, 0..=3000],
};

pub fn subjects() -> Vec<Subject> {
    let decode_64 = Subject::new("attention_decode", TOKENS, |setting, visit| {
        let [batch, groups, queries, keys] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batch, groups, queries, Const::<64>))?;
        let (k, k_values) = setting.input::<f16, _>((batch, keys, groups, Const::<64>))?;
        let (v, v_values) = setting.input::<f16, _>((batch, keys, groups, Const::<64>))?;
        let (length, lengths) = setting.integers((batch,), 0..keys as i32 + 1)?;
        let mut o = setting.output::<f16, _>((batch, groups, queries, Const::<64>))?;
        let scale = 0.125;
        visit(attention_decode(&*q.view()?, &*k.view()?, &*v.view()?, &*length.view()?, &mut *o.view_mut()?, scale))?;
        Outcome::new(o, move || {
            let merged = |sizes: [usize; 3], values: Vec<f64>| Array { sizes: sizes.to_vec(), values };
            let by_group = |all: &Array| {
                let at = |h: usize, j: usize, d: usize| all.at(&[h / groups, j, h % groups, d]);
                let row = |h: usize, j: usize| (0..64).map(move |d| at(h, j, d)).collect::<Vec<_>>();
                let values = (0..batch * groups).flat_map(|h| (0..keys).flat_map(move |j| row(h, j))).collect();
                merged([batch * groups, keys, 64], values)
            };
            let q = merged([batch * groups, queries, 64], q_values.values);
            let (k, v) = (by_group(&k_values), by_group(&v_values));
            let seen = |h: usize, j: usize| (j as f64) < lengths.at(&[h / groups]);
            Heads { q: &q, k: &k, v: &v, rounding: F16 }
                .reference(|h, _, j, product| seen(h, j).then(|| product.times(f64::from(scale))))
        })
    });
    let cross_entropy = Subject::new("linear_cross_entropy", LOGITS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((n, k))?;
        let (target, targets) = setting.integers((m,), 0..n as i32)?;
        let mut loss = setting.output::<f32, _>((m,))?;
        visit(linear_cross_entropy(&*x.view()?, &*w.view()?, &*target.view()?, &mut *loss.view_mut()?))?;
        Outcome::new(loss, move || {
            let logit = |i: usize, j: usize| sum((0..k).map(|k| x_values.at(&[i, k]) * w_values.at(&[j, k])), 0.0);
            let row = |i: usize| {
                let at_target = logit(i, targets.at(&[i]) as usize);
                log_sum((0..n).map(|j| logit(i, j))).plus(at_target.times(-1.0))
            };
            (0..m).map(row).collect()
        })
    });
    let of_rows = Subject::new("log_sums_of_rows", LONG, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, values) = setting.input::<f32, _>((m, n))?;
        let mut y = setting.output::<f32, _>((m,))?;
        visit(log_sums_of_rows(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || (0..m).map(|i| log_sum((0..n).map(|j| values.at(&[i, j]).into()))).collect())
    });
    let of_columns = Subject::new("log_sums_of_columns", LONG, |setting, visit| {
        let [n, m] = setting.sizes()?;
        let (x, values) = setting.input::<f32, _>((m, n))?;
        let mut y = setting.output::<f32, _>((n,))?;
        visit(log_sums_of_columns(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || (0..n).map(|j| log_sum((0..m).map(|i| values.at(&[i, j]).into()))).collect())
    });
    vec![decode_64, cross_entropy, of_rows, of_columns]
}
