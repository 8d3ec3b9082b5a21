//! Products computed the other way round: their results leave by panels that lie across the accumulators, one or several, by what joins
//! them on the way; and results that a kernel itself writes that way.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Expected, TF32_PRODUCT, sum};
use tracea::prelude::*;

/// `y = scale ∘ (x · w) + bias`, one scale a row and one bias a column, by tensor cores
#[kernel]
#[schedule(sm_90a, i = 208, j = 128, k = 32, stages = 5, consumers = 2, swapped = true)]
#[schedule(sm_90a, i = 256, j = 128, k = 32, stages = 3, consumers = 2, swapped = true, cluster = (1, 2))]
#[schedule(sm_90a, i = 32, j = 64, k = 64, stages = 4, consumers = 1, swapped = true, resident = 2)]
pub fn scaled_rows<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f32, (M, K)>,
    w: &Tensor<f32, (K, N)>,
    scale: &Tensor<f32, (M,)>,
    bias: &Tensor<f32, (N,)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(x[(i, k)].to::<tf32>(), w[(k, j)].to::<tf32>());
        });
        y[(i, j)] = (acc * scale[i] + bias[j]).to();
    });
}

/// `c = a · b + r`
#[kernel]
#[schedule(sm_90a, i = 64, j = 128, k = 64, stages = 3, consumers = 2, swapped = true)]
#[schedule(sm_90a, i = 16, j = 64, k = 128, stages = 3, consumers = 1, swapped = true, cluster = 2, resident = 2)]
pub fn with_addend<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (M, K)>,
    b: &Tensor<bf16, (K, N)>,
    r: &Tensor<f32, (M, N)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]);
        });
        c[(i, j)] = acc + r[(i, j)];
    });
}

/// `c = (a · bᵀ)ᵀ`
#[kernel]
pub fn written_across<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f16, (N, M)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)].t());
        });
        c[(j, i)] = acc.t().to();
    });
}

/// M, N, K: few rows and many, several steps, rows that vectors divide and rows that they do not.
const PRODUCTS: Sizes = Sizes {
    fixed: &[
        &[0, 5, 7],
        &[5, 7, 0],
        &[1, 1, 1],
        &[1, 300, 64],
        &[17, 129, 35],
        &[33, 264, 72],
        &[131, 257, 67],
        &[300, 328, 520],
    ],
    random: &[0..=140, 0..=300, 0..=100],
};

pub fn subjects() -> Vec<Subject> {
    let scaled_rows = Subject::new("scaled_rows", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, xs) = setting.input::<f32, _>((m, k))?;
        let (w, ws) = setting.input::<f32, _>((k, n))?;
        let (scale, scales) = setting.input::<f32, _>((m,))?;
        let (bias, biases) = setting.input::<f32, _>((n,))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(self::scaled_rows(&*x.view()?, &*w.view()?, &*scale.view()?, &*bias.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            elements(m, n, |i, j| {
                let product = sum((0..k).map(|p| xs.at(&[i, p]) * ws.at(&[p, j])), TF32_PRODUCT);
                product.times(scales.at(&[i])).plus(biases.at(&[j]))
            })
        })
    });
    let with_addend = Subject::new("with_addend", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<bf16, _>((m, k))?;
        let (b, b_values) = setting.input::<bf16, _>((k, n))?;
        let (r, addends) = setting.input::<f32, _>((m, n))?;
        let mut c = setting.output::<f32, _>((m, n))?;
        visit(self::with_addend(&*a.view()?, &*b.view()?, &*r.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || {
            elements(m, n, |i, j| {
                sum((0..k).map(|p| a_values.at(&[i, p]) * b_values.at(&[p, j])), 0.0).plus(addends.at(&[i, j]))
            })
        })
    });
    let written_across = Subject::new("written_across", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (b, b_values) = setting.input::<f16, _>((n, k))?;
        let mut c = setting.output::<f16, _>((n, m))?;
        visit(self::written_across(&*a.view()?, &*b.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || {
            elements(n, m, |j, i| sum((0..k).map(|p| a_values.at(&[i, p]) * b_values.at(&[j, p])), 0.0))
        })
    });
    vec![scaled_rows, with_addend, written_across]
}

/// Of a matrix, row by row.
pub fn elements(rows: usize, cols: usize, at: impl Fn(usize, usize) -> Expected) -> Vec<Expected> {
    let at = &at;
    (0..rows).flat_map(|row| (0..cols).map(move |col| at(row, col))).collect()
}
