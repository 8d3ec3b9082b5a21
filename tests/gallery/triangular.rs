//! A product by a matrix of which one triangle counts: blocks of rows have sums of different lengths, and the first operand is masked
//! where the diagonal cuts a block.

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

fn reference(a: &Array, x: &Array) -> Vec<Expected> {
    let [m, n] = x.shape();
    let element = |i: usize, j: usize| sum((0..=i).map(|k| a.at(&[i, k]) * x.at(&[k, j])), 0.0);
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

/// Rows of both, and columns of the second.
const TRIANGLES: Sizes = Sizes {
    fixed: &[&[0, 5], &[5, 0], &[1, 1], &[37, 64], &[64, 128], &[200, 72], &[520, 65]],
    random: &[0..=300, 0..=140],
};

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("triangular", TRIANGLES, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, m))?;
        let (x, x_values) = setting.input::<f16, _>((m, n))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(triangular(&*a.view()?, &*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference(&a_values, &x_values))
    })]
}
