//! Products whose weights are stored scaled: a scale for each step of the sum, integers with a scale and a zero for each row, eight of four
//! bits in a number, and a scale for each group of 32 columns, or of 128 terms of both operands.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, F16, sum, total};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `c = a · diag(scale) · wᵀ`, the scaled weights rounded to f16
#[kernel]
pub fn scaled_steps<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    scale: &Tensor<f32, (K,)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            let wide = w[(j, k)].to::<f32>() * scale[k];
            acc += dot(a[(i, k)], wide.to::<f16>().t());
        });
        c[(i, j)] = acc;
    });
}

/// `c = a · ((w − zero) ∘ scale)ᵀ`: integer weights, with the zero and the scale of their row
#[kernel]
pub fn quantised_rows<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    w: &Tensor<i32, (N, K)>,
    zero: &Tensor<i32, (N,)>,
    scale: &Tensor<f32, (N,)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            let weights = (w[(j, k)] - zero[j]).to::<f16>();
            acc += dot(a[(i, k)], weights.t());
        });
        c[(i, j)] = (acc * scale[j]).to();
    });
}

/// `c = (a · wᵀ) ∘ scale` for weights of −8 to 7, of which `packed` holds eight in a number, the first in its lowest bits
#[kernel]
pub fn four_bits<M: Dim, N: Dim, K: Dim, W: Dim>(
    a: &Tensor<f16, (M, K)>,
    packed: &Tensor<i32, (N, W)>,
    scale: &Tensor<f32, (N,)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            let bits = (packed[(j, k / 8)] >> (iota(k) % 8 * 4)) & 15;
            acc += dot(a[(i, k)], (bits - 8).to::<f16>().t());
        });
        c[(i, j)] = (acc * scale[j]).to();
    });
}

/// `c = Σ over groups g of 32 columns: (a_g · w_gᵀ) ∘ scale_g`
#[kernel]
pub fn scaled_groups<M: Dim, N: Dim, K: Dim, G: Dim>(
    a: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    scale: &Tensor<f32, (N, G)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for g in each(G) {
            let mut group = zeros::<f32>((i, j));
            tile!(for k in K.range(g * 32..g * 32 + 32) {
                group += dot(a[(i, k)], w[(j, k)].t());
            });
            acc += group * scale[(j, g)];
        });
        c[(i, j)] = acc.to();
    });
}

/// The same by groups of 128, with scales of both operands
#[kernel]
pub fn scaled_blocks<M: Dim, N: Dim, K: Dim, G: Dim>(
    a: &Tensor<bf16, (M, K)>,
    a_scale: &Tensor<f32, (M, G)>,
    w: &Tensor<bf16, (K, N)>,
    w_scale: &Tensor<f32, (G, N)>,
    c: &mut Tensor<bf16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for g in each(G) {
            let mut group = zeros::<f32>((i, j));
            tile!(for k in K.range(g * 128..(g + 1) * 128) {
                group += dot(a[(i, k)], w[(k, j)]);
            });
            acc += group * a_scale[(i, g)] * w_scale[(g, j)];
        });
        c[(i, j)] = acc.to();
    });
}

fn scaled_steps_reference(a: &Array, w: &Array, scale: &Array) -> Vec<Expected> {
    let ([m, k], [n, _]) = (a.shape(), w.shape());
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let weight = |p| Expected::from(w.at(&[j, p])).times(scale.at(&[p])).rounded(F16);
            c.push(total((0..k).map(|p| weight(p).times(a.at(&[i, p])))));
        }
    }
    c
}

fn quantised_rows_reference(a: &Array, w: &Array, zero: &Array, scale: &Array) -> Vec<Expected> {
    let ([m, k], [n, _]) = (a.shape(), w.shape());
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let terms = (0..k).map(|p| a.at(&[i, p]) * (w.at(&[j, p]) - zero.at(&[j])));
            c.push(sum(terms, 0.0).times(scale.at(&[j])));
        }
    }
    c
}

