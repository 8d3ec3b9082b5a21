//! A stencil: each element from its neighbours; outside lies 0.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::MATRICES;
use tracea::prelude::*;

/// `y = (above + below + left + right) / 4 − x`
#[kernel]
pub fn stencil<H: Dim, W: Dim>(x: &Tensor<f32, (H, W)>, y: &mut Tensor<f32, (H, W)>) {
    tile!(for (i, j) in (H, W) {
        let around = x[(i - 1, j)] + x[(i + 1, j)] + x[(i, j - 1)] + x[(i, j + 1)];
        y[(i, j)] = 0.25 * around - x[(i, j)];
    });
}

fn reference(x: &Array) -> Vec<Expected> {
    let [height, width] = x.shape();
    let at = |i: Option<usize>, j: Option<usize>| match (i, j) {
        (Some(i), Some(j)) if i < height && j < width => x.at(&[i, j]),
        _ => 0.0,
    };
    let mut y = Vec::new();
    for i in 0..height {
        for j in 0..width {
            let (row, column) = (Some(i), Some(j));
            let above = at(i.checked_sub(1), column);
            let left = at(row, j.checked_sub(1));
            let terms = [above, at(Some(i + 1), column), left, at(row, Some(j + 1)), -4.0 * x.at(&[i, j])];
            y.push(sum(terms.into_iter(), 0.0).times(0.25));
        }
    }
    y
}

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("stencil", MATRICES, |setting, visit| {
        let [height, width] = setting.sizes()?;
        let (x, values) = setting.input::<f32, _>((height, width))?;
        let mut y = setting.output::<f32, _>((height, width))?;
        visit(stencil(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference(&values))
    })]
}
