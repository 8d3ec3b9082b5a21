//! Elements that lie where their coordinates say only together: rows that numbers in another tensor pick, of a table and of a product's
//! operand, and diagonals.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use crate::sizes::PRODUCTS;
use tracea::prelude::*;

/// `y[i] = table[ids[i]]`, and 0 where the table has no such row
#[kernel]
pub fn embedding<M: Dim, V: Dim, N: Dim>(
    ids: &Tensor<i32, (M,)>,
    table: &Tensor<f16, (V, N)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        y[(i, j)] = table[(ids[i], j)];
    });
}

/// Each expert multiplies the tokens that are routed to it, as many as there are:
/// `y[e, i] = x[token[e, i]] · w[e]ᵀ` for `i < count[e]`
#[kernel]
pub fn experts<T: Dim, E: Dim, C: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (T, K)>,
    w: &Tensor<f16, (E, N, K)>,
    token: &Tensor<i32, (E, C)>,
    count: &Tensor<i32, (E,)>,
    y: &mut Tensor<f16, (E, C, N)>,
) {
    tile!(for (e, i, j) in (each(E), C, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(x[(token[(e, i)], k)], w[(e, j, k)].t());
        });
        y[(e, i, j)] = acc.mask(|i, _| i < count[e], 0.0).to();
    });
}

/// `y = A · x` for the matrix of which all diagonals are alike: `A[i, k] = f[i − k + K − 1]`
#[kernel]
pub fn toeplitz<M: Dim, N: Dim, K: Dim, D: Dim>(
    f: &Tensor<f16, (D,)>,
    x: &Tensor<f16, (K, N)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(f[i - k + K - 1], x[(k, j)]);
        });
        y[(i, j)] = acc.to();
    });
}

/// Four channels become the four pixels of twice as high and wide an image
/// ([ESPCN](https://arxiv.org/abs/1609.05158)).
#[kernel]
pub fn pixel_shuffle<N: Dim, H: Dim, W: Dim, D: Dim, P: Dim, Q: Dim, C: Dim>(
    x: &Tensor<f16, (N, H, W, D)>,
    y: &mut Tensor<f16, (N, P, Q, C)>,
) {
    tile!(for (npq, c) in (flat(N, P, Q), C) {
        let (n, p, q) = npq.coords();
        y[(n, p, q, c)] = x[(n, p / 2, q / 2, (p % 2 * 2 + q % 2) * C + c)];
    });
}

fn embedding_reference(ids: &Array, table: &Array) -> Vec<Expected> {
    let [rows, columns] = table.shape();
    let element = |id: f64, j: usize| (0.0..rows as f64).contains(&id).then(|| table.at(&[id as usize, j]));
    let of_row = |id: &f64| (0..columns).map(|j| element(*id, j).unwrap_or(0.0).into()).collect::<Vec<_>>();
    ids.values.iter().flat_map(of_row).collect()
}

fn experts_reference(x: &Array, w: &Array, token: &Array, count: &Array) -> Vec<Expected> {
    let ([experts, n, k], [_, places]) = (w.shape(), token.shape());
    let mut y = Vec::new();
    for e in 0..experts {
        for i in 0..places {
            let row = token.at(&[e, i]) as usize;
            let product = |j| sum((0..k).map(|k| x.at(&[row, k]) * w.at(&[e, j, k])), 0.0);
            let is_there = (i as f64) < count.at(&[e]);
            y.extend((0..n).map(|j| if is_there { product(j) } else { 0.0.into() }));
        }
    }
    y
}

fn toeplitz_reference(f: &Array, x: &Array, m: usize) -> Vec<Expected> {
    let [k, n] = x.shape();
    let element = |i: usize, j: usize| sum((0..k).map(|at| f.at(&[i + k - 1 - at]) * x.at(&[at, j])), 0.0);
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

fn pixel_shuffle_reference(x: &Array, channels: usize) -> Vec<Expected> {
    let [images, height, width, _] = x.shape();
    let mut y = Vec::new();
    for n in 0..images {
        for p in 0..2 * height {
            for q in 0..2 * width {
                let first = (p % 2 * 2 + q % 2) * channels;
                y.extend((first..first + channels).map(|c| Expected::from(x.at(&[n, p / 2, q / 2, c]))));
            }
        }
    }
    y
}

/// Rows of the result and of the table, columns.
const TABLES: Sizes = Sizes {
    fixed: &[&[0, 5, 7], &[5, 0, 7], &[5, 7, 0], &[1, 1, 1], &[67, 31, 129], &[37, 5, 1031], &[64, 128, 256]],
    random: &[0..=90, 1..=60, 0..=300],
};

/// Tokens, experts, places for tokens of each, columns, terms of the sum.
const ROUTED: Sizes = Sizes {
    fixed: &[
        &[3, 0, 5, 7, 9],
        &[3, 2, 0, 7, 9],
        &[3, 2, 5, 7, 0],
        &[1, 1, 1, 1, 1],
        &[50, 3, 131, 65, 96],
        &[7, 2, 64, 128, 72],
    ],
    random: &[1..=60, 1..=3, 0..=140, 0..=140, 0..=100],
};

/// Images, height, width, channels of the result.
const IMAGES: Sizes = Sizes {
    fixed: &[&[0, 2, 3, 4], &[1, 1, 1, 1], &[2, 5, 7, 3], &[1, 4, 8, 64]],
    random: &[1..=2, 1..=9, 1..=9, 1..=40],
};

pub fn subjects() -> Vec<Subject> {
    let embedding = Subject::new("embedding", TABLES, |setting, visit| {
        let [m, rows, n] = setting.sizes()?;
        let (ids, ids_values) = setting.integers((m,), -2..rows as i32 + 2)?;
        let (table, table_values) = setting.input::<f16, _>((rows, n))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(embedding(&*ids.view()?, &*table.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || embedding_reference(&ids_values, &table_values))
    });
    let experts = Subject::new("experts", ROUTED, |setting, visit| {
        let [tokens, count, places, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<f16, _>((tokens, k))?;
        let (w, w_values) = setting.input::<f16, _>((count, n, k))?;
        let (token, routed) = setting.integers((count, places), 0..tokens as i32)?;
        let (used, counts) = setting.integers((count,), 0..places as i32 + 1)?;
        let mut y = setting.output::<f16, _>((count, places, n))?;
        visit(experts(&*x.view()?, &*w.view()?, &*token.view()?, &*used.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || experts_reference(&x_values, &w_values, &routed, &counts))
    });
    let toeplitz = Subject::new("toeplitz", PRODUCTS, |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (f, f_values) = setting.input::<f16, _>(((m + k).saturating_sub(1),))?;
        let (x, x_values) = setting.input::<f16, _>((k, n))?;
        let mut y = setting.output::<f16, _>((m, n))?;
        visit(toeplitz(&*f.view()?, &*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || toeplitz_reference(&f_values, &x_values, m))
    });
    let pixel_shuffle = Subject::new("pixel_shuffle", IMAGES, |setting, visit| {
        let [images, height, width, channels] = setting.sizes()?;
        let (x, values) = setting.input::<f16, _>((images, height, width, 4 * channels))?;
        let mut y = setting.output::<f16, _>((images, 2 * height, 2 * width, channels))?;
        visit(pixel_shuffle(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || pixel_shuffle_reference(&values, channels))
    });
    vec![embedding, experts, toeplitz, pixel_shuffle]
}
