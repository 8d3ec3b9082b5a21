//! The gated half of a transformer's feed-forward layer: two products share an operand.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::PRODUCTS;
use tracea::activation::silu;
use tracea::prelude::*;

/// `y = silu(x · gateᵀ) ∘ (x · upᵀ)`
#[kernel]
pub fn swiglu<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    gate: &Tensor<f16, (N, K)>,
    up: &Tensor<f16, (N, K)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut g = zeros::<f32>((i, j));
        let mut u = zeros::<f32>((i, j));
        tile!(for k in K {
            let rows = x[(i, k)];
            g += dot(rows, gate[(j, k)].t());
            u += dot(rows, up[(j, k)].t());
        });
        y[(i, j)] = (g.map(silu) * u).to();
    });
}

/// `y = silu(x · gateᵀ) ∘ (x · upᵀ) + residual`
#[kernel]
pub fn gated_onto<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<bf16, (M, K)>,
    gate: &Tensor<bf16, (N, K)>,
    up: &Tensor<bf16, (N, K)>,
    residual: &Tensor<bf16, (M, N)>,
    y: &mut Tensor<bf16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut g = zeros::<f32>((i, j));
        let mut u = zeros::<f32>((i, j));
        tile!(for k in K {
            g += dot(x[(i, k)], gate[(j, k)].t());
            u += dot(x[(i, k)], up[(j, k)].t());
        });
        y[(i, j)] = (g.map(silu) * u + residual[(i, j)].to::<f32>()).to();
    });
}

/// `y = (x · v) ∘ (x · w)`, `v` and `w` with a row for each term of the sum.
#[kernel]
pub fn bilinear<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<bf16, (M, K)>,
    v: &Tensor<bf16, (K, N)>,
    w: &Tensor<bf16, (K, N)>,
    y: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut left = zeros::<f32>((i, j));
        let mut right = zeros::<f32>((i, j));
        tile!(for k in K {
            left += dot(x[(i, k)], v[(k, j)]);
            right += dot(x[(i, k)], w[(k, j)]);
        });
        y[(i, j)] = left * right;
    });
}

fn reference(x: &Array, gate: &Array, up: &Array, residual: Option<&Array>) -> Vec<Expected> {
    let ([m, k], [n, _]) = (x.shape(), gate.shape());
    let mut y = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let g = sum((0..k).map(|p| x.at(&[i, p]) * gate.at(&[j, p])), 0.0);
            let u = sum((0..k).map(|p| x.at(&[i, p]) * up.at(&[j, p])), 0.0);
            let gated = g.then(|g| g / (1.0 + (-g).exp())).times(u);
            y.push(residual.map_or(gated, |residual| gated.plus(residual.at(&[i, j]))));
        }
    }
    y
}

fn bilinear_reference(x: &Array, v: &Array, w: &Array) -> Vec<Expected> {
    let ([m, k], [_, n]) = (x.shape(), v.shape());
    let product = |with: &Array, i: usize, j: usize| sum((0..k).map(|p| x.at(&[i, p]) * with.at(&[p, j])), 0.0);
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| product(v, i, j).times(product(w, i, j))).collect()
}

pub fn subjects() -> Vec<Subject> {
    let swiglu = Subject::new("swiglu", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, k))?;
        let (gate, gate_values) = setting.input::<f16, _>((n, k))?;
        let (up, up_values) = setting.input::<f16, _>((n, k))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(swiglu(&*x.view()?, &*gate.view()?, &*up.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference(&x_values, &gate_values, &up_values, None))
    });
    let bilinear = Subject::new("bilinear", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<bf16, _>((m, k))?;
        let (v, v_values) = setting.input::<bf16, _>((k, n))?;
        let (w, w_values) = setting.input::<bf16, _>((k, n))?;
        let mut y = setting.output::<f32, _>((m, n))?;
        visit(bilinear(&*x.view()?, &*v.view()?, &*w.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || bilinear_reference(&x_values, &v_values, &w_values))
    });
    let onto = Subject::new("gated_onto", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<bf16, _>((m, k))?;
        let (gate, gate_values) = setting.input::<bf16, _>((n, k))?;
        let (up, up_values) = setting.input::<bf16, _>((n, k))?;
        let (residual, residuals) = setting.input::<bf16, _>((m, n))?;
        let mut y = setting.output::<bf16, _>((m, n))?;
        visit(gated_onto(&*x.view()?, &*gate.view()?, &*up.view()?, &*residual.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference(&x_values, &gate_values, &up_values, Some(&residuals)))
    });
    vec![swiglu, onto, bilinear]
}
