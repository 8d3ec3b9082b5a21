//! A product in pairs of blocks that fetch for each other what their tiles share: along either side of the product, tiles that are cut
//! by rows and by panels, one and two blocks a multiprocessor.

use crate::case::{Outcome, Sizes, Subject};
use crate::expected::{Array, Expected, sum};
use tracea::prelude::*;

/// `c = aᵀ · bᵀ`
#[kernel]
#[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2, cluster = (2, 1), raster = 8)]
#[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2, cluster = (1, 2), raster = 8)]
#[schedule(sm_90a, i = 64, j = 128, k = 64, stages = 4, consumers = 1, cluster = 2, raster = 3, resident = 2)]
pub fn in_pairs<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (K, M)>,
    b: &Tensor<bf16, (N, K)>,
    c: &mut Tensor<bf16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(k, i)].t(), b[(j, k)].t());
        });
        c[(i, j)] = acc.to();
    });
}

fn reference(a: &Array, b: &Array) -> Vec<Expected> {
    let ([k, m], [n, _]) = (a.shape(), b.shape());
    let element = |i, j| sum((0..k).map(|p| a.at(&[p, i]) * b.at(&[j, p])), 0.0);
    (0..m).flat_map(|i| (0..n).map(move |j| element(i, j))).collect()
}

/// M, N, K: a pair's second tile outside.
const SIZES: Sizes =
    Sizes { fixed: &[&[0, 4, 4], &[4, 4, 0], &[1, 1, 1], &[129, 300, 70]], random: &[1..=400, 1..=600, 1..=200] };

/// Several steps, and more tiles than multiprocessors.
const WAVES: &[&[usize]] = &[&[520, 264, 712], &[1304, 4104, 8]];

pub fn subjects() -> Vec<Subject> {
    vec![
        Subject::new("in_pairs", SIZES, |setting, visit| {
            let [m, n, k] = setting.sizes()?;
            let (a, a_values) = setting.input::<bf16, _>((k, m))?;
            let (b, b_values) = setting.input::<bf16, _>((n, k))?;
            let mut c = setting.output::<bf16, _>((m, n))?;
            visit(in_pairs(&*a.view()?, &*b.view()?, &mut *c.view_mut()?))?;
            Outcome::new(c, move || reference(&a_values, &b_values))
        })
        .in_waves(WAVES),
    ]
}
