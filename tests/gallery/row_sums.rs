//! A product that also writes the sums of its rows: two outputs of one loop, one of them carried across blocks of columns.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, sum, total};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `c = a · b`, `sums = Σ over columns of c`
#[kernel]
pub fn gemm_row_sums<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, N)>,
    c: &mut Tensor<f16, (M, N)>,
    sums: &mut Tensor<f32, (M,)>,
) {
    tile!(for i in M {
        let mut total = zeros::<f32>(i);
        tile!(for j in N {
            let mut acc = zeros::<f32>((i, j));
            tile!(for k in K {
                acc += dot(a[(i, k)], b[(k, j)]);
            });
            total += acc.row_sum();
            c[(i, j)] = acc.to();
        });
        sums[i] = total;
    });
}

fn products(a: &Array, b: &Array) -> Vec<Expected> {
    let ([m, k], [_, n]) = (a.shape(), b.shape());
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            c.push(sum((0..k).map(|p| a.at(&[i, p]) * b.at(&[p, j])), 0.0));
        }
    }
    c
}

fn sums(a: &Array, b: &Array) -> Vec<Expected> {
    let ([m, _], [_, n]) = (a.shape(), b.shape());
    let c = products(a, b);
    (0..m).map(|i| total(c[i * n..(i + 1) * n].iter().copied())).collect()
}

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("gemm_row_sums", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (b, b_values) = setting.input::<f16, _>((k, n))?;
        let mut c = setting.output::<f16, _>((m, n))?;
        let mut row_sums = setting.output::<f32, _>((m,))?;
        visit(gemm_row_sums(&*a.view()?, &*b.view()?, &mut *c.view_mut()?, &mut *row_sums.view_mut()?))?;
        let (a, b) = (a_values.clone(), b_values.clone());
        Outcome::new(c, move || products(&a, &b))?.and(row_sums, move || sums(&a_values, &b_values))
    })]
}
