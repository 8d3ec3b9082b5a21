//! Long padded rows that are added up, kept and normalised: both sums in one pass, a number for each row, a gain and an offset in f32 for each
//! column.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, total};
use tracea::prelude::*;

/// `h = x · scale + r` in the columns that are used and 0 behind them, `y = layer_norm(h) · gamma + beta` of what `h` is before it is rounded.
#[kernel]
pub fn residual_norm<M: Dim, N: Dim>(
    x: &Tensor<f16, (M, N)>,
    r: &Tensor<f16, (M, N)>,
    scale: &Tensor<f32, (M,)>,
    gamma: &Tensor<f32, (N,)>,
    beta: &Tensor<f32, (N,)>,
    h: &mut Tensor<f16, (M, N)>,
    y: &mut Tensor<bf16, (M, N)>,
    used: i32,
    epsilon: f32,
) {
    tile!(for i in M {
        let by = scale[i];
        let mut sum = zeros::<f32>(i);
        let mut squares = zeros::<f32>(i);
        tile!(for j in N {
            let value = (x[(i, j)].to::<f32>() * by + r[(i, j)].to::<f32>()).mask(|_, j| j < used, 0.0);
            sum += value.row_sum();
            squares += (value * value).row_sum();
        });
        let mean = sum / (N as f32);
        let variance = (squares / (N as f32) - mean * mean).max(0.0);
        let rate = (variance + epsilon).rsqrt();
        tile!(for j in N {
            let value = (x[(i, j)].to::<f32>() * by + r[(i, j)].to::<f32>()).mask(|_, j| j < used, 0.0);
            h[(i, j)] = value.to();
            y[(i, j)] = ((value - mean) * rate * gamma[j] + beta[j]).to();
        });
    });
}

const EPSILON: f32 = 1e-2;

struct Inputs {
    x: Array,
    r: Array,
    scale: Array,
    gamma: Array,
    beta: Array,
    used: usize,
}

impl Inputs {
    /// The rows of `h`.
    fn added(&self) -> impl Iterator<Item = Vec<Expected>> {
        let added = |(i, (x, r)): (usize, (&[f64], &[f64]))| {
            let scale = self.scale.at(&[i]);
            let value = |(j, (x, r)): (usize, (&f64, &f64))| match j < self.used {
                true => Expected::from(*x).times(scale).plus(*r),
                false => Expected::from(0.0),
            };
            x.iter().zip(r).enumerate().map(value).collect()
        };
        self.x.rows().zip(self.r.rows()).enumerate().map(added)
    }

    fn normalised(&self) -> Vec<Expected> {
        let row = |row: Vec<Expected>| {
            let part = 1.0 / row.len() as f64;
            let mean = total(row.iter().copied()).times(part);
            let squares = total(row.iter().map(|value| value.times(*value))).times(part);
            let variance = squares.plus(mean.times(mean).times(-1.0));
            // Not below 0, whatever cancelled.
            let least = (variance.value - variance.slack).max(0.0) + f64::from(EPSILON);
            let rate = variance.plus(f64::from(EPSILON)).map(|sum| 1.0 / sum.sqrt(), 0.5 * least.powf(-1.5));
            let each = move |(j, value): (usize, Expected)| {
                let normal = value.plus(mean.times(-1.0)).times(rate);
                normal.times(self.gamma.at(&[j])).plus(self.beta.at(&[j]))
            };
            row.into_iter().enumerate().map(each).collect::<Vec<_>>()
        };
        self.added().flat_map(row).collect()
    }
}

/// Rows and their length: more of them than a launch has blocks for at a time, odd and even ones, and the longest that blocks take in turn.
const ROWS: Sizes = Sizes {
    fixed: &[&[0, 5], &[5, 0], &[1, 1], &[7, 1009], &[523, 71], &[421, 264], &[3, 12175], &[2, 12176]],
    random: &[0..=40, 0..=3000],
};

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("residual_norm", ROWS, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let used = n - n / 3;
        let (x, x_values) = setting.input::<f16, _>((m, n))?;
        let (r, r_values) = setting.input::<f16, _>((m, n))?;
        let (scale, scales) = setting.input::<f32, _>((m,))?;
        let (gamma, gammas) = setting.input::<f32, _>((n,))?;
        let (beta, betas) = setting.input::<f32, _>((n,))?;
        let mut h = setting.output::<f16, _>((m, n))?;
        let mut y = setting.output::<bf16, _>((m, n))?;
        visit(residual_norm(
            &*x.view()?,
            &*r.view()?,
            &*scale.view()?,
            &*gamma.view()?,
            &*beta.view()?,
            &mut *h.view_mut()?,
            &mut *y.view_mut()?,
            used as i32,
            EPSILON,
        ))?;
        let inputs = Inputs { x: x_values, r: r_values, scale: scales, gamma: gammas, beta: betas, used };
        let inputs = std::rc::Rc::new(inputs);
        let added = inputs.clone();
        Outcome::new(h, move || added.added().flatten().collect())?.and(y, move || inputs.normalised())
    })]
}
