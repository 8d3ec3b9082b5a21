//! The second half of a gated layer over images: the product's left operand is computed from two tensors, and each block of filters
//! needs it again.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, BF16, Expected, total};
use tracea::activation::silu;
use tracea::prelude::*;

/// `y[n, p, q] = (silu(gate) ∘ up)[n, p, q] · wᵀ`
#[kernel]
pub fn gated_pixels<N: Dim, P: Dim, Q: Dim, C: Dim, K: Dim>(
    gate: &Tensor<bf16, (N, P, Q, C)>,
    up: &Tensor<bf16, (N, P, Q, C)>,
    w: &Tensor<bf16, (K, C)>,
    y: &mut Tensor<bf16, (N, P, Q, K)>,
) {
    tile!(for (npq, k) in (flat(N, P, Q), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, k));
        tile!(for c in C {
            let hidden = gate[(n, p, q, c)].to::<f32>().map(silu) * up[(n, p, q, c)].to::<f32>();
            acc += dot(hidden.to::<bf16>(), w[(k, c)].t());
        });
        y[(n, p, q, k)] = acc.to();
    });
}

fn reference(gate: &Array, up: &Array, w: &Array) -> Vec<Expected> {
    let ([images, rows, columns, channels], [filters, _]) = (gate.shape(), w.shape());
    let mut y = Vec::new();
    for pixel in 0..images * rows * columns {
        let (n, p, q) = (pixel / columns / rows, pixel / columns % rows, pixel % columns);
        let hidden = |c: usize| {
            let gate = Expected::from(gate.at(&[n, p, q, c])).then(|g| g / (1.0 + (-g).exp()));
            gate.times(up.at(&[n, p, q, c])).rounded(BF16)
        };
        let hidden: Vec<Expected> = (0..channels).map(hidden).collect();
        for k in 0..filters {
            y.push(total((0..channels).map(|c| hidden[c].times(w.at(&[k, c])))));
        }
    }
    y
}

/// Images, height, width, channels, filters.
const IMAGES: Sizes = Sizes {
    fixed: &[
        &[0, 4, 4, 3, 5],
        &[2, 3, 0, 4, 4],
        &[1, 4, 4, 0, 3],
        &[1, 1, 1, 1, 1],
        &[2, 7, 5, 67, 33],
        &[3, 12, 11, 64, 130],
        &[1, 3, 3, 1032, 72],
    ],
    random: &[1..=3, 1..=12, 1..=12, 0..=100, 1..=140],
};

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("gated_pixels", IMAGES, |setting, visit| {
        let [n, p, q, c, k] = setting.sizes()?;
        let (gate, gate_values) = setting.input::<bf16, _>((n, p, q, c))?;
        let (up, up_values) = setting.input::<bf16, _>((n, p, q, c))?;
        let (w, w_values) = setting.input::<bf16, _>((k, c))?;
        let mut y = setting.output::<bf16, _>((n, p, q, k))?;
        visit(gated_pixels(&*gate.view()?, &*up.view()?, &*w.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference(&gate_values, &up_values, &w_values))
    })]
}
