//! Transposes: the same elements at other places, read and written along the memory.

use crate::case::{Number, Outcome, Sizes, Subject};
use crate::expected::{Array, Expected};
use crate::sizes::MATRICES;
use tracea::prelude::*;

/// `y = xᵀ`
#[kernel(T = [f16, f32])]
pub fn transposed<T: Float, M: Dim, N: Dim>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (N, M)>) {
    tile!(for (i, j) in (M, N) {
        y[(j, i)] = x[(i, j)].t();
    });
}

/// Heads before positions: (B, S, H, D) to (B, H, S, D)
#[kernel]
pub fn heads_first<B: Dim, S: Dim, H: Dim, D: Dim>(x: &Tensor<f16, (B, S, H, D)>, y: &mut Tensor<f16, (B, H, S, D)>) {
    tile!(for (b, h, i, d) in (each(B), each(H), S, D) {
        y[(b, h, i, d)] = x[(b, i, h, d)];
    });
}

fn transposed_reference(x: &Array) -> Vec<Expected> {
    let [m, n] = x.shape();
    let mut y = Vec::new();
    for j in 0..n {
        for i in 0..m {
            y.push(x.at(&[i, j]).into());
        }
    }
    y
}

fn heads_first_reference(x: &Array) -> Vec<Expected> {
    let [batch, length, heads, size] = x.shape();
    let mut y = Vec::new();
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..length {
                y.extend((0..size).map(|d| Expected::from(x.at(&[b, i, h, d]))));
            }
        }
    }
    y
}

/// Batch, positions, heads, elements of a head.
const HEADS: Sizes = Sizes {
    fixed: &[&[0, 3, 2, 4], &[1, 1, 1, 1], &[2, 37, 3, 64], &[1, 129, 2, 17]],
    random: &[0..=3, 0..=70, 0..=4, 0..=70],
};

fn matrix<T: Number>(name: &str, kernel: for<'t> fn(&'t Matrix<T>, &'t mut Matrix<T>) -> Launch<'t>) -> Subject {
    Subject::new(name, MATRICES, move |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, values) = setting.input::<T, _>((m, n))?;
        let mut y = setting.output::<T, _>((n, m))?;
        visit(kernel(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || transposed_reference(&values))
    })
}

type Matrix<T> = Tensor<T, (Dyn, Dyn)>;

pub fn subjects() -> Vec<Subject> {
    let heads = Subject::new("heads_first", HEADS, |setting, visit| {
        let [batch, length, heads, size] = setting.sizes()?;
        let (x, values) = setting.input::<f16, _>((batch, length, heads, size))?;
        let mut y = setting.output::<f16, _>((batch, heads, length, size))?;
        visit(heads_first(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || heads_first_reference(&values))
    });
    vec![matrix::<f16>("transposed f16", transposed), matrix::<f32>("transposed f32", transposed), heads]
}
