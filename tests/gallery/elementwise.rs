//! Element by element, all tensors alike: their axes are walked as one where nothing lies between rows, as one each where something
//! does.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected};
use crate::sizes::MATRICES;
use tracea::prelude::*;

/// `y = x ∘ x + y`
#[kernel]
pub fn add_square<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let value = x[(i, j)].to::<f32>();
        y[(i, j)] = (y[(i, j)].to::<f32>() + value * value).to();
    });
}

/// `y = (x + bias) · scale[b]`: planes share a bias, so that rows are merged and planes are not
#[kernel]
pub fn shift_planes<B: Dim, M: Dim, N: Dim>(
    x: &Tensor<f16, (B, M, N)>,
    bias: &Tensor<f32, (M, N)>,
    scale: &Tensor<f32, (B,)>,
    y: &mut Tensor<f32, (B, M, N)>,
) {
    tile!(for (b, i, j) in (each(B), M, N) {
        y[(b, i, j)] = (x[(b, i, j)].to::<f32>() + bias[(i, j)]) * scale[b];
    });
}

fn add_square_reference(x: &Array, y: &Array) -> Vec<Expected> {
    x.values.iter().zip(&y.values).map(|(x, y)| Expected::from(*x).times(*x).plus(*y)).collect()
}

fn shift_planes_reference(x: &Array, bias: &Array, scale: &Array) -> Vec<Expected> {
    let plane = bias.values.len();
    let element =
        |(at, x): (usize, &f64)| Expected::from(*x).plus(bias.values[at % plane]).times(scale.values[at / plane]);
    x.values.iter().enumerate().map(element).collect()
}

const PLANES: Sizes = Sizes {
    fixed: &[&[0, 5, 7], &[2, 0, 7], &[2, 5, 0], &[1, 1, 1], &[3, 61, 257], &[2, 64, 128], &[5, 7, 9]],
    random: &[0..=5, 0..=40, 0..=300],
};

pub fn subjects() -> Vec<Subject> {
    let add_square = Subject::new("add_square", MATRICES, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, n))?;
        let (mut y, y_values) = setting.input::<f16, _>((m, n))?;
        visit(add_square(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || add_square_reference(&x_values, &y_values))
    });
    let shift_planes = Subject::new("shift_planes", PLANES, |setting, visit| {
        let [b, m, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((b, m, n))?;
        let (bias, biases) = setting.input::<f32, _>((m, n))?;
        let (scale, scales) = setting.input::<f32, _>((b,))?;
        let mut y = setting.output::<f32, _>((b, m, n))?;
        visit(shift_planes(&*x.view()?, &*bias.view()?, &*scale.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || shift_planes_reference(&x_values, &biases, &scales))
    });
    vec![add_square, shift_planes]
}
