//! Results that a flag asks for: what an activation was applied to, kept for the way back.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::PRODUCTS;
use tracea::activation::relu;
use tracea::prelude::*;

/// `y = relu(h)`, `h = x · wᵀ` if `save` asks for it
#[kernel(save = [false, true])]
pub fn saved<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    h: &mut Tensor<f32, (M, N)>,
    y: &mut Tensor<f16, (M, N)>,
    save: bool,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(x[(i, k)], w[(j, k)].t());
        });
        if save {
            h[(i, j)] = acc;
        }
        y[(i, j)] = acc.map(relu).to();
    });
}

fn products(x: &Array, w: &Array) -> Vec<Expected> {
    let ([m, k], [n, _]) = (x.shape(), w.shape());
    let of = |i: usize, j: usize| sum((0..k).map(|p| x.at(&[i, p]) * w.at(&[j, p])), 0.0);
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| of(i, j)).collect()
}

fn subject(save: bool) -> Subject {
    Subject::new(format!("saved {save}"), PRODUCTS, move |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((n, k))?;
        let (mut h, h_values) = setting.input::<f32, _>((m, n))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(saved(&*x.view()?, &*w.view()?, &mut *h.view_mut()?, &mut *y.view_mut()?, save))?;
        let (left, right) = (x_values.clone(), w_values.clone());
        let activated = move || {
            let positive = |product: Expected| product.map(|value| value.max(0.0), 1.0);
            products(&left, &right).into_iter().map(positive).collect()
        };
        Outcome::new(y, activated)?.and(h, move || match save {
            true => products(&x_values, &w_values),
            false => h_values.values.iter().copied().map(Expected::from).collect(),
        })
    })
}

pub fn subjects() -> Vec<Subject> {
    vec![subject(false), subject(true)]
}
