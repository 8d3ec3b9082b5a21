//! Sums down the columns, and of a whole row into one number.

use crate::case::{Outcome, Subject};
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

fn dot_products_reference(x: &Array, y: &Array) -> Vec<Expected> {
    let [batch, n] = x.shape();
    (0..batch).map(|b| sum((0..n).map(|i| x.at(&[b, i]) * y.at(&[b, i])), 0.0)).collect()
}

pub fn subjects() -> Vec<Subject> {
    let columns = Subject::new("column_sums", MATRICES, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, values) = setting.input::<f16, _>((m, n))?;
        let mut s = setting.output::<f32, _>((n,))?;
        visit(column_sums(&*x.view()?, &mut *s.view_mut()?))?;
        Outcome::new(s, move || column_sums_reference(&values))
    });
    let rows = Subject::new("dot_products", MATRICES, |setting, visit| {
        let [batch, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<f32, _>((batch, n))?;
        let (y, y_values) = setting.input::<f32, _>((batch, n))?;
        let mut s = setting.output::<f32, _>((batch,))?;
        visit(dot_products(&*x.view()?, &*y.view()?, &mut *s.view_mut()?))?;
        Outcome::new(s, move || dot_products_reference(&x_values, &y_values))
    });
    vec![columns, rows]
}
