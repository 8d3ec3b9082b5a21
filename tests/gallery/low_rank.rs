//! A product of low rank: what lies between its two factors never leaves the chip.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, F16, sum, total};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `c = (a · u) · v`, with `a · u` rounded to f16
#[kernel]
pub fn low_rank<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    u: &Tensor<f16, (K, Const<64>)>,
    v: &Tensor<f16, (Const<64>, N)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    tile!(for i in M {
        let mut inner = zeros::<f32>((i, ..));
        tile!(for k in K {
            inner += dot(a[(i, k)], u[(k, ..)]);
        });
        let inner = inner.to::<f16>();
        tile!(for j in N {
            c[(i, j)] = dot(inner, v[(.., j)]).to();
        });
    });
}

/// `c = x · wᵀ + (x · downᵀ · scale) · upᵀ`, a layer with an adapter of rank 16 beside it ([LoRA](https://arxiv.org/abs/2106.09685))
#[kernel]
pub fn adapted<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    down: &Tensor<f16, (Const<16>, K)>,
    up: &Tensor<f16, (N, Const<16>)>,
    c: &mut Tensor<f16, (M, N)>,
    scale: f32,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        let mut low = zeros::<f32>((i, ..));
        tile!(for k in K {
            let rows = x[(i, k)];
            acc += dot(rows, w[(j, k)].t());
            low += dot(rows, down[(.., k)].t());
        });
        c[(i, j)] = (acc + dot((low * scale).to::<f16>(), up[(j, ..)].t())).to();
    });
}

const SCALE: f32 = 0.25;

fn adapted_reference(x: &Array, w: &Array, down: &Array, up: &Array) -> Vec<Expected> {
    let ([m, k], [n, _], [rank, _]) = (x.shape(), w.shape(), down.shape());
    let mut c = Vec::new();
    for i in 0..m {
        let product = |y: &Array, j: usize| sum((0..k).map(|p| x.at(&[i, p]) * y.at(&[j, p])), 0.0);
        let low: Vec<Expected> = (0..rank).map(|r| product(down, r).times(f64::from(SCALE)).rounded(F16)).collect();
        for j in 0..n {
            c.push(product(w, j).plus(total((0..rank).map(|r| low[r].times(up.at(&[j, r]))))));
        }
    }
    c
}

fn reference(a: &Array, u: &Array, v: &Array) -> Vec<Expected> {
    let ([m, k], [rank, n]) = (a.shape(), v.shape());
    let mut c = Vec::new();
    for i in 0..m {
        let inner = |r| sum((0..k).map(|p| a.at(&[i, p]) * u.at(&[p, r])), 0.0).rounded(F16);
        let inner: Vec<Expected> = (0..rank).map(inner).collect();
        for j in 0..n {
            c.push(total((0..rank).map(|r| inner[r].times(v.at(&[r, j])))));
        }
    }
    c
}

pub fn subjects() -> Vec<Subject> {
    vec![low_rank_subject(), adapted_subject()]
}

/// Long sums under few tiles are cut into parts.
fn adapted_subject() -> Subject {
    let sizes = Sizes {
        fixed: &[&[1, 1, 1], &[31, 37, 41], &[16, 300, 4096], &[140, 70, 1500]],
        random: &[1..=150, 1..=150, 1..=150],
    };
    Subject::new("adapted", sizes, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((n, k))?;
        let (down, down_values) = setting.input::<f16, _>((Const::<16>, k))?;
        let (up, up_values) = setting.input::<f16, _>((n, Const::<16>))?;
        let mut c = setting.output::<f16, _>((m, n))?;
        visit(adapted(&*x.view()?, &*w.view()?, &*down.view()?, &*up.view()?, &mut *c.view_mut()?, SCALE))?;
        Outcome::new(c, move || adapted_reference(&x_values, &w_values, &down_values, &up_values))
    })
}

fn low_rank_subject() -> Subject {
    Subject::new("low_rank", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (u, u_values) = setting.input::<f16, _>((k, Const::<64>))?;
        let (v, v_values) = setting.input::<f16, _>((Const::<64>, n))?;
        let mut c = setting.output::<f16, _>((m, n))?;
        visit(low_rank(&*a.view()?, &*u.view()?, &*v.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || reference(&a_values, &u_values, &v_values))
    })
}
