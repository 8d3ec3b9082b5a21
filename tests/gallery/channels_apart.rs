//! Windows whose channels have nothing to do with each other: no product of matrices, but a scalar loop over the window.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use tracea::kernels::conv::output_size;
use tracea::prelude::*;

/// A filter for each channel.
#[kernel]
pub fn depthwise<N: Dim, H: Dim, W: Dim, C: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, H, W, C)>,
    w: &Tensor<f16, (R, S, C)>,
    y: &mut Tensor<f16, (N, P, Q, C)>,
    stride: i32,
    pad: i32,
) {
    tile!(for (npq, c) in (flat(N, P, Q), C) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, c));
        tile!(for (r, s) in (each(R), each(S)) {
            acc += x[(n, p * stride + r - pad, q * stride + s - pad, c)].to::<f32>() * w[(r, s, c)].to::<f32>();
        });
        y[(n, p, q, c)] = acc.to();
    });
}

/// Of each window, the weighted mean of two tensors' differences, as far as they lie inside.
#[kernel]
pub fn means_of_windows<N: Dim, L: Dim, C: Dim, R: Dim, P: Dim>(
    x: &Tensor<bf16, (N, L, C)>,
    z: &Tensor<bf16, (N, L, C)>,
    weight: &Tensor<f32, (R,)>,
    y: &mut Tensor<f32, (N, P, C)>,
) {
    tile!(for (np, c) in (flat(N, P), C) {
        let (n, p) = np.coords();
        let mut sum = zeros::<f32>((np, c));
        tile!(for r in each(R) {
            sum += (x[(n, p * 2 + r, c)].to::<f32>() - z[(n, p * 2 + r, c)].to::<f32>()) * weight[r];
        });
        y[(n, p, c)] = sum / (R as f32);
    });
}

fn reference(x: &Array, w: &Array, output: (usize, usize), (stride, pad): (usize, usize)) -> Vec<Expected> {
    let ([images, height, width, channels], [rows, columns, _]) = (x.shape(), w.shape());
    let mut y = Vec::new();
    for n in 0..images {
        for p in 0..output.0 {
            for q in 0..output.1 {
                for c in 0..channels {
                    let mut terms = Vec::new();
                    for r in 0..rows {
                        for s in 0..columns {
                            let row = (p * stride + r).checked_sub(pad).filter(|row| *row < height);
                            let column = (q * stride + s).checked_sub(pad).filter(|column| *column < width);
                            let (Some(row), Some(column)) = (row, column) else { continue };
                            terms.push(x.at(&[n, row, column, c]) * w.at(&[r, s, c]));
                        }
                    }
                    y.push(sum(terms.into_iter(), 0.0));
                }
            }
        }
    }
    y
}

fn reference_of_means([x, z]: [&Array; 2], weight: &Array, windows: usize) -> Vec<Expected> {
    let ([outer, length, channels], [window]) = (x.shape(), weight.shape());
    let mut y = Vec::new();
    for n in 0..outer {
        for p in 0..windows {
            for c in 0..channels {
                let inside = (0..window).filter(|r| p * 2 + r < length);
                let terms = inside.flat_map(|r| {
                    let (at, weight) = ([n, p * 2 + r, c], weight.at(&[r]));
                    [x.at(&at) * weight, -z.at(&at) * weight]
                });
                y.push(sum(terms, 0.0).times(1.0 / window as f64));
            }
        }
    }
    y
}

/// Images, height, width, channels, window, stride, padding.
const IMAGES: Sizes = Sizes {
    fixed: &[
        &[0, 4, 4, 3, 3, 1, 1],
        &[1, 4, 4, 0, 3, 1, 1],
        &[1, 1, 1, 1, 1, 1, 0],
        &[2, 7, 5, 67, 3, 1, 1],
        &[1, 13, 11, 40, 7, 2, 3],
        &[2, 16, 16, 256, 3, 1, 1],
        &[3, 9, 40, 64, 5, 3, 0],
    ],
    random: &[1..=3, 5..=20, 5..=20, 1..=80, 1..=5, 1..=3, 0..=3],
};

/// Sequences, length, channels, window.
const SEQUENCES: Sizes = Sizes {
    fixed: &[&[0, 4, 3, 2], &[1, 1, 1, 1], &[2, 131, 17, 3], &[1, 70, 256, 5], &[5, 33, 64, 4]],
    random: &[0..=4, 1..=90, 0..=90, 1..=5],
};

pub fn subjects() -> Vec<Subject> {
    let depthwise = Subject::new("depthwise", IMAGES, |setting, visit| {
        let [n, height, width, c, r, stride, pad] = setting.sizes()?;
        let output = (output_size(height, r, stride, pad, 1), output_size(width, r, stride, pad, 1));
        let (x, x_values) = setting.input::<f16, _>((n, height, width, c))?;
        let (w, w_values) = setting.input::<f16, _>((r, r, c))?;
        let mut y = setting.output::<f16, _>((n, output.0, output.1, c))?;
        visit(depthwise(&*x.view()?, &*w.view()?, &mut *y.view_mut()?, stride as i32, pad as i32))?;
        Outcome::new(y, move || reference(&x_values, &w_values, output, (stride, pad)))
    });
    let means = Subject::new("means_of_windows", SEQUENCES, |setting, visit| {
        let [n, length, c, r] = setting.sizes()?;
        let p = length.div_ceil(2);
        let (x, x_values) = setting.input::<bf16, _>((n, length, c))?;
        let (z, z_values) = setting.input::<bf16, _>((n, length, c))?;
        let mut y = setting.output::<f32, _>((n, p, c))?;
        let (weight, weights) = setting.input::<f32, _>((r,))?;
        visit(means_of_windows(&*x.view()?, &*z.view()?, &*weight.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference_of_means([&x_values, &z_values], &weights, p))
    });
    vec![depthwise, means]
}
