//! Mean and variance of a long axis in one pass: sums of differences from the row's first element, so that little cancels.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, F32};
use tracea::prelude::*;

#[kernel]
pub fn moments<M: Dim, N: Dim>(
    x: &Tensor<f32, (M, N)>,
    mean: &mut Tensor<f32, (M,)>,
    variance: &mut Tensor<f32, (M,)>,
) {
    tile!(for i in M {
        let first = x[(i, 0)];
        let mut sum = zeros::<f32>(i);
        let mut squares = zeros::<f32>(i);
        tile!(for j in N {
            let difference = x[(i, j)] - first;
            sum += difference.row_sum();
            squares += (difference * difference).row_sum();
        });
        let shift = sum / (N as f32);
        mean[i] = first + shift;
        variance[i] = squares / (N as f32) - shift * shift;
    });
}

fn mean(x: &Array) -> Vec<Expected> {
    let row = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        let magnitude = row.iter().map(|x| (x - row[0]).abs()).sum::<f64>() / row.len() as f64 + row[0].abs();
        Expected { value: mean, slack: F32 * (row.len() as f64 + 8.0) * magnitude }
    };
    x.rows().map(row).collect()
}

fn variance(x: &Array) -> Vec<Expected> {
    let row = |row: &[f64]| {
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let squares = row.iter().map(|x| (x - row[0]).powi(2)).sum::<f64>() / count;
        // The square of the mean difference is off by twice as much as the difference, which is at most the root of the squares.
        Expected { value: variance, slack: F32 * (3.0 * count + 24.0) * squares }
    };
    x.rows().map(row).collect()
}

/// Rows of one element or more: there is no mean of none.
const LONG_ROWS: Sizes = Sizes {
    fixed: &[&[0, 5], &[1, 1], &[3, 1], &[1, 127], &[7, 1009], &[61, 257], &[2, 20011]],
    random: &[0..=40, 1..=3000],
};

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("moments", LONG_ROWS, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, values) = setting.input::<f32, _>((m, n))?;
        let mut means = setting.output::<f32, _>((m,))?;
        let mut variances = setting.output::<f32, _>((m,))?;
        visit(moments(&*x.view()?, &mut *means.view_mut()?, &mut *variances.view_mut()?))?;
        let x = values.clone();
        Outcome::new(means, move || mean(&x))?.and(variances, move || variance(&values))
    })]
}
