//! A product that its own rows normalise: a block has all columns of some rows, so that their mean and variance are its own.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum, total};
use tracea::prelude::*;

/// `y = layer_norm(a · wᵀ + r) · gamma + beta`
#[kernel]
pub fn normalised<M: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (Const<128>, K)>,
    r: &Tensor<f16, (M, Const<128>)>,
    gamma: &Tensor<f16, (Const<128>,)>,
    beta: &Tensor<f16, (Const<128>,)>,
    y: &mut Tensor<f16, (M, Const<128>)>,
    epsilon: f32,
) {
    tile!(for i in M {
        let mut acc = zeros::<f32>((i, ..));
        tile!(for k in K {
            acc += dot(a[(i, k)], w[(.., k)].t());
        });
        let x = acc + r[(i, ..)].to::<f32>();
        let difference = x - x.row_sum() / 128.0;
        let rate = ((difference * difference).row_sum() / 128.0 + epsilon).rsqrt();
        y[(i, ..)] = (difference * rate * gamma[..].to::<f32>() + beta[..].to::<f32>()).to();
    });
}

const COLUMNS: usize = 128;
const EPSILON: f32 = 1e-3;

fn reference(a: &Array, w: &Array, r: &Array, gamma: &Array, beta: &Array) -> Vec<Expected> {
    let [m, k] = a.shape();
    let mean = |terms: Vec<Expected>| total(terms.into_iter()).times(1.0 / COLUMNS as f64);
    let mut y = Vec::new();
    for i in 0..m {
        let product = |j| sum((0..k).map(|p| a.at(&[i, p]) * w.at(&[j, p])), 0.0);
        let x: Vec<Expected> = (0..COLUMNS).map(|j| product(j).plus(r.at(&[i, j]))).collect();
        let minus_mean = mean(x.clone()).times(-1.0);
        let differences: Vec<Expected> = x.iter().map(|x| x.plus(minus_mean)).collect();
        let variance = mean(differences.iter().map(|x| x.times(*x)).collect()).plus(f64::from(EPSILON));
        let least = variance.value - variance.slack;
        let rate = variance.map(|variance| 1.0 / variance.sqrt(), 0.5 * least.powf(-1.5));
        let column = |(j, x): (usize, &Expected)| x.times(rate).times(gamma.at(&[j])).plus(beta.at(&[j]));
        y.extend(differences.iter().enumerate().map(column));
    }
    y
}

/// Rows, and the terms of each product.
const ROWS: Sizes =
    Sizes { fixed: &[&[0, 5], &[3, 0], &[1, 1], &[67, 40], &[64, 1100], &[130, 137]], random: &[0..=150, 0..=200] };

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("normalised", ROWS, |setting, visit| {
        let [m, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((Const::<COLUMNS>, k))?;
        let (r, r_values) = setting.input::<f16, _>((m, Const::<COLUMNS>))?;
        let (gamma, gammas) = setting.input::<f16, _>((Const::<COLUMNS>,))?;
        let (beta, betas) = setting.input::<f16, _>((Const::<COLUMNS>,))?;
        let mut y = setting.output::<f16, _>((m, Const::<COLUMNS>))?;
        visit(normalised(
            &*a.view()?,
            &*w.view()?,
            &*r.view()?,
            &*gamma.view()?,
            &*beta.view()?,
            &mut *y.view_mut()?,
            EPSILON,
        ))?;
        Outcome::new(y, move || reference(&a_values, &w_values, &r_values, &gammas, &betas))
    })]
}
