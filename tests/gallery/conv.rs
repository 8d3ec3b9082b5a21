//! Convolutions, channels last: one axis, a window with holes, three input channels with a stride, and f32 multiplied as tf32, with
//! filters first and last.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, TF32_PRODUCT, sum};
use tracea::kernels::conv::output_size;
use tracea::prelude::*;

/// Along one axis.
#[kernel]
pub fn conv1d<N: Dim, L: Dim, C: Dim, K: Dim, R: Dim, P: Dim>(
    x: &Tensor<f16, (N, L, C)>,
    w: &Tensor<f16, (K, R, C)>,
    y: &mut Tensor<f16, (N, P, K)>,
    stride: i32,
    pad: i32,
) {
    tile!(for (n, p, ko) in (each(N), P, K) {
        let mut acc = zeros::<f32>((p, ko));
        tile!(for (r, c) in (each(R), C) {
            acc += dot(x[(n, p * stride + r - pad, c)], w[(ko, r, c)].t());
        });
        y[(n, p, ko)] = acc.to();
    });
}

/// An odd window with holes, padded so that the image keeps its size.
#[kernel]
pub fn dilated<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim>(
    x: &Tensor<bf16, (N, H, W, C)>,
    w: &Tensor<bf16, (K, R, S, C)>,
    y: &mut Tensor<bf16, (N, H, W, K)>,
    dilation: i32,
) {
    tile!(for (npq, ko) in (flat(N, H, W), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(R), each(S), C) {
            let (row, column) = (p + (r - R / 2) * dilation, q + (s - S / 2) * dilation);
            acc += dot(x[(n, row, column, c)], w[(ko, r, s, c)].t());
        });
        y[(n, p, q, ko)] = acc.to();
    });
}

/// An image's first layer: 7 by 7 over three channels, every other pixel.
#[kernel]
pub fn stem<N: Dim, H: Dim, W: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, H, W, Const<3>)>,
    w: &Tensor<f16, (Const<64>, Const<7>, Const<7>, Const<3>)>,
    y: &mut Tensor<f16, (N, P, Q, Const<64>)>,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), Const::<64>) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(Const::<7>), each(Const::<7>), Const::<3>) {
            acc += dot(x[(n, p * 2 + r - 3, q * 2 + s - 3, c)], w[(ko, r, s, c)].t());
        });
        y[(n, p, q, ko)] = acc.to();
    });
}

/// Every other pixel, by tensor cores.
#[kernel]
pub fn strided_tf32<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f32, (N, H, W, C)>,
    w: &Tensor<f32, (K, R, S, C)>,
    y: &mut Tensor<f32, (N, P, Q, K)>,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(R), each(S), C) {
            let window = x[(n, p * 2 + r - 1, q * 2 + s - 1, c)];
            acc += dot(window.to::<tf32>(), w[(ko, r, s, c)].to::<tf32>().t());
        });
        y[(n, p, q, ko)] = acc;
    });
}

/// The same with filters last.
#[kernel]
pub fn filters_last_tf32<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f32, (N, H, W, C)>,
    w: &Tensor<f32, (R, S, C, K)>,
    y: &mut Tensor<f32, (N, P, Q, K)>,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(R), each(S), C) {
            let window = x[(n, p * 2 + r - 1, q * 2 + s - 1, c)];
            acc += dot(window.to::<tf32>(), w[(r, s, c, ko)].to::<tf32>());
        });
        y[(n, p, q, ko)] = acc;
    });
}

struct Window {
    stride: usize,
    dilation: usize,
    pad: (usize, usize),
}

/// Of images (N, H, W, C) with weights (K, R, S, C), giving `output` rows and columns. `rounding` is the relative error of each term.
fn reference(x: &Array, w: &Array, output: (usize, usize), window: &Window, rounding: f64) -> Vec<Expected> {
    let ([images, height, width, channels], [kernels, rows, columns, _]) = (x.shape(), w.shape());
    let mut y = Vec::new();
    for n in 0..images {
        for p in 0..output.0 {
            for q in 0..output.1 {
                for k in 0..kernels {
                    let mut terms = Vec::new();
                    for r in 0..rows {
                        for s in 0..columns {
                            let row = (p * window.stride + r * window.dilation).checked_sub(window.pad.0);
                            let column = (q * window.stride + s * window.dilation).checked_sub(window.pad.1);
                            let (Some(row), Some(column)) = (row, column) else { continue };
                            if row < height && column < width {
                                terms.extend((0..channels).map(|c| x.at(&[n, row, column, c]) * w.at(&[k, r, s, c])));
                            }
                        }
                    }
                    y.push(sum(terms.into_iter(), rounding));
                }
            }
        }
    }
    y
}

/// As images of one row.
fn one_row(array: Array) -> Array {
    let [outer, length, channels] = array.shape();
    Array { sizes: vec![outer, 1, length, channels], ..array }
}

/// As filters first.
fn filters_first(array: Array) -> Array {
    let [rows, columns, channels, filters] = array.shape();
    let mut values = Vec::new();
    for k in 0..filters {
        values.extend((0..rows * columns * channels).map(|at| array.values[at * filters + k]));
    }
    Array { sizes: vec![filters, rows, columns, channels], values }
}

/// Sequences, length, channels, output channels, window, stride, padding.
const SEQUENCES: Sizes = Sizes {
    fixed: &[
        &[0, 4, 3, 5, 3, 1, 1],
        &[1, 1, 1, 1, 1, 1, 0],
        &[1, 4, 0, 3, 3, 1, 1],
        &[1, 2, 3, 3, 5, 1, 1],
        &[2, 131, 17, 19, 3, 2, 1],
        &[1, 70, 67, 61, 5, 3, 0],
        &[2, 64, 32, 64, 3, 1, 1],
    ],
    random: &[0..=2, 1..=90, 1..=40, 1..=40, 1..=5, 1..=3, 0..=3],
};

