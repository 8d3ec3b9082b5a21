//! Products of which each warpgroup has two blocks of rows, with the other one's in between: with what results take in along rows, columns and both,
//! along either side of the accumulators, by one place for panels and two, in parts, and with sums over their rows.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Expected, sum, total};
use crate::swapped::elements;
use crate::turns::layers;
use tracea::prelude::*;

/// `y = max(scale ∘ (x · wᵀ) + bias, 0) + r`, one scale a row and one bias a column
#[kernel]
#[schedule(sm_90a, i = 256, j = 128, k = 64, stages = 3, consumers = 2)]
#[schedule(sm_90a, i = 256, j = 96, k = 64, stages = 3, consumers = 2, cluster = (1, 2))]
#[schedule(sm_90a, i = 128, j = 64, k = 128, stages = 3, consumers = 1, cluster = (2, 1))]
pub fn tall_layers<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    scale: &Tensor<f32, (M,)>,
    bias: &Tensor<f16, (N,)>,
    r: &Tensor<f16, (M, N)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(x[(i, k)], w[(j, k)].t());
        });
        y[(i, j)] = ((acc * scale[i] + bias[j].to::<f32>()).max(0.0) + r[(i, j)].to::<f32>()).to();
    });
}

/// `c = a · bᵀ`
#[kernel]
#[schedule(sm_90a, i = 256, j = 160, k = 64, stages = 4, consumers = 2)]
#[schedule(sm_90a, i = 160, j = 256, k = 64, stages = 4, consumers = 2, swapped = true, cluster = (1, 2))]
#[schedule(sm_90a, i = 64, j = 256, k = 64, stages = 4, consumers = 2, swapped = true)]
pub fn tall_halves<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (M, K)>,
    b: &Tensor<bf16, (N, K)>,
    c: &mut Tensor<bf16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)].t());
        });
        c[(i, j)] = acc.to();
    });
}

/// `c = aᵀ · b`
#[kernel]
#[schedule(sm_90a, i = 256, j = 64, k = 64, stages = 4, consumers = 2)]
#[schedule(sm_90a, i = 192, j = 256, k = 64, stages = 3, consumers = 2, swapped = true, cluster = 2)]
pub fn tall_words<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (K, M)>,
    b: &Tensor<f16, (K, N)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(k, i)].t(), b[(k, j)]);
        });
        c[(i, j)] = acc;
    });
}

const COLUMNS: usize = 96;

/// `y = x · wᵀ`, and to each element the sum of its row
#[kernel]
#[schedule(sm_90a, i = 256, k = 64, stages = 3, consumers = 2)]
pub fn tall_sums<M: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (Const<96>, K)>,
    y: &mut Tensor<f32, (M, Const<96>)>,
) {
    tile!(for i in M {
        let mut acc = zeros::<f32>((i, ..));
        tile!(for k in K {
            acc += dot(x[(i, k)], w[(.., k)].t());
        });
        y[(i, ..)] = acc + acc.row_sum();
    });
}

/// M, N, K: no sum at all, one tile and a few.
const SIZES: Sizes =
    Sizes { fixed: &[&[0, 4, 4], &[4, 4, 0], &[1, 1, 1], &[129, 304, 72]], random: &[1..=400, 1..=600, 1..=200] };

/// Several tiles, long sums of few tiles, several units of a block's, and a last tile that lies mostly outside.
const WAVES: &[&[usize]] = &[&[520, 333, 712], &[300, 264, 4100], &[2600, 2056, 136], &[4104, 3080, 8]];

const SUMS: Sizes = Sizes { fixed: &[&[0, 4], &[4, 0], &[1, 1], &[257, 72]], random: &[1..=600, 1..=200] };

pub fn subjects() -> Vec<Subject> {
    vec![
        Subject::new("tall_layers", SIZES, |setting, visit| {
            let [m, n, k] = setting.sizes()?;
            let (x, x_values) = setting.input::<f16, _>((m, k))?;
            let (w, w_values) = setting.input::<f16, _>((n, k))?;
            let (scale, scale_values) = setting.input::<f32, _>((m,))?;
            let (bias, bias_values) = setting.input::<f16, _>((n,))?;
            let (r, r_values) = setting.input::<f16, _>((m, n))?;
            let mut y = setting.output::<f16, _>((m, n))?;
            visit(tall_layers(
                &*x.view()?,
                &*w.view()?,
                &*scale.view()?,
                &*bias.view()?,
                &*r.view()?,
                &mut *y.view_mut()?,
            ))?;
            Outcome::new(y, move || layers(&x_values, &w_values, [&scale_values, &bias_values], &r_values))
        })
        .in_waves(WAVES),
        Subject::new("tall_halves", SIZES, |setting, visit| {
            let [m, n, k] = setting.sizes()?;
            let (a, a_values) = setting.input::<bf16, _>((m, k))?;
            let (b, b_values) = setting.input::<bf16, _>((n, k))?;
            let mut c = setting.output::<bf16, _>((m, n))?;
            visit(tall_halves(&*a.view()?, &*b.view()?, &mut *c.view_mut()?))?;
            Outcome::new(c, move || {
                elements(m, n, |i, j| sum((0..k).map(|p| a_values.at(&[i, p]) * b_values.at(&[j, p])), 0.0))
            })
        })
        .in_waves(WAVES),
        Subject::new("tall_words", SIZES, |setting, visit| {
            let [m, n, k] = setting.sizes()?;
            let (a, a_values) = setting.input::<f16, _>((k, m))?;
            let (b, b_values) = setting.input::<f16, _>((k, n))?;
            let mut c = setting.output::<f32, _>((m, n))?;
            visit(tall_words(&*a.view()?, &*b.view()?, &mut *c.view_mut()?))?;
            Outcome::new(c, move || {
                elements(m, n, |i, j| sum((0..k).map(|p| a_values.at(&[p, i]) * b_values.at(&[p, j])), 0.0))
            })
        })
        .in_waves(WAVES),
        Subject::new("tall_sums", SUMS, |setting, visit| {
            let [m, k] = setting.sizes()?;
            let (x, x_values) = setting.input::<f16, _>((m, k))?;
            let (w, w_values) = setting.input::<f16, _>((Const::<COLUMNS>, k))?;
            let mut y = setting.output::<f32, _>((m, Const::<COLUMNS>))?;
            visit(tall_sums(&*x.view()?, &*w.view()?, &mut *y.view_mut()?))?;
            Outcome::new(y, move || {
                let mut all: Vec<Expected> = Vec::new();
                for i in 0..m {
                    let of = |j: usize| sum((0..k).map(|p| x_values.at(&[i, p]) * w_values.at(&[j, p])), 0.0);
                    let row: Vec<Expected> = (0..COLUMNS).map(of).collect();
                    let all_of_row = total(row.iter().copied());
                    all.extend(row.into_iter().map(|value| value.plus(all_of_row)));
                }
                all
            })
        })
        .in_waves(&[&[4104, 200]]),
    ]
}
