//! Products that take in whole tiles on their way out.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use tracea::activation::silu;
use tracea::prelude::*;

/// `y = silu((x · wᵀ) ∘ gate) ∘ gate + residual`
#[kernel]
pub fn gated<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<bf16, (M, K)>,
    w: &Tensor<bf16, (N, K)>,
    gate: &Tensor<bf16, (M, N)>,
    residual: &Tensor<bf16, (M, N)>,
    y: &mut Tensor<bf16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let g = gate[(i, j)].to::<f32>();
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(x[(i, k)], w[(j, k)].t());
        });
        y[(i, j)] = ((acc * g).map(silu) * g + residual[(i, j)].to::<f32>()).to();
    });
}

/// `y = alpha · x · w + beta · c`, with c and y in f32
#[kernel]
pub fn blended<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (K, N)>,
    c: &Tensor<f32, (M, N)>,
    y: &mut Tensor<f32, (M, N)>,
    alpha: f32,
    beta: f32,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(x[(i, k)], w[(k, j)]);
        });
        y[(i, j)] = acc * alpha + c[(i, j)] * beta;
    });
}

/// One row and one element, another tile or none beside it, rows that vectors divide and rows that they do not.
const PRODUCTS: Sizes = Sizes {
    fixed: &[
        &[0, 5, 7],
        &[5, 7, 0],
        &[1, 1, 1],
        &[64, 64, 64],
        &[129, 264, 72],
        &[131, 257, 67],
        &[130, 520, 8],
        &[300, 328, 520],
    ],
    random: &[0..=140, 0..=300, 0..=100],
};

pub fn subjects() -> Vec<Subject> {
    let gated = Subject::new("gated", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<bf16, _>((m, k))?;
        let (w, w_values) = setting.input::<bf16, _>((n, k))?;
        let (gate, gates) = setting.input::<bf16, _>((m, n))?;
        let (residual, residuals) = setting.input::<bf16, _>((m, n))?;
        let mut y = setting.output::<bf16, _>((m, n))?;
        visit(self::gated(&*x.view()?, &*w.view()?, &*gate.view()?, &*residual.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            let product = |i, j| sum((0..k).map(|p| x_values.at(&[i, p]) * w_values.at(&[j, p])), 0.0);
            elements(&gates, |i, j| {
                let g = gates.at(&[i, j]);
                product(i, j).times(g).then(|h| h / (1.0 + (-h).exp())).times(g).plus(residuals.at(&[i, j]))
            })
        })
    });
    let blended = Subject::new("blended", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((k, n))?;
        let (c, c_values) = setting.input::<f32, _>((m, n))?;
        let mut y = setting.output::<f32, _>((m, n))?;
        let (alpha, beta) = (1.5, -0.75);
        visit(self::blended(&*x.view()?, &*w.view()?, &*c.view()?, &mut *y.view_mut()?, alpha, beta))?;
        Outcome::new(y, move || {
            let product = |i, j| sum((0..k).map(|p| x_values.at(&[i, p]) * w_values.at(&[p, j])), 0.0);
            let (alpha, beta) = (f64::from(alpha), f64::from(beta));
            elements(&c_values, |i, j| {
                product(i, j).times(alpha).plus(Expected::from(c_values.at(&[i, j])).times(beta))
            })
        })
    });
    vec![gated, blended]
}

/// What stands at each place of a matrix that is shaped like this one.
fn elements(shape: &Array, at: impl Fn(usize, usize) -> Expected) -> Vec<Expected> {
    let [rows, cols] = shape.shape();
    (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))).map(|(i, j)| at(i, j)).collect()
}
