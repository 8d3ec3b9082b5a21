//! Names that Rust tells apart and CUDA's constants, in capitals, might not: of one letter in both cases, and outside ASCII.

#![allow(non_snake_case)]

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `C = δ · (A · β) ∘ a`: a scale for each row
#[kernel]
pub fn named<M: Dim, N: Dim, K: Dim>(
    A: &Tensor<f16, (M, K)>,
    β: &Tensor<f16, (K, N)>,
    a: &Tensor<f32, (M,)>,
    r#type: &mut Tensor<f32, (M, N)>,
    δ: f32,
) {
    tile!(for (i, I) in (M, N) {
        let mut Σ = zeros::<f32>((i, I));
        tile!(for k in K {
            Σ += dot(A[(i, k)], β[(k, I)]);
        });
        r#type[(i, I)] = Σ * a[i] * δ;
    });
}

fn reference(left: &Array, right: &Array, scale: &Array, factor: f64) -> Vec<Expected> {
    let ([m, k], [_, n]) = (left.shape(), right.shape());
    let of = |i: usize, j: usize| {
        let product = sum((0..k).map(|p| left.at(&[i, p]) * right.at(&[p, j])), 0.0);
        product.times(scale.at(&[i])).times(factor)
    };
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| of(i, j)).collect()
}

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("named", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (left, left_values) = setting.input::<f16, _>((m, k))?;
        let (right, right_values) = setting.input::<f16, _>((k, n))?;
        let (scale, scales) = setting.input::<f32, _>((m,))?;
        let mut y = setting.output::<f32, _>((m, n))?;
        visit(named(&*left.view()?, &*right.view()?, &*scale.view()?, &mut *y.view_mut()?, 0.5))?;
        Outcome::new(y, move || reference(&left_values, &right_values, &scales, 0.5))
    })]
}
