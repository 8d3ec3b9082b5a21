//! The way back through attention for keys and values: four products in a loop, of which two multiply what the others gave, the other
//! way round.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, F16, sum, total};
use tracea::prelude::*;

/// `dv = pᵀ · dy` and `dk = (p · (dy · vᵀ − delta) · scale)ᵀ · q` for `p = exp(q · kᵀ · scale − lse)`
#[kernel]
pub fn attention_backward<B: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, S, Const<64>)>,
    k: &Tensor<f16, (B, T, Const<64>)>,
    v: &Tensor<f16, (B, T, Const<64>)>,
    dy: &Tensor<f16, (B, S, Const<64>)>,
    lse: &Tensor<f32, (B, S)>,
    delta: &Tensor<f32, (B, S)>,
    dk: &mut Tensor<f16, (B, T, Const<64>)>,
    dv: &mut Tensor<f16, (B, T, Const<64>)>,
    scale: f32,
) {
    tile!(for (b, j) in (each(B), T) {
        let mut keys = zeros::<f32>((j, ..));
        let mut values = zeros::<f32>((j, ..));
        tile!(for i in S {
            let p = (dot(q[(b, i, ..)], k[(b, j, ..)].t()) * scale - lse[(b, i)]).exp();
            let dp = dot(dy[(b, i, ..)], v[(b, j, ..)].t());
            let ds = p * (dp - delta[(b, i)]) * scale;
            values += dot(p.to::<f16>().t(), dy[(b, i, ..)]);
            keys += dot(ds.to::<f16>().t(), q[(b, i, ..)]);
        });
        dk[(b, j, ..)] = keys.to();
        dv[(b, j, ..)] = values.to();
    });
}

const SIZE: usize = 64;
const SCALE: f32 = 0.125;

struct Inputs {
    q: Array,
    k: Array,
    v: Array,
    dy: Array,
    lse: Array,
    delta: Array,
}

impl Inputs {
    /// The probability of key j at query i, and the gradient of its score.
    fn score(&self, [b, i, j]: [usize; 3]) -> (Expected, Expected) {
        let product = |x: &Array, y: &Array| sum((0..SIZE).map(|d| x.at(&[b, i, d]) * y.at(&[b, j, d])), 0.0);
        let exponent = product(&self.q, &self.k).times(f64::from(SCALE)).plus(-self.lse.at(&[b, i]));
        let slope = (exponent.value + exponent.slack).exp();
        let p = exponent.map(f64::exp, slope);
        let difference = product(&self.dy, &self.v).plus(-self.delta.at(&[b, i]));
        (p, p.times(difference).times(f64::from(SCALE)))
    }

    fn expected(&self) -> [Vec<Expected>; 2] {
        let ([batches, queries, _], [_, keys, _]) = (self.q.shape(), self.k.shape());
        let (mut dk, mut dv) = (Vec::new(), Vec::new());
        for b in 0..batches {
            for j in 0..keys {
                let scores: Vec<_> = (0..queries).map(|i| self.score([b, i, j])).collect();
                for d in 0..SIZE {
                    let times = |score: Expected, x: &Array, i: usize| score.rounded(F16).times(x.at(&[b, i, d]));
                    dk.push(total(scores.iter().enumerate().map(|(i, (_, ds))| times(*ds, &self.q, i))));
                    dv.push(total(scores.iter().enumerate().map(|(i, (p, _))| times(*p, &self.dy, i))));
                }
            }
        }
        [dk, dv]
    }
}

pub fn subjects() -> Vec<Subject> {
    let sizes = Sizes { fixed: &[&[1, 1, 1], &[2, 131, 65], &[1, 64, 200]], random: &[1..=2, 1..=150, 1..=150] };
    vec![Subject::new("attention_backward", sizes, |setting, visit| {
        let [batches, queries, keys] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batches, queries, Const::<SIZE>))?;
        let (k, k_values) = setting.input::<f16, _>((batches, keys, Const::<SIZE>))?;
        let (v, v_values) = setting.input::<f16, _>((batches, keys, Const::<SIZE>))?;
        let (dy, dy_values) = setting.input::<f16, _>((batches, queries, Const::<SIZE>))?;
        let (lse, lse_values) = setting.input::<f32, _>((batches, queries))?;
        let (delta, delta_values) = setting.input::<f32, _>((batches, queries))?;
        let mut dk = setting.output::<f16, _>((batches, keys, Const::<SIZE>))?;
        let mut dv = setting.output::<f16, _>((batches, keys, Const::<SIZE>))?;
        visit(attention_backward(
            &*q.view()?,
            &*k.view()?,
            &*v.view()?,
            &*dy.view()?,
            &*lse.view()?,
            &*delta.view()?,
            &mut *dk.view_mut()?,
            &mut *dv.view_mut()?,
            SCALE,
        ))?;
        let inputs =
            Inputs { q: q_values, k: k_values, v: v_values, dy: dy_values, lse: lse_values, delta: delta_values };
        let [expected_dk, expected_dv] = inputs.expected();
        Outcome::new(dk, || expected_dk)?.and(dv, || expected_dv)
    })]
}
