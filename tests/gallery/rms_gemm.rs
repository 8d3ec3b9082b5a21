//! RMS norm fused into the product after it: the norm's sum runs beside the product's, the scale is applied at the end.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `y = (x / √(mean of x² + epsilon)) · wᵀ`
#[kernel]
pub fn rms_gemm<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    y: &mut Tensor<f16, (M, N)>,
    epsilon: f32,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        let mut squares = zeros::<f32>(i);
        tile!(for k in K {
            let rows = x[(i, k)];
            let wide = rows.to::<f32>();
            squares += (wide * wide).row_sum();
            acc += dot(rows, w[(j, k)].t());
        });
        y[(i, j)] = (acc * (squares / (K as f32) + epsilon).rsqrt()).to();
    });
}

const EPSILON: f32 = 1e-5;

fn reference(x: &Array, w: &Array) -> Vec<Expected> {
    let ([m, k], [n, _]) = (x.shape(), w.shape());
    let mut y = Vec::new();
    for i in 0..m {
        let squares = sum((0..k).map(|p| x.at(&[i, p]).powi(2)), 0.0);
        let mean = squares.times(1.0 / k as f64).plus(f64::from(EPSILON));
        let rate = mean.map(|mean| 1.0 / mean.sqrt(), 0.5 * mean.value.powf(-1.5));
        for j in 0..n {
            y.push(sum((0..k).map(|p| x.at(&[i, p]) * w.at(&[j, p])), 0.0).times(rate));
        }
    }
    y
}

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("rms_gemm", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((n, k))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(rms_gemm(&*x.view()?, &*w.view()?, &mut *y.view_mut()?, EPSILON))?;
        Outcome::new(y, move || reference(&x_values, &w_values))
    })]
}
