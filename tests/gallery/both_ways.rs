//! A product that is left twice: activated by rows, and as it was by columns, as its gradients want it.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use tracea::activation::relu;
use tracea::prelude::*;

/// `h = relu(x · wᵀ + bias)`, `t = (x · wᵀ + bias)ᵀ`
#[kernel]
pub fn linear_both_ways<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    bias: &Tensor<f32, (N,)>,
    h: &mut Tensor<f16, (M, N)>,
    t: &mut Tensor<f16, (N, M)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(x[(i, k)], w[(j, k)].t());
        });
        let before = acc + bias[j];
        h[(i, j)] = before.map(relu).to();
        t[(j, i)] = before.t().to();
    });
}

fn before(x: &Array, w: &Array, bias: &Array, i: usize, j: usize) -> Expected {
    let [_, k] = x.shape();
    sum((0..k).map(|p| x.at(&[i, p]) * w.at(&[j, p])), 0.0).plus(Expected::from(bias.at(&[j])))
}

/// Rows of both results, of one alone and of none are such as TMA stores.
const SIZES: Sizes = Sizes {
    fixed: &[
        &[0, 5, 7],
        &[5, 0, 7],
        &[5, 7, 0],
        &[1, 1, 1],
        &[31, 37, 41],
        &[46, 56, 27],
        &[1, 264, 67],
        &[40, 37, 130],
        &[264, 131, 137],
        &[136, 72, 1024],
    ],
    random: &[0..=140, 0..=140, 0..=100],
};

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("linear_both_ways", SIZES, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((n, k))?;
        let (bias, biases) = setting.input::<f32, _>((n,))?;
        let mut h = setting.output::<f16, _>((m, n))?;
        let mut t = setting.output::<f16, _>((n, m))?;
        visit(linear_both_ways(&*x.view()?, &*w.view()?, &*bias.view()?, &mut *h.view_mut()?, &mut *t.view_mut()?))?;
        let all = std::rc::Rc::new(move |i: usize, j: usize| before(&x_values, &w_values, &biases, i, j));
        let of_h = all.clone();
        let activated = move || {
            let elements = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
            elements.map(|(i, j)| of_h(i, j).then(|value| value.max(0.0))).collect()
        };
        let turned = move || (0..n).flat_map(|j| (0..m).map(move |i| (i, j))).map(|(i, j)| all(i, j)).collect();
        Outcome::new(h, activated)?.and(t, turned)
    })]
}
