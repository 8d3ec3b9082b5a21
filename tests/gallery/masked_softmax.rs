//! Softmax over the first elements of each row, as many as the row's length says; the others become 0.

use crate::case::{Outcome, Subject};
use crate::expected::{Array, Expected, F32};
use crate::sizes::MATRICES;
use tracea::prelude::*;

/// `y = softmax(x)` over the columns below `length` of each row
#[kernel]
pub fn masked_softmax<M: Dim, N: Dim>(
    x: &Tensor<f32, (M, N)>,
    length: &Tensor<i32, (M,)>,
    y: &mut Tensor<f32, (M, N)>,
) {
    tile!(for i in M {
        let n = length[i];
        let mut m = full::<f32>(i, f32::MIN);
        let mut l = zeros::<f32>(i);
        tile!(for j in N {
            let s = select(iota(j).lt(n), x[(i, j)], f32::NEG_INFINITY);
            let m_new = m.max(s.row_max());
            l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
            m = m_new;
        });
        tile!(for j in N {
            let s = select(iota(j).lt(n), x[(i, j)], f32::NEG_INFINITY);
            y[(i, j)] = (s - m).exp() / l;
        });
    });
}

fn reference(x: &Array, length: &Array) -> Vec<Expected> {
    let [m, n] = x.shape();
    let mut y = Vec::new();
    for i in 0..m {
        let length = length.at(&[i]) as usize;
        let largest = (0..length).map(|j| x.at(&[i, j])).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = (0..length).map(|j| (x.at(&[i, j]) - largest).exp()).sum();
        for j in 0..n {
            // 0 / 0 where nothing is counted.
            let distance = if j < length { x.at(&[i, j]) - largest } else { f64::NEG_INFINITY };
            let value = distance.exp() / total;
            let blur = F32 * (n as f64 + 16.0 + 4.0 * if j < length { distance.abs() } else { 0.0 });
            y.push(Expected { value, slack: blur * value });
        }
    }
    y
}

pub fn subjects() -> Vec<Subject> {
    vec![Subject::new("masked_softmax", MATRICES, |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<f32, _>((m, n))?;
        let (length, lengths) = setting.integers((m,), 0..n as i32 + 1)?;
        let mut y = setting.output::<f32, _>((m, n))?;
        visit(masked_softmax(&*x.view()?, &*length.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference(&x_values, &lengths))
    })]
}
