//! Axes that are far smaller than a block has threads: three columns, one result.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum, total};
use tracea::prelude::*;

/// Softmax of three classes.
#[kernel]
pub fn softmax_of_three<M: Dim>(x: &Tensor<f32, (M, Const<3>)>, y: &mut Tensor<f32, (M, Const<3>)>) {
    tile!(for i in M {
        let scores = x[(i, ..)];
        let powers = (scores - scores.row_max()).exp();
        y[(i, ..)] = powers / powers.row_sum();
    });
}

/// Everything added up.
#[kernel]
pub fn sum_of_all<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (Const<1>,)>) {
    tile!(for o in Const::<1> {
        let mut sum = zeros::<f32>(o);
        tile!(for (i, j) in (M, N) {
            sum += x[(i, j)].row_sum().sum(i);
        });
        y[o] = sum;
    });
}

fn softmax(x: &Array) -> Vec<Expected> {
    let mut y = Vec::new();
    for row in x.rows() {
        let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<Expected> =
            row.iter().map(|value| Expected::from(*value).plus(-greatest).map(f64::exp, 1.0)).collect();
        let all = total(powers.iter().copied());
        let share = all.map(|all| 1.0 / all, 1.0);
        y.extend(powers.iter().map(|power| power.times(share)));
    }
    y
}

pub fn subjects() -> Vec<Subject> {
    let rows = Sizes { fixed: &[&[0], &[1], &[3], &[1000]], random: &[1..=3000] };
    let both = Sizes { fixed: &[&[0, 3], &[1, 1], &[37, 131], &[300, 65]], random: &[1..=200, 1..=700] };
    vec![
        Subject::new("softmax_of_three", rows, |setting, visit| {
            let [m] = setting.sizes()?;
            let (x, x_values) = setting.input::<f32, _>((m, Const::<3>))?;
            let mut y = setting.output::<f32, _>((m, Const::<3>))?;
            visit(softmax_of_three(&*x.view()?, &mut *y.view_mut()?))?;
            Outcome::new(y, move || softmax(&x_values))
        }),
        Subject::new("sum_of_all", both, |setting, visit| {
            let [m, n] = setting.sizes()?;
            let (x, x_values) = setting.input::<f32, _>((m, n))?;
            let mut y = setting.output::<f32, _>((Const::<1>,))?;
            visit(sum_of_all(&*x.view()?, &mut *y.view_mut()?))?;
            Outcome::new(y, move || vec![sum(x_values.values.iter().copied(), 0.0)])
        }),
    ]
}
