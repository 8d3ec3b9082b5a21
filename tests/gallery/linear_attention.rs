//! Causal attention without a softmax, chunk by chunk: what came before is a matrix, which is carried from chunk to chunk and multiplied.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, F16, F32, sum, total};
use tracea::prelude::*;

/// `o = (q · kᵀ where j ≤ i) · v`
#[kernel]
pub fn linear_attention<B: Dim, S: Dim>(
    q: &Tensor<f16, (B, S, Const<64>)>,
    k: &Tensor<f16, (B, S, Const<64>)>,
    v: &Tensor<f16, (B, S, Const<64>)>,
    o: &mut Tensor<f16, (B, S, Const<64>)>,
) {
    tile!(for (b, e) in (each(B), Const::<64>) {
        let mut state = zeros::<f32>((.., e));
        tile!(for i in S {
            let mut out = dot(q[(b, i, ..)], state.to::<f16>());
            tile!(for j in S.range(i.start()..i.end()) {
                let s = dot(q[(b, i, ..)], k[(b, j, ..)].t()).mask(|i, j| j <= i, 0.0);
                out += dot(s.to::<f16>(), v[(b, j, e)]);
            });
            o[(b, i, e)] = out.to();
            state += dot(k[(b, i, ..)].t(), v[(b, i, e)]);
        });
    });
}

const SIZE: usize = 64;
/// The smallest subnormal number of f16.
const UNDERFLOW: f64 = 6e-8;

fn reference(q: &Array, k: &Array, v: &Array) -> Vec<Expected> {
    let [batches, positions, _] = q.shape();
    let mut o = Vec::new();
    for b in 0..batches {
        for i in 0..positions {
            let terms = |j: usize| (0..SIZE).map(move |d| q.at(&[b, i, d]) * k.at(&[b, j, d]));
            let scores: Vec<_> = (0..=i).map(|j| sum(terms(j), 0.0).rounded(F16)).collect();
            let sizes: Vec<f64> = (0..=i).map(|j| terms(j).map(f64::abs).sum()).collect();
            let queries: f64 = (0..SIZE).map(|d| q.at(&[b, i, d]).abs()).sum();
            for e in 0..SIZE {
                let by_scores = total(scores.iter().enumerate().map(|(j, score)| score.times(v.at(&[b, j, e]))));
                // By way of the state: each of its rows is a sum that is rounded, and no more than its terms are in size.
                let size = sizes.iter().enumerate().map(|(j, size)| size * v.at(&[b, j, e]).abs()).sum::<f64>();
                let row = Expected { value: size, slack: F32 * (i as f64 + SIZE as f64 + 8.0) * size }.rounded(F16);
                o.push(Expected { value: by_scores.value, slack: by_scores.slack + row.slack + UNDERFLOW * queries });
            }
        }
    }
    o
}

pub fn subjects() -> Vec<Subject> {
    let sizes = Sizes {
        fixed: &[&[0, 4], &[1, 0], &[1, 1], &[2, 37], &[1, 131], &[2, 64], &[1, 200]],
        random: &[1..=2, 0..=150],
    };
    vec![Subject::new("linear_attention", sizes, |setting, visit| {
        let [batches, positions] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((batches, positions, Const::<SIZE>))?;
        let (k, k_values) = setting.input::<f16, _>((batches, positions, Const::<SIZE>))?;
        let (v, v_values) = setting.input::<f16, _>((batches, positions, Const::<SIZE>))?;
        let mut o = setting.output::<f16, _>((batches, positions, Const::<SIZE>))?;
        visit(linear_attention(&*q.view()?, &*k.view()?, &*v.view()?, &mut *o.view_mut()?))?;
        Outcome::new(o, move || reference(&q_values, &k_values, &v_values))
    })]
}