/// Images, height, width, channels, output channels, rows and columns of the window, dilation.
const HOLES: Sizes = Sizes {
    fixed: &[
        &[0, 4, 4, 3, 5, 3, 3, 2],
        &[1, 1, 1, 1, 1, 3, 3, 2],
        &[1, 7, 5, 67, 61, 3, 3, 3],
        &[2, 8, 9, 16, 32, 3, 5, 2],
        &[1, 16, 16, 32, 64, 3, 3, 4],
    ],
    random: &[1..=2, 1..=12, 1..=12, 1..=30, 1..=30, 3..=3, 1..=1, 1..=4],
};

/// Images, height, width, channels, output channels, rows and columns of the window.
const STRIDED: Sizes = Sizes {
    fixed: &[
        &[0, 4, 4, 3, 5, 3, 3],
        &[1, 1, 1, 1, 1, 1, 1],
        &[1, 7, 5, 67, 61, 3, 3],
        &[1, 15, 16, 36, 68, 3, 3],
        &[2, 16, 16, 64, 64, 3, 3],
    ],
    random: &[1..=2, 3..=12, 3..=12, 1..=40, 1..=40, 1..=3, 1..=3],
};

/// Images, height, width.
const PICTURES: Sizes =
    Sizes { fixed: &[&[0, 8, 8], &[1, 1, 1], &[1, 13, 11], &[2, 16, 20]], random: &[1..=2, 1..=16, 1..=16] };

pub fn subjects() -> Vec<Subject> {
    let conv1d = Subject::new("conv1d", SEQUENCES, |setting, visit| {
        let [n, length, c, k, r, stride, pad] = setting.sizes()?;
        let p = output_size(length, r, stride, pad, 1);
        let (x, x_values) = setting.input::<f16, _>((n, length, c))?;
        let (w, w_values) = setting.input::<f16, _>((k, r, c))?;
        let mut y = setting.output::<f16, _>((n, p, k))?;
        visit(conv1d(&*x.view()?, &*w.view()?, &mut *y.view_mut()?, stride as i32, pad as i32))?;
        Outcome::new(y, move || {
            let window = Window { stride, dilation: 1, pad: (0, pad) };
            reference(&one_row(x_values), &one_row(w_values), (1, p), &window, 0.0)
        })
    });
    let dilated = Subject::new("dilated", HOLES, |setting, visit| {
        let [n, height, width, c, k, r, s, dilation] = setting.sizes()?;
        let (x, x_values) = setting.input::<bf16, _>((n, height, width, c))?;
        let (w, w_values) = setting.input::<bf16, _>((k, r, s, c))?;
        let mut y = setting.output::<bf16, _>((n, height, width, k))?;
        visit(dilated(&*x.view()?, &*w.view()?, &mut *y.view_mut()?, dilation as i32))?;
        Outcome::new(y, move || {
            let window = Window { stride: 1, dilation, pad: (r / 2 * dilation, s / 2 * dilation) };
            reference(&x_values, &w_values, (height, width), &window, 0.0)
        })
    });
    let stem = Subject::new("stem", PICTURES, |setting, visit| {
        let [n, height, width] = setting.sizes()?;
        let output = (output_size(height, 7, 2, 3, 1), output_size(width, 7, 2, 3, 1));
        let (x, x_values) = setting.input::<f16, _>((n, height, width, Const::<3>))?;
        let (w, w_values) = setting.input::<f16, _>((Const::<64>, Const::<7>, Const::<7>, Const::<3>))?;
        let mut y = setting.output::<f16, _>((n, output.0, output.1, Const::<64>))?;
        visit(stem(&*x.view()?, &*w.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            reference(&x_values, &w_values, output, &Window { stride: 2, dilation: 1, pad: (3, 3) }, 0.0)
        })
    });
    let strided_tf32 = Subject::new("strided_tf32", STRIDED, |setting, visit| {
        let [n, height, width, c, k, r, s] = setting.sizes()?;
        let output = (output_size(height, r, 2, 1, 1), output_size(width, s, 2, 1, 1));
        let (x, x_values) = setting.input::<f32, _>((n, height, width, c))?;
        let (w, w_values) = setting.input::<f32, _>((k, r, s, c))?;
        let mut y = setting.output::<f32, _>((n, output.0, output.1, k))?;
        visit(strided_tf32(&*x.view()?, &*w.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            let window = Window { stride: 2, dilation: 1, pad: (1, 1) };
            reference(&x_values, &w_values, output, &window, TF32_PRODUCT)
        })
    });
    let filters_last_tf32 = Subject::new("filters_last_tf32", STRIDED, |setting, visit| {
        let [n, height, width, c, k, r, s] = setting.sizes()?;
        let output = (output_size(height, r, 2, 1, 1), output_size(width, s, 2, 1, 1));
        let (x, x_values) = setting.input::<f32, _>((n, height, width, c))?;
        let (w, w_values) = setting.input::<f32, _>((r, s, c, k))?;
        let mut y = setting.output::<f32, _>((n, output.0, output.1, k))?;
        visit(filters_last_tf32(&*x.view()?, &*w.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || {
            let window = Window { stride: 2, dilation: 1, pad: (1, 1) };
            reference(&x_values, &filters_first(w_values), output, &window, TF32_PRODUCT)
        })
    });
    vec![conv1d, dilated, stem, strided_tf32, filters_last_tf32]
}
