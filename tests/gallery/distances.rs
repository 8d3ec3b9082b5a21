//! Pairwise squared distances by way of a product: the tiles that it multiplies also give the norms of their rows.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `c = |a_i − b_j|²`, exact products in f32
#[kernel]
pub fn distances<M: Dim, N: Dim, D: Dim>(
    a: &Tensor<f32, (M, D)>,
    b: &Tensor<f32, (N, D)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut product = zeros::<f32>((i, j));
        let mut aa = zeros::<f32>(i);
        let mut bb = zeros::<f32>(j);
        tile!(for d in D {
            let x = a[(i, d)];
            let y = b[(j, d)];
            product += dot(x, y.t());
            aa += (x * x).row_sum();
            bb += (y * y).row_sum();
        });
        c[(i, j)] = (aa + bb - 2.0 * product).max(0.0);
    });
}

fn reference(a: &Array, b: &Array) -> Vec<Expected> {
    let ([m, depth], [n, _]) = (a.shape(), b.shape());
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let (a, b) = (|d| a.at(&[i, d]), |d| b.at(&[j, d]));
            let distance: f64 = (0..depth).map(|d| (a(d) - b(d)).powi(2)).sum();
            // What cancels leaves its rounding behind.
            let terms = (0..depth).flat_map(|d| [a(d).powi(2), b(d).powi(2), 2.0 * a(d) * b(d)]);
            c.push(Expected { value: distance, slack: sum(terms, 0.0).slack });
        }
    }
    c
}

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("distances", PRODUCTS, |setting, visit| {
        let [m, n, depth] = setting.sizes()?;
        let (a, a_values) = setting.input::<f32, _>((m, depth))?;
        let (b, b_values) = setting.input::<f32, _>((n, depth))?;
        let mut c = setting.output::<f32, _>((m, n))?;
        visit(distances(&*a.view()?, &*b.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || reference(&a_values, &b_values))
    })]
}
