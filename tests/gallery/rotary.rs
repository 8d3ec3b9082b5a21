//! Attention over positions that turn queries and keys ([RoPE](https://arxiv.org/abs/2104.09864)) as they are read: both operands of the
//! first product are computed, the queries' again at each step over the keys.

use crate::attention::Weights;
use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, F16, total};
use tracea::prelude::*;

#[kernel]
pub fn attention_rotary<B: Dim, S: Dim>(
    q: &Tensor<f16, (B, S, Const<128>)>,
    k: &Tensor<f16, (B, S, Const<128>)>,
    v: &Tensor<f16, (B, S, Const<128>)>,
    cosine: &Tensor<f32, (S, Const<64>)>,
    sine: &Tensor<f32, (S, Const<64>)>,
    o: &mut Tensor<f16, (B, S, Const<128>)>,
    scale: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in S {
            let mut s = zeros::<f32>((i, j));
            tile!(for d in Const::<64> {
                let (q0, q1) = (q[(b, i, d + 0)].to::<f32>(), q[(b, i, d + 64)].to::<f32>());
                let (k0, k1) = (k[(b, j, d + 0)].to::<f32>(), k[(b, j, d + 64)].to::<f32>());
                let first = (q0 * cosine[(i, d)] - q1 * sine[(i, d)]).to::<f16>();
                let second = (q1 * cosine[(i, d)] + q0 * sine[(i, d)]).to::<f16>();
                s += dot(first, (k0 * cosine[(j, d)] - k1 * sine[(j, d)]).to::<f16>().t());
                s += dot(second, (k1 * cosine[(j, d)] + k0 * sine[(j, d)]).to::<f16>().t());
            });
            let s = s * scale;
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

const SCALE: f32 = 0.088;

/// One row, turned to its position.
fn turned(x: &Array, [b, at]: [usize; 2], cosine: &Array, sine: &Array) -> Vec<Expected> {
    let half = |d: usize, sign: f64| {
        let other = Expected::from(x.at(&[b, at, (d + 64) % 128])).times(sign * sine.at(&[at, d % 64]));
        total([Expected::from(x.at(&[b, at, d])).times(cosine.at(&[at, d % 64])), other].into_iter()).rounded(F16)
    };
    (0..64).map(|d| half(d, -1.0)).chain((64..128).map(|d| half(d, 1.0))).collect()
}

fn reference(q: &Array, k: &Array, v: &Array, cosine: &Array, sine: &Array) -> Vec<Expected> {
    let [batches, positions, size] = q.shape();
    let mut o = Vec::new();
    for b in 0..batches {
        let keys: Vec<Vec<Expected>> = (0..positions).map(|j| turned(k, [b, j], cosine, sine)).collect();
        for i in 0..positions {
            let query = turned(q, [b, i], cosine, sine);
            let product = |key: &Vec<Expected>| total(query.iter().zip(key).map(|(x, y)| x.times(*y)));
            let scores: Vec<_> = keys.iter().map(|key| product(key).times(f64::from(SCALE))).enumerate().collect();
            let weights = Weights::of(&scores, F16);
            o.extend((0..size).map(|d| weights.mean(|j| v.at(&[b, j, d]))));
        }
    }
    o
}

/// Batches, positions.
const POSITIONS: Sizes =
    Sizes { fixed: &[&[0, 5], &[1, 1], &[2, 64], &[1, 131], &[2, 200]], random: &[1..=2, 1..=220] };

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("attention_rotary", POSITIONS, |setting, visit| {
        let [batches, positions] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batches, positions, Const::<128>))?;
        let (k, k_values) = setting.input::<f16, _>((batches, positions, Const::<128>))?;
        let (v, v_values) = setting.input::<f16, _>((batches, positions, Const::<128>))?;
        let (cosine, cosines) = setting.input::<f32, _>((positions, Const::<64>))?;
        let (sine, sines) = setting.input::<f32, _>((positions, Const::<64>))?;
        let mut o = setting.output::<f16, _>((batches, positions, Const::<128>))?;
        visit(attention_rotary(
            &*q.view()?,
            &*k.view()?,
            &*v.view()?,
            &*cosine.view()?,
            &*sine.view()?,
            &mut *o.view_mut()?,
            SCALE,
        ))?;
        Outcome::new(o, move || reference(&q_values, &k_values, &v_values, &cosines, &sines))
    })]
}
