//! Batches of products: by one operand for all, and of tf32 operands that lie across their sums.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, TF32_PRODUCT, sum};
use tracea::prelude::*;

/// `c[b] = a[b] · w`
#[kernel]
pub fn batched_shared<B: Dim, M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (B, M, K)>,
    w: &Tensor<bf16, (K, N)>,
    c: &mut Tensor<bf16, (B, M, N)>,
) {
    tile!(for (b, i, j) in (each(B), M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(b, i, k)], w[(k, j)]);
        });
        c[(b, i, j)] = acc.to();
    });
}

/// `c[b] = a[.., b, ..]ᵀ · w[b]`, by tensor cores.
#[kernel]
pub fn batched_across<B: Dim, M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f32, (K, B, M)>,
    w: &Tensor<f32, (B, K, N)>,
    c: &mut Tensor<f32, (B, M, N)>,
) {
    tile!(for (b, i, j) in (each(B), M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(k, b, i)].to::<tf32>().t(), w[(b, k, j)].to::<tf32>());
        });
        c[(b, i, j)] = acc;
    });
}

fn reference(a: &Array, w: &Array) -> Vec<Expected> {
    let ([batch, m, k], [_, n]) = (a.shape(), w.shape());
    let mut c = Vec::new();
    for b in 0..batch {
        for i in 0..m {
            for j in 0..n {
                c.push(sum((0..k).map(|p| a.at(&[b, i, p]) * w.at(&[p, j])), 0.0));
            }
        }
    }
    c
}

fn reference_across(a: &Array, w: &Array) -> Vec<Expected> {
    let ([k, batch, m], [.., n]) = (a.shape(), w.shape::<3>());
    let mut c = Vec::new();
    for b in 0..batch {
        for i in 0..m {
            for j in 0..n {
                c.push(sum((0..k).map(|p| a.at(&[p, b, i]) * w.at(&[b, p, j])), TF32_PRODUCT));
            }
        }
    }
    c
}

/// Batch, M, N, K.
const BATCHES: Sizes = Sizes {
    fixed: &[&[0, 3, 4, 5], &[1, 1, 1, 1], &[3, 17, 19, 23], &[2, 64, 64, 64], &[2, 3, 4, 0], &[5, 33, 2, 65]],
    random: &[0..=4, 0..=70, 0..=70, 0..=70],
};

pub fn subjects() -> Vec<Subject> {
    let shared = Subject::new("batched_shared", BATCHES, |setting, visit| {
        let [batch, m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<bf16, _>((batch, m, k))?;
        let (w, w_values) = setting.input::<bf16, _>((k, n))?;
        let mut c = setting.output::<bf16, _>((batch, m, n))?;
        visit(batched_shared(&*a.view()?, &*w.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || reference(&a_values, &w_values))
    });
    let across = Subject::new("batched_across", BATCHES, |setting, visit| {
        let [batch, m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f32, _>((k, batch, m))?;
        let (w, w_values) = setting.input::<f32, _>((batch, k, n))?;
        let mut c = setting.output::<f32, _>((batch, m, n))?;
        visit(batched_across(&*a.view()?, &*w.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || reference_across(&a_values, &w_values))
    });
    vec![shared, across]
}
