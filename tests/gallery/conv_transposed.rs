//! A convolution the other way round: every other pixel of the image that a filter sees is a zero between two of the input's, so that
//! whether there is anything to multiply depends on both coordinates of a pixel.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use tracea::prelude::*;

/// The gradient of a convolution by 3 by 3 filters with stride 2 and padding 1, or the layer that doubles an image's size.
#[kernel]
pub fn conv_transposed<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, H, W, C)>,
    w: &Tensor<f16, (K, Const<3>, Const<3>, C)>,
    y: &mut Tensor<f16, (N, P, Q, K)>,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(Const::<3>), each(Const::<3>), C) {
            let (row, column) = (p + 1 - r, q + 1 - s);
            let is_input = (iota(row) % 2).eq(0).and((iota(column) % 2).eq(0));
            let pixels = is_input.select(x[(n, row / 2, column / 2, c)], f16::ZERO);
            acc += dot(pixels, w[(ko, r, s, c)].t());
        });
        y[(n, p, q, ko)] = acc.to();
    });
}

fn reference(x: &Array, w: &Array) -> Vec<Expected> {
    let ([images, height, width, channels], [filters, ..]) = (x.shape(), w.shape::<4>());
    let input = |at: usize, tap: usize, size: usize| {
        let doubled = (at + 1).checked_sub(tap).filter(|doubled| doubled % 2 == 0)?;
        Some(doubled / 2).filter(|input| *input < size)
    };
    let mut y = Vec::new();
    for n in 0..images {
        for p in 0..2 * height {
            for q in 0..2 * width {
                for k in 0..filters {
                    let mut terms = Vec::new();
                    for (r, s) in (0..9).map(|tap| (tap / 3, tap % 3)) {
                        let (Some(row), Some(column)) = (input(p, r, height), input(q, s, width)) else { continue };
                        terms.extend((0..channels).map(|c| x.at(&[n, row, column, c]) * w.at(&[k, r, s, c])));
                    }
                    y.push(sum(terms.into_iter(), 0.0));
                }
            }
        }
    }
    y
}

/// Images, height, width, channels, filters.
const IMAGES: Sizes = Sizes {
    fixed: &[
        &[0, 4, 4, 3, 5],
        &[2, 0, 3, 4, 4],
        &[1, 2, 2, 0, 3],
        &[1, 1, 1, 1, 1],
        &[2, 5, 3, 40, 24],
        &[1, 8, 8, 64, 72],
    ],
    random: &[1..=2, 1..=7, 1..=7, 1..=50, 1..=80],
};

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("conv_transposed", IMAGES, |setting, visit| {
        let [images, height, width, channels, filters] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((images, height, width, channels))?;
        let (w, w_values) = setting.input::<f16, _>((filters, Const::<3>, Const::<3>, channels))?;
        let mut y = setting.output::<f16, _>((images, 2 * height, 2 * width, filters))?;
        visit(conv_transposed(&*x.view()?, &*w.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference(&x_values, &w_values))
    })]
}
