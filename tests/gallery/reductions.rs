//! Sums down the columns, along rows by weights of their columns, and of a whole row into one number.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::MATRICES;
use tracea::prelude::*;

/// `s = Σ over rows of x`
#[kernel]
pub fn column_sums<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, s: &mut Tensor<f32, (N,)>) {
    tile!(for j in N {
        let mut total = zeros::<f32>(j);
        tile!(for i in M {
            total += x[(i, j)].to::<f32>().col_sum();
        });
        s[j] = total;
    });
}

/// `s = x · w`
#[kernel]
pub fn weighted_sums<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, w: &Tensor<f32, (N,)>, s: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        let mut total = zeros::<f32>(i);
        tile!(for j in N {
            total += (x[(i, j)].to::<f32>() * w[j]).row_sum();
        });
        s[i] = total;
    });
}

/// `s[b] = x[b] · y[b]`
#[kernel]
pub fn dot_products<B: Dim, N: Dim>(x: &Tensor<f32, (B, N)>, y: &Tensor<f32, (B, N)>, s: &mut Tensor<f32, (B,)>) {
    tile!(for b in each(B) {
        let mut total = zeros::<f32>(());
        tile!(for i in N {
            total += (x[(b, i)] * y[(b, i)]).sum(i);
        });
        s[b] = total;
    });
}

fn column_sums_reference(x: &Array) -> Vec<Expected> {
    let [m, n] = x.shape();
    (0..n).map(|j| sum((0..m).map(|i| x.at(&[i, j])), 0.0)).collect()
}

fn weighted_sums_reference(x: &Array, w: &Array) -> Vec<Expected> {
    let [m, n] = x.shape();
    (0..m).map(|i| sum((0..n).map(|j| x.at(&[i, j]) * w.at(&[j])), 0.0)).collect()
}

fn dot_products_reference(x: &Array, y: &Array) -> Vec<Expected> {
    let [batch, n] = x.shape();
    (0..batch).map(|b| sum((0..n).map(|i| x.at(&[b, i]) * y.at(&[b, i])), 0.0)).collect()
}

/// Rows and their length, up to the longest that each schedule takes.
const ROWS: Sizes = Sizes {
    fixed: &[
        &[0, 5],
        &[5, 0],
        &[1, 1],
        &[7, 1009],
        &[17, 263],
        &[17, 519],
        &[9, 1031],
        &[9, 4103],
        &[2, 8199],
        &[3, 20011],
    ],
    random: &[0..=40, 0..=300],
};

pub fn subjects() -> Vec<Subject> {
    let columns = Subject::new("column_sums", MATRICES, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, values) = setting.input::<f16, _>((m, n))?;
        let mut s = setting.output::<f32, _>((n,))?;
        visit(column_sums(&*x.view()?, &mut *s.view_mut()?))?;
        Outcome::new(s, move || column_sums_reference(&values))
    });
    let weighted = Subject::new("weighted_sums", ROWS, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, n))?;
        let (w, w_values) = setting.input::<f32, _>((n,))?;
        let mut s = setting.output::<f32, _>((m,))?;
        visit(weighted_sums(&*x.view()?, &*w.view()?, &mut *s.view_mut()?))?;
        Outcome::new(s, move || weighted_sums_reference(&x_values, &w_values))
    });
    let rows = Subject::new("dot_products", MATRICES, |setting, visit| {
        let [batch, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<f32, _>((batch, n))?;
        let (y, y_values) = setting.input::<f32, _>((batch, n))?;
        let mut s = setting.output::<f32, _>((batch,))?;
        visit(dot_products(&*x.view()?, &*y.view()?, &mut *s.view_mut()?))?;
        Outcome::new(s, move || dot_products_reference(&x_values, &y_values))
    });
    vec![columns, weighted, rows]
}
