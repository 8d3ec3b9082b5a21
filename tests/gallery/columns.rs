//! Rows that begin within rows of a tensor: halves, heads side by side, what several tensors share one for.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use tracea::activation::silu;
use tracea::prelude::*;

/// Halves of a head turn each other by an angle for each position ([RoFormer](https://arxiv.org/abs/2104.09864)).
#[kernel]
pub fn rotated<S: Dim, H: Dim>(
    x: &Tensor<f16, (S, H, Const<96>)>,
    cos: &Tensor<f32, (S, Const<48>)>,
    sin: &Tensor<f32, (S, Const<48>)>,
    y: &mut Tensor<f16, (S, H, Const<96>)>,
) {
    tile!(for (s, h, d) in (S, each(H), Const::<48>) {
        let (a, b) = (x[(s, h, d + 0)].to::<f32>(), x[(s, h, d + 48)].to::<f32>());
        y[(s, h, d + 0)] = (a * cos[(s, d)] - b * sin[(s, d)]).to();
        y[(s, h, d + 48)] = (b * cos[(s, d)] + a * sin[(s, d)]).to();
    });
}

/// One half gates the other; `L` is `2 N`, or less, where zeros are missing.
#[kernel]
pub fn gated_halves<M: Dim, N: Dim, L: Dim>(x: &Tensor<f16, (M, L)>, y: &mut Tensor<f16, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let gate = x[(i, j + 0)].to::<f32>();
        y[(i, j)] = (gate.map(silu) * x[(i, j + N)].to::<f32>()).to();
    });
}

/// `y = [a b]`
#[kernel]
pub fn concatenated<M: Dim, N: Dim, K: Dim, L: Dim>(
    a: &Tensor<f16, (M, N)>,
    b: &Tensor<f16, (M, K)>,
    y: &mut Tensor<f16, (M, L)>,
) {
    tile!(for (i, j) in (M, L) {
        y[(i, j)] = a[(i, j + 0)] + b[(i, j - N)];
    });
}

/// Heads side by side, each scaled by its own number: `y[i, h, d] = x[i, 32 h + d] · scale[h]`.
#[kernel]
pub fn heads_scaled<M: Dim, H: Dim, E: Dim>(
    x: &Tensor<f16, (M, E)>,
    scale: &Tensor<f32, (H,)>,
    y: &mut Tensor<f16, (M, H, Const<32>)>,
) {
    tile!(for (h, i, d) in (each(H), M, Const::<32>) {
        y[(i, h, d)] = (x[(i, h * 32 + d)].to::<f32>() * scale[h]).to();
    });
}

/// `y = silu(x · gate) ∘ (x · up)`, gate and up side by side in one tensor.
#[kernel]
pub fn swiglu_of_one<M: Dim, N: Dim, K: Dim, L: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (K, L)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut gate = zeros::<f32>((i, j));
        let mut up = zeros::<f32>((i, j));
        tile!(for k in K {
            let rows = x[(i, k)];
            gate += dot(rows, w[(k, j + 0)]);
            up += dot(rows, w[(k, j + N)]);
        });
        y[(i, j)] = (gate.map(silu) * up).to();
    });
}

/// 0 outside.
fn element(x: &Array, row: usize, column: usize) -> f64 {
    if column < x.sizes[1] { x.at(&[row, column]) } else { 0.0 }
}

