//! Operands and results that are contiguous along no axis of their product: images with channels first, and products for each of the channels or
//! heads that come last.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use tracea::kernels::conv::output_size;
use tracea::prelude::*;

/// A convolution of images and filters with channels first, whose result has them last.
#[kernel]
pub fn channels_first<N: Dim, C: Dim, H: Dim, W: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, C, H, W)>,
    w: &Tensor<f16, (K, C, R, S)>,
    bias: &Tensor<f16, (K,)>,
    y: &mut Tensor<f16, (N, P, Q, K)>,
    stride: i32,
    pad: i32,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(R), each(S), C) {
            acc += dot(x[(n, c, p * stride + r - pad, q * stride + s - pad)], w[(ko, c, r, s)].t());
        });
        y[(n, p, q, ko)] = (acc + bias[ko].to::<f32>()).max(0.0).to();
    });
}

/// Each channel's own product, of edges that leave two nodes and end in a third.
#[kernel]
pub fn product_by_channels<N: Dim, M: Dim, C: Dim>(
    a: &Tensor<bf16, (N, M, C)>,
    b: &Tensor<bf16, (N, M, C)>,
    y: &mut Tensor<bf16, (N, N, C)>,
) {
    tile!(for (c, i, j) in (each(C), N, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in M {
            acc += dot(a[(i, k, c)], b[(j, k, c)].t());
        });
        y[(i, j, c)] = acc.to();
    });
}

/// Attention's scores before the softmax, as a bias of each head is laid out.
#[kernel]
pub fn scores_of_heads<S: Dim, T: Dim, H: Dim, D: Dim>(
    q: &Tensor<f16, (S, H, D)>,
    k: &Tensor<f16, (T, H, D)>,
    y: &mut Tensor<f32, (S, T, H)>,
    scale: f32,
) {
    tile!(for (h, i, j) in (each(H), S, T) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for d in D {
            acc += dot(q[(i, h, d)], k[(j, h, d)].t());
        });
        y[(i, j, h)] = acc * scale;
    });
}

struct Window {
    stride: usize,
    pad: usize,
}

fn reference([x, w, bias]: &[Array; 3], output: (usize, usize), window: &Window) -> Vec<Expected> {
    let ([images, channels, height, width], [filters, _, rows, columns]) = (x.shape(), w.shape());
    let mut y = Vec::new();
    for n in 0..images {
        for p in 0..output.0 {
            for q in 0..output.1 {
                for k in 0..filters {
                    let mut terms = vec![bias.at(&[k])];
                    for r in 0..rows {
                        for s in 0..columns {
                            let row = (p * window.stride + r).checked_sub(window.pad).filter(|row| *row < height);
                            let column = (q * window.stride + s).checked_sub(window.pad).filter(|at| *at < width);
                            let (Some(row), Some(column)) = (row, column) else { continue };
                            terms.extend((0..channels).map(|c| x.at(&[n, c, row, column]) * w.at(&[k, c, r, s])));
                        }
                    }
                    let Expected { value, slack } = sum(terms.into_iter(), 0.0);
                    y.push(Expected { value: value.max(0.0), slack });
                }
            }
        }
    }
    y
}

fn reference_by_channels(a: &Array, b: &Array) -> Vec<Expected> {
    let [nodes, between, channels] = a.shape();
    let mut y = Vec::new();
    for i in 0..nodes {
        for j in 0..nodes {
            for c in 0..channels {
                y.push(sum((0..between).map(|k| a.at(&[i, k, c]) * b.at(&[j, k, c])), 0.0));
            }
        }
    }
    y
}

fn reference_of_heads(q: &Array, k: &Array, scale: f64) -> Vec<Expected> {
    let ([queries, heads, terms], [keys, _, _]) = (q.shape(), k.shape());
    let mut y = Vec::new();
    for i in 0..queries {
        for j in 0..keys {
            for h in 0..heads {
                y.push(sum((0..terms).map(|d| q.at(&[i, h, d]) * k.at(&[j, h, d]) * scale), 0.0));
            }
        }
    }
    y
}

/// Images, channels, height, width, filters, window, stride, padding.
const IMAGES: Sizes = Sizes {
    fixed: &[
        &[0, 3, 4, 4, 5, 3, 1, 1],
        &[1, 1, 1, 1, 1, 1, 1, 0],
        &[1, 0, 4, 4, 3, 3, 1, 1],
        &[2, 67, 7, 5, 61, 3, 1, 1],
        &[1, 3, 13, 11, 64, 7, 2, 3],
        &[2, 64, 16, 16, 64, 3, 1, 1],
        &[1, 130, 9, 40, 20, 1, 1, 0],
    ],
    random: &[1..=2, 1..=40, 4..=12, 4..=12, 1..=40, 1..=4, 1..=2, 0..=2],
};

/// Nodes, nodes between, channels.
const EDGES: Sizes = Sizes {
    fixed: &[&[0, 3, 4], &[3, 0, 4], &[1, 1, 1], &[17, 19, 3], &[70, 67, 9], &[64, 128, 8], &[33, 65, 2]],
    random: &[1..=70, 1..=70, 1..=12],
};

/// Queries, keys, heads, terms.
const HEADS: Sizes = Sizes {
    fixed: &[&[0, 3, 4, 8], &[3, 5, 2, 0], &[1, 1, 1, 1], &[17, 19, 3, 40], &[70, 130, 6, 64], &[128, 64, 8, 32]],
    random: &[1..=140, 1..=140, 1..=9, 1..=70],
};

pub fn subjects() -> Vec<Subject> {
    let channels_first = Subject::new("channels_first", IMAGES, |setting, visit| {
        let [n, c, height, width, k, r, stride, pad] = setting.sizes()?;
        let output = (output_size(height, r, stride, pad, 1), output_size(width, r, stride, pad, 1));
        let (x, x_values) = setting.input::<f16, _>((n, c, height, width))?;
        let (w, w_values) = setting.input::<f16, _>((k, c, r, r))?;
        let (bias, bias_values) = setting.input::<f16, _>((k,))?;
        let mut y = setting.output::<f16, _>((n, output.0, output.1, k))?;
        visit(channels_first(
            &*x.view()?,
            &*w.view()?,
            &*bias.view()?,
            &mut *y.view_mut()?,
            stride as i32,
            pad as i32,
        ))?;
        Outcome::new(y, move || reference(&[x_values, w_values, bias_values], output, &Window { stride, pad }))
    });
    let product_by_channels = Subject::new("product_by_channels", EDGES, |setting, visit| {
        let [nodes, between, channels] = setting.sizes()?;
        let (a, a_values) = setting.input::<bf16, _>((nodes, between, channels))?;
        let (b, b_values) = setting.input::<bf16, _>((nodes, between, channels))?;
        let mut y = setting.output::<bf16, _>((nodes, nodes, channels))?;
        visit(product_by_channels(&*a.view()?, &*b.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference_by_channels(&a_values, &b_values))
    });
    let scores_of_heads = Subject::new("scores_of_heads", HEADS, |setting, visit| {
        let [queries, keys, heads, terms] = setting.sizes()?;
        let (q, q_values) = setting.input::<f16, _>((queries, heads, terms))?;
        let (k, k_values) = setting.input::<f16, _>((keys, heads, terms))?;
        let mut y = setting.output::<f32, _>((queries, keys, heads))?;
        visit(scores_of_heads(&*q.view()?, &*k.view()?, &mut *y.view_mut()?, 0.125))?;
        Outcome::new(y, move || reference_of_heads(&q_values, &k_values, 0.125))
    });
    vec![channels_first, product_by_channels, scores_of_heads]
}
