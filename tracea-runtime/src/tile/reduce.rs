//! Sums, maxima and minima over one axis.

use super::raw::Raw;
use super::wide::wide;
use crate::element::{Number, Ring, Value, fold};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Max,
    Min,
}

impl Reduction {
    fn identity<A: Ring>(self) -> A {
        match self {
            Reduction::Sum => A::ZERO,
            Reduction::Max => A::LOWEST,
            Reduction::Min => A::HIGHEST,
        }
    }

    #[inline(always)]
    fn row<A: Ring>(self, row: &[A]) -> A {
        match self {
            Reduction::Sum => A::sum(row),
            Reduction::Max => fold(row, A::LOWEST, A::larger),
            Reduction::Min => fold(row, A::HIGHEST, A::smaller),
        }
    }

    #[inline(always)]
    fn pair<A: Ring>(self, a: A, b: A) -> A {
        match self {
            Reduction::Sum => a.plus(b),
            Reduction::Max => a.larger(b),
            Reduction::Min => a.smaller(b),
        }
    }
}

const CHUNK: usize = 256;

pub(crate) fn reduce<T: Number>(x: Raw<T>, axis: usize, reduction: Reduction) -> Raw<T> {
    let x = x.settled();
    let form = x.form.without(axis);
    let strides = x.strides_in(&x.form);
    let (count, step) = (x.form.sizes[axis], strides[axis]);
    let outer: Vec<(usize, usize)> =
        (0..x.form.rank).filter(|&kept| kept != axis).map(|kept| (x.form.sizes[kept], strides[kept])).collect();
    let [(n0, s0), (n1, s1)] = match outer[..] {
        [] => [(1, 0), (1, 0)],
        [inner] => [(1, 0), inner],
        [first, second, ..] => [first, second],
    };
    let address = x.address();
    let mut totals = vec![reduction.identity::<T::Acc>(); n0 * n1];
    wide::<T, _>(|| {
        let mut buffer = [T::Acc::ZERO; CHUNK];
        let mut lane: Vec<T::Acc> = Vec::new();
        for p0 in 0..n0 {
            if step != 1 && s1 == 1 && !T::MODELLED {
                // Rows of totals, so that memory is read in its order.
                for p in 0..count {
                    // SAFETY: positions below the sizes lie inside the elements that the form describes.
                    let row = unsafe { std::slice::from_raw_parts(address.add(p0 * s0 + p * step), n1) };
                    for (row, totals) in row.chunks(CHUNK).zip(totals[p0 * n1..][..n1].chunks_mut(CHUNK)) {
                        T::widen_row(row, &mut buffer[..row.len()]);
                        totals.iter_mut().zip(&buffer).for_each(|(total, &x)| *total = reduction.pair(*total, x));
                    }
                }
                continue;
            }
            for p1 in 0..n1 {
                let total = &mut totals[p0 * n1 + p1];
                lane.clear();
                for from in (0..count).step_by(CHUNK) {
                    let len = CHUNK.min(count - from);
                    // SAFETY: as above.
                    let at = unsafe { address.add(p0 * s0 + p1 * s1 + from * step) };
                    for (p, to) in buffer[..len].iter_mut().enumerate() {
                        // SAFETY: as above.
                        *to = unsafe { *at.add(p * step) }.widen();
                    }
                    if T::MODELLED {
                        lane.extend_from_slice(&buffer[..len]);
                    } else {
                        *total = reduction.pair(*total, reduction.row(&buffer[..len]));
                    }
                }
                if T::MODELLED {
                    *total = reduction.row(&lane);
                }
            }
        }
    });
    let mut values = vec![T::ZERO; totals.len()];
    T::narrow_row(&totals, &mut values);
    Raw::owned(form, values)
}
