//! Sums, maxima and minima over one axis.

use super::raw::Raw;
use super::wide::{Work, wide};
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
    let outer: Vec<(usize, usize)> =
        (0..x.form.rank).filter(|&kept| kept != axis).map(|kept| (x.form.sizes[kept], strides[kept])).collect();
    let kept = match outer[..] {
        [] => [(1, 0), (1, 0)],
        [inner] => [(1, 0), inner],
        [first, second, ..] => [first, second],
    };
    let mut totals = vec![reduction.identity::<T::Acc>(); form.len()];
    let source = Source { address: x.address(), count: x.form.sizes[axis], step: strides[axis] };
    wide::<T>(Reduce { source, kept, reduction, totals: &mut totals });
    let mut values = vec![T::ZERO; totals.len()];
    T::narrow_row(&totals, &mut values);
    Raw::owned(form, values)
}

/// The axis that a reduction runs over.
struct Source<T> {
    address: *const T,
    count: usize,
    step: usize,
}

/// The loops of a reduction.
struct Reduce<'a, T: Number> {
    source: Source<T>,
    /// The axes that stay: size and stride.
    kept: [(usize, usize); 2],
    reduction: Reduction,
    /// Row-major over the axes that stay.
    totals: &'a mut [T::Acc],
}

impl<T: Number> Work<T> for Reduce<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Reduce { source, kept: [(_, s0), (n1, s1)], reduction, totals } = self;
        let mut buffer = [T::Acc::ZERO; CHUNK];
        let mut lane = Vec::new();
        for (p0, totals) in totals.chunks_exact_mut(n1.max(1)).enumerate() {
            if source.step != 1 && s1 == 1 && !T::MODELLED {
                source.add_rows(p0 * s0, reduction, totals, &mut buffer);
                continue;
            }
            for (p1, total) in totals.iter_mut().enumerate() {
                let start = p0 * s0 + p1 * s1;
                if T::MODELLED {
                    lane.clear();
                    source.each_chunk(start, &mut buffer, |chunk| lane.extend_from_slice(chunk));
                    *total = reduction.row(&lane);
                } else {
                    source
                        .each_chunk(start, &mut buffer, |chunk| *total = reduction.pair(*total, reduction.row(chunk)));
                }
            }
        }
    }
}

impl<T: Number> Source<T> {
    /// Adds whole rows of totals, so that memory is read in its order.
    #[inline(always)]
    fn add_rows(&self, start: usize, reduction: Reduction, totals: &mut [T::Acc], buffer: &mut [T::Acc; CHUNK]) {
        for p in 0..self.count {
            // SAFETY: positions below the sizes lie inside the elements that the tile's form describes.
            let row = unsafe { std::slice::from_raw_parts(self.address.add(start + p * self.step), totals.len()) };
            for (row, totals) in row.chunks(CHUNK).zip(totals.chunks_mut(CHUNK)) {
                T::widen_row(row, &mut buffer[..row.len()]);
                totals.iter_mut().zip(&*buffer).for_each(|(total, &x)| *total = reduction.pair(*total, x));
            }
        }
    }

    /// The elements along the axis, chunk by chunk.
    #[inline(always)]
    fn each_chunk(&self, start: usize, buffer: &mut [T::Acc; CHUNK], mut f: impl FnMut(&[T::Acc])) {
        for from in (0..self.count).step_by(CHUNK) {
            let len = CHUNK.min(self.count - from);
            // SAFETY: as above.
            let at = unsafe { self.address.add(start + from * self.step) };
            // SAFETY: as above.
            let row = (self.step == 1).then(|| unsafe { std::slice::from_raw_parts(at, len) });
            // One call of `f`, so that it is inlined.
            let chunk = match (row, row.and_then(T::as_acc)) {
                (_, Some(row)) => row,
                (Some(row), None) => {
                    T::widen_row(row, &mut buffer[..len]);
                    &buffer[..len]
                }
                (None, None) => {
                    for (p, to) in buffer[..len].iter_mut().enumerate() {
                        // SAFETY: as above.
                        *to = unsafe { *at.add(p * self.step) }.widen();
                    }
                    &buffer[..len]
                }
            };
            f(chunk);
        }
    }
}