fn sigmoid_times(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// Rows, columns, and how many fewer than twice these a row of halves has.
const HALVES: Sizes = Sizes {
    fixed: &[&[0, 5, 0], &[5, 0, 0], &[1, 1, 0], &[33, 129, 0], &[65, 264, 0], &[64, 72, 3], &[9, 80, 100]],
    random: &[0..=70, 0..=300, 0..=1],
};

/// Rows, columns of each.
const TWO: Sizes = Sizes {
    fixed: &[&[0, 4, 4], &[5, 0, 7], &[5, 7, 0], &[1, 1, 1], &[45, 33, 70], &[70, 64, 128], &[3, 257, 8]],
    random: &[0..=70, 0..=300, 0..=300],
};

/// Rows, heads.
const HEADS: Sizes = Sizes { fixed: &[&[0, 2], &[3, 0], &[1, 1], &[65, 3], &[130, 2]], random: &[0..=150, 0..=4] };

/// Rows, columns, terms.
const PRODUCTS: Sizes = Sizes {
    fixed: &[&[0, 8, 8], &[8, 8, 0], &[1, 1, 1], &[64, 64, 64], &[130, 136, 72], &[200, 257, 97]],
    random: &[0..=200, 0..=300, 0..=200],
};

pub fn subjects() -> Vec<Subject> {
    let rotated = Subject::new("rotated", HEADS, |setting, visit| {
        let [s, h] = setting.sizes()?;
        let (x, xs) = setting.input::<f16, _>((s, h, Const::<96>))?;
        let (cos, coss) = setting.input::<f32, _>((s, Const::<48>))?;
        let (sin, sins) = setting.input::<f32, _>((s, Const::<48>))?;
        let mut y = setting.output::<f16, _>((s, h, Const::<96>))?;
        visit(rotated(&*x.view()?, &*cos.view()?, &*sin.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            let of = |at: usize| {
                let (s, h, d) = (at / (96 * h), at / 96 % h, at % 96);
                let (angle, sign) = (d % 48, if d < 48 { -1.0 } else { 1.0 });
                let times = |d: usize, factor: f64| Expected::from(xs.at(&[s, h, d])).times(factor);
                times(d, coss.at(&[s, angle])).plus(times((d + 48) % 96, sign * sins.at(&[s, angle])))
            };
            (0..s * h * 96).map(of).collect()
        })
    });
    let gated_halves = Subject::new("gated_halves", HALVES, |setting, visit| {
        let [m, n, missing] = setting.sizes()?;
        let (x, xs) = setting.input::<f16, _>((m, (2 * n).saturating_sub(missing)))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(gated_halves(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            let of = |at: usize| {
                let gate = Expected::from(element(&xs, at / n, at % n)).then(sigmoid_times);
                gate.times(element(&xs, at / n, at % n + n))
            };
            (0..m * n).map(of).collect()
        })
    });
    let concatenated = Subject::new("concatenated", TWO, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, first) = setting.input::<f16, _>((m, n))?;
        let (b, second) = setting.input::<f16, _>((m, k))?;
        let mut y = setting.output::<f16, _>((m, n + k))?;
        visit(concatenated(&*a.view()?, &*b.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            let of = |at: usize| match (at / (n + k), at % (n + k)) {
                (row, column) if column < n => Expected::from(first.at(&[row, column])),
                (row, column) => Expected::from(second.at(&[row, column - n])),
            };
            (0..m * (n + k)).map(of).collect()
        })
    });
    let heads_scaled = Subject::new("heads_scaled", HEADS, |setting, visit| {
        let [m, h] = setting.sizes()?;
        let (x, xs) = setting.input::<f16, _>((m, 32 * h))?;
        let (scale, scales) = setting.input::<f32, _>((h,))?;
        let mut y = setting.output::<f16, _>((m, h, Const::<32>))?;
        visit(heads_scaled(&*x.view()?, &*scale.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            let of = |(at, x): (usize, &f64)| Expected::from(*x).times(scales.values[at / 32 % h]);
            xs.values.iter().enumerate().map(of).collect()
        })
    });
    let swiglu_of_one = Subject::new("swiglu_of_one", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, xs) = setting.input::<f16, _>((m, k))?;
        let (w, ws) = setting.input::<f16, _>((k, 2 * n))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(swiglu_of_one(&*x.view()?, &*w.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            let product = |i: usize, column: usize| sum((0..k).map(|p| xs.at(&[i, p]) * ws.at(&[p, column])), 0.0);
            let of = |at: usize| product(at / n, at % n).then(sigmoid_times).times(product(at / n, at % n + n));
            (0..m * n).map(of).collect()
        })
    });
    vec![rotated, gated_halves, concatenated, heads_scaled, swiglu_of_one]
}
