//! Products by warpgroups that have tiles of their own and take turns: of 64 and of 128 rows, alone and in pairs of blocks, with what results take
//! in along rows, columns and both, and results of two and four bytes.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use crate::swapped::elements;
use tracea::prelude::*;

/// `y = max(scale ∘ (x · wᵀ) + bias, 0) + r`, one scale a row and one bias a column
#[kernel]
#[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 5, consumers = 2, pingpong = true, raster = 3)]
#[schedule(sm_90a, i = 64, j = 176, k = 64, stages = 4, consumers = 2, pingpong = true)]
#[schedule(sm_90a, i = 64, j = 128, k = 128, stages = 3, consumers = 2, pingpong = true, cluster = (2, 1))]
pub fn layers_in_turn<M: Dim, N: Dim, K: Dim>(
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

/// `c = aᵀ · b`
#[kernel]
#[schedule(sm_90a, i = 128, j = 192, k = 64, stages = 4, consumers = 2, pingpong = true)]
#[schedule(sm_90a, i = 128, j = 64, k = 64, stages = 8, consumers = 2, pingpong = true, cluster = (1, 2))]
pub fn wide_in_turn<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (K, M)>,
    b: &Tensor<bf16, (K, N)>,
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

/// M, N, K: no sum at all, one tile and a few.
const SIZES: Sizes =
    Sizes { fixed: &[&[0, 4, 4], &[4, 4, 0], &[1, 1, 1], &[129, 304, 72]], random: &[1..=400, 1..=600, 1..=200] };

/// Several tiles, several units of a block's, an odd number of them, and a last one that lies mostly outside.
const WAVES: &[&[usize]] = &[&[520, 264, 712], &[2600, 2056, 136], &[4104, 3080, 8]];

/// `max(scale ∘ (x · wᵀ) + bias, 0) + r`
pub fn layers(x: &Array, w: &Array, [scale, bias]: [&Array; 2], r: &Array) -> Vec<Expected> {
    let ([m, k], [n, _]) = (x.shape(), w.shape());
    elements(m, n, |i, j| {
        let product = sum((0..k).map(|p| x.at(&[i, p]) * w.at(&[j, p])), 0.0);
        let scaled = product.times(scale.at(&[i])).plus(bias.at(&[j]));
        scaled.map(|value| value.max(0.0), 1.0).plus(r.at(&[i, j]))
    })
}

pub fn subjects() -> Vec<Subject> {
    vec![
        Subject::new("layers_in_turn", SIZES, |setting, visit| {
            let [m, n, k] = setting.sizes()?;
            let (x, x_values) = setting.input::<f16, _>((m, k))?;
            let (w, w_values) = setting.input::<f16, _>((n, k))?;
            let (scale, scale_values) = setting.input::<f32, _>((m,))?;
            let (bias, bias_values) = setting.input::<f16, _>((n,))?;
            let (r, r_values) = setting.input::<f16, _>((m, n))?;
            let mut y = setting.output::<f16, _>((m, n))?;
            visit(layers_in_turn(
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
        Subject::new("wide_in_turn", SIZES, |setting, visit| {
            let [m, n, k] = setting.sizes()?;
            let (a, a_values) = setting.input::<bf16, _>((k, m))?;
            let (b, b_values) = setting.input::<bf16, _>((k, n))?;
            let mut c = setting.output::<f32, _>((m, n))?;
            visit(wide_in_turn(&*a.view()?, &*b.view()?, &mut *c.view_mut()?))?;
            Outcome::new(c, move || {
                elements(m, n, |i, j| sum((0..k).map(|p| a_values.at(&[p, i]) * b_values.at(&[p, j])), 0.0))
            })
        })
        .in_waves(WAVES),
    ]
}
