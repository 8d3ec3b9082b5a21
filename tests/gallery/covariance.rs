//! A product of two tiles that are both computed first, summed over the axis that neither has contiguous.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `c = (x − mean of x)ᵀ · (y − mean of y)`, each column's mean given
#[kernel]
pub fn covariance<S: Dim, M: Dim, N: Dim>(
    x: &Tensor<f16, (S, M)>,
    y: &Tensor<f16, (S, N)>,
    mean_x: &Tensor<f32, (M,)>,
    mean_y: &Tensor<f32, (N,)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for s in S {
            let dx = x[(s, i)].to::<f32>() - mean_x[i];
            let dy = y[(s, j)].to::<f32>() - mean_y[j];
            acc += dot(dx.to::<f16>().t(), dy.to::<f16>());
        });
        c[(i, j)] = acc;
    });
}

/// As the product sees them: rounded twice.
fn centred(x: &Array, mean: &Array, row: usize, column: usize) -> f64 {
    f16::from_f32(x.at(&[row, column]) as f32 - mean.at(&[column]) as f32).to_f64()
}

fn reference(x: &Array, y: &Array, mean_x: &Array, mean_y: &Array) -> Vec<Expected> {
    let ([samples, m], [_, n]) = (x.shape(), y.shape());
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            c.push(sum((0..samples).map(|s| centred(x, mean_x, s, i) * centred(y, mean_y, s, j)), 0.0));
        }
    }
    c
}

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("covariance", PRODUCTS, |setting, visit| {
        let [m, n, samples] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((samples, m))?;
        let (y, y_values) = setting.input::<f16, _>((samples, n))?;
        let (mean_x, mean_x_values) = setting.input::<f32, _>((m,))?;
        let (mean_y, mean_y_values) = setting.input::<f32, _>((n,))?;
        let mut c = setting.output::<f32, _>((m, n))?;
        visit(covariance(&*x.view()?, &*y.view()?, &*mean_x.view()?, &*mean_y.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || reference(&x_values, &y_values, &mean_x_values, &mean_y_values))
    })]
}
