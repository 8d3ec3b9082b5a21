//! Element by element: a scalar, a row and a column spread over what they meet, and an output that is read first.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected};
use crate::sizes::MATRICES;
use tracea::prelude::*;

/// `y = a · x + y`
#[kernel]
pub fn axpy<N: Dim>(a: f32, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    tile!(for i in N {
        y[i] += a * x[i];
    });
}

/// `y = (x + shift) ∘ scale`: a shift for each column, a scale for each row
#[kernel]
pub fn affine<M: Dim, N: Dim>(
    x: &Tensor<bf16, (M, N)>,
    shift: &Tensor<f32, (N,)>,
    scale: &Tensor<f32, (M,)>,
    y: &mut Tensor<bf16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        y[(i, j)] = ((x[(i, j)].to::<f32>() + shift[j]) * scale[i]).to();
    });
}

/// `y = u · vᵀ`, without a product's machinery: a column times a row
#[kernel]
pub fn outer<M: Dim, N: Dim>(u: &Tensor<f32, (M,)>, v: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        y[(i, j)] = u[i] * v[j];
    });
}

fn axpy_reference(a: f64, x: &Array, y: &Array) -> Vec<Expected> {
    x.values.iter().zip(&y.values).map(|(x, y)| Expected::from(a).times(*x).plus(*y)).collect()
}

fn affine_reference(x: &Array, shift: &Array, scale: &Array) -> Vec<Expected> {
    let [m, n] = x.shape();
    let mut y = Vec::new();
    for i in 0..m {
        for j in 0..n {
            y.push(Expected::from(x.at(&[i, j])).plus(shift.at(&[j])).times(scale.at(&[i])));
        }
    }
    y
}

fn outer_reference(u: &Array, v: &Array) -> Vec<Expected> {
    let row = |u: &f64| v.values.iter().map(|v| Expected::from(u * v)).collect::<Vec<_>>();
    u.values.iter().flat_map(row).collect()
}

const VECTORS: Sizes = Sizes { fixed: &[&[0], &[1], &[1009], &[4096], &[100_003]], random: &[0..=5000] };

pub fn subjects() -> Vec<Subject> {
    let axpy = Subject::new("axpy", VECTORS, |setting, visit| {
        let [n] = setting.sizes()?;
        let (x, x_values) = setting.input::<f32, _>((n,))?;
        let (mut y, y_values) = setting.input::<f32, _>((n,))?;
        visit(axpy(1.7, &*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || axpy_reference(1.7f32.into(), &x_values, &y_values))
    });
    let affine = Subject::new("affine", MATRICES, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<bf16, _>((m, n))?;
        let (shift, shifts) = setting.input::<f32, _>((n,))?;
        let (scale, scales) = setting.input::<f32, _>((m,))?;
        let mut y = setting.output::<bf16, _>((m, n))?;
        visit(affine(&*x.view()?, &*shift.view()?, &*scale.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || affine_reference(&x_values, &shifts, &scales))
    });
    let outer = Subject::new("outer", MATRICES, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (u, u_values) = setting.input::<f32, _>((m,))?;
        let (v, v_values) = setting.input::<f32, _>((n,))?;
        let mut y = setting.output::<f32, _>((m, n))?;
        visit(outer(&*u.view()?, &*v.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || outer_reference(&u_values, &v_values))
    });
    vec![axpy, affine, outer]
}