fn four_bits_reference(a: &Array, packed: &Array, scale: &Array) -> Vec<Expected> {
    let ([m, k], [n, _]) = (a.shape(), packed.shape());
    let weight = |j: usize, p: usize| f64::from((packed.at(&[j, p / 8]) as i32 >> (4 * (p % 8))) & 15) - 8.0;
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            c.push(sum((0..k).map(|p| a.at(&[i, p]) * weight(j, p)), 0.0).times(scale.at(&[j])));
        }
    }
    c
}

fn scaled_groups_reference(a: &Array, w: &Array, scale: &Array) -> Vec<Expected> {
    let ([m, k], [n, groups]) = (a.shape(), scale.shape());
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let group = |g| sum((g * 32..k.min(g * 32 + 32)).map(|p| a.at(&[i, p]) * w.at(&[j, p])), 0.0);
            c.push(total((0..groups).map(|g| group(g).times(scale.at(&[j, g])))));
        }
    }
    c
}

fn scaled_blocks_reference([a, a_scale, w, w_scale]: &[Array; 4]) -> Vec<Expected> {
    let ([m, k], [groups, n]) = (a.shape(), w_scale.shape());
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let group = |g| sum((g * 128..k.min(g * 128 + 128)).map(|p| a.at(&[i, p]) * w.at(&[p, j])), 0.0);
            let scaled = |g| group(g).times(a_scale.at(&[i, g])).times(w_scale.at(&[g, j]));
            c.push(total((0..groups).map(scaled)));
        }
    }
    c
}

pub fn subjects() -> Vec<Subject> {
    let steps = Subject::new("scaled_steps", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((n, k))?;
        let (scale, scales) = setting.input::<f32, _>((k,))?;
        let mut c = setting.output::<f32, _>((m, n))?;
        visit(scaled_steps(&*a.view()?, &*w.view()?, &*scale.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || scaled_steps_reference(&a_values, &w_values, &scales))
    });
    let rows = Subject::new("quantised_rows", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.integers((n, k), 0..16)?;
        let (zero, zeros) = setting.integers((n,), 0..16)?;
        let (scale, scales) = setting.input::<f32, _>((n,))?;
        let mut c = setting.output::<f16, _>((m, n))?;
        visit(quantised_rows(&*a.view()?, &*w.view()?, &*zero.view()?, &*scale.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || quantised_rows_reference(&a_values, &w_values, &zeros, &scales))
    });
    let four_bits = Subject::new("four_bits", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (packed, packed_values) = setting.integers((n, k.div_ceil(8)), i32::MIN..i32::MAX)?;
        let (scale, scales) = setting.input::<f32, _>((n,))?;
        let mut c = setting.output::<f16, _>((m, n))?;
        visit(four_bits(&*a.view()?, &*packed.view()?, &*scale.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || four_bits_reference(&a_values, &packed_values, &scales))
    });
    let groups = Subject::new("scaled_groups", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<f16, _>((m, k))?;
        let (w, w_values) = setting.input::<f16, _>((n, k))?;
        let (scale, scales) = setting.input::<f32, _>((n, k.div_ceil(32)))?;
        let mut c = setting.output::<f16, _>((m, n))?;
        visit(scaled_groups(&*a.view()?, &*w.view()?, &*scale.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || scaled_groups_reference(&a_values, &w_values, &scales))
    });
    let blocks = Subject::new("scaled_blocks", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<bf16, _>((m, k))?;
        let (w, w_values) = setting.input::<bf16, _>((k, n))?;
        let (a_scale, a_scales) = setting.input::<f32, _>((m, k.div_ceil(128)))?;
        let (w_scale, w_scales) = setting.input::<f32, _>((k.div_ceil(128), n))?;
        let mut c = setting.output::<bf16, _>((m, n))?;
        let scales = (&*a_scale.view()?, &*w_scale.view()?);
        visit(scaled_blocks(&*a.view()?, scales.0, &*w.view()?, scales.1, &mut *c.view_mut()?))?;
        Outcome::new(c, move || scaled_blocks_reference(&[a_values, a_scales, w_values, w_scales]))
    });
    vec![steps, rows, four_bits, groups, blocks]
}
