//! A product of low rank: what lies between its two factors never leaves the chip.

use crate::case::{Outcome, Subject};
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
    vec![Subject::new("low_rank", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (u, u_values) = setting.input::<f16, _>((k, Const::<64>))?;
        let (v, v_values) = setting.input::<f16, _>((Const::<64>, n))?;
        let mut c = setting.output::<f16, _>((m, n))?;
        visit(low_rank(&*a.view()?, &*u.view()?, &*v.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || reference(&a_values, &u_values, &v_values))
    })]
}
