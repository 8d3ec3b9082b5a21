//! Products that are added to what their result holds: gradients that accumulate, and `alpha · A · B + beta · C`.

use crate::case::{Number, Outcome, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `dw += dyᵀ · x`, kept in f32
#[kernel(T = [f16, bf16])]
pub fn accumulated<T: Float, M: Dim, N: Dim, K: Dim>(
    dy: &Tensor<T, (K, M)>,
    x: &Tensor<T, (K, N)>,
    dw: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(dy[(k, i)].t(), x[(k, j)]);
        });
        dw[(i, j)] += acc;
    });
}

/// `c = alpha · a · bᵀ + beta · c`
#[kernel]
pub fn blended_in_place<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f16, (M, N)>,
    alpha: f32,
    beta: f32,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)].t());
        });
        c[(i, j)] = (acc * alpha + c[(i, j)].to::<f32>() * beta).to();
    });
}

/// `alpha · Σₚ left(i, p) · right(j, p) + beta · c`
fn reference(
    (alpha, left): (f64, impl Fn(usize, usize) -> f64),
    right: impl Fn(usize, usize) -> f64,
    terms: usize,
    (beta, c): (f64, &Array),
) -> Vec<Expected> {
    let [m, n] = c.shape();
    let of = |i: usize, j: usize| {
        let product = sum((0..terms).map(|p| left(i, p) * right(j, p)), 0.0);
        product.times(alpha).plus(Expected::from(c.at(&[i, j])).times(beta))
    };
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| of(i, j)).collect()
}

fn subject_of<T: Number + Float>(name: &str) -> Subject {
    Subject::new(name, PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (dy, dy_values) = setting.input::<T, _>((k, m))?;
        let (x, x_values) = setting.input::<T, _>((k, n))?;
        let (mut dw, dw_values) = setting.input::<f32, _>((m, n))?;
        visit(accumulated(&*dy.view()?, &*x.view()?, &mut *dw.view_mut()?))?;
        Outcome::new(dw, move || {
            let (left, right) = (|i, p| dy_values.at(&[p, i]), |j, p| x_values.at(&[p, j]));
            reference((1.0, left), right, k, (1.0, &dw_values))
        })
    })
}

pub fn subjects() -> Vec<Subject> {
    let blended = Subject::new("blended_in_place", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (b, b_values) = setting.input::<f16, _>((n, k))?;
        let (mut c, c_values) = setting.input::<f16, _>((m, n))?;
        visit(blended_in_place(&*a.view()?, &*b.view()?, &mut *c.view_mut()?, 0.5, -1.5))?;
        Outcome::new(c, move || {
            let (left, right) = (|i, p| a_values.at(&[i, p]), |j, p| b_values.at(&[j, p]));
            reference((0.5, left), right, k, (-1.5, &c_values))
        })
    });
    vec![subject_of::<f16>("accumulated f16"), subject_of::<bf16>("accumulated bf16"), blended]
}
