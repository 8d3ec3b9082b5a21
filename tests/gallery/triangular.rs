//! Products by a matrix of which one triangle counts: blocks have sums of different lengths, which end or begin at the diagonal, and the
//! operand is masked where that cuts a block.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use tracea::prelude::*;

/// `y = (a where k ≤ i) · x`
#[kernel]
pub fn triangular<M: Dim, N: Dim>(a: &Tensor<f16, (M, M)>, x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in M.until(i.end()) {
            acc += dot(a[(i, k)].mask(|i, k| k <= i, f16::ZERO), x[(k, j)]);
        });
        y[(i, j)] = acc.to();
    });
}

/// `y = x · (a where j ≤ k)`
#[kernel]
pub fn triangular_right<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, a: &Tensor<f16, (N, N)>, y: &mut Tensor<f16, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in N.from(j.start()) {
            acc += dot(x[(i, k)], a[(k, j)].mask(|k, j| j <= k, f16::ZERO));
        });
        y[(i, j)] = acc.to();
    });
}

fn reference(a: &Array, x: &Array) -> Vec<Expected> {
    let [m, n] = x.shape();
    let element = |i: usize, j: usize| sum((0..=i).map(|k| a.at(&[i, k]) * x.at(&[k, j])), 0.0);
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

fn reference_right(x: &Array, a: &Array) -> Vec<Expected> {
    let [m, n] = x.shape();
    let element = |i: usize, j: usize| sum((j..n).map(|k| x.at(&[i, k]) * a.at(&[k, j])), 0.0);
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

/// The triangle's rows, and the other operand's other axis.
const TRIANGLES: Sizes = Sizes {
    fixed: &[&[0, 5], &[5, 0], &[1, 1], &[37, 64], &[64, 128], &[200, 72], &[520, 65]],
    random: &[0..=300, 0..=140],
};

pub fn subjects() -> Vec<Subject> {
    let left = Subject::new("triangular", TRIANGLES, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, m))?;
        let (x, x_values) = setting.input::<f16, _>((m, n))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(triangular(&*a.view()?, &*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference(&a_values, &x_values))
    });
    let right = Subject::new("triangular_right", TRIANGLES, |setting, visit| {
        let [n, m] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, n))?;
        let (a, a_values) = setting.input::<f16, _>((n, n))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(triangular_right(&*x.view()?, &*a.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference_right(&x_values, &a_values))
    });
    vec![left, right]
}
