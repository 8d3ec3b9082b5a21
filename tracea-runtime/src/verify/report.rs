//! What a verification found.

use super::Comparison;
use super::saved::Saved;

/// A launch whose results are right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verified {
    /// Error of the element that comes closest to its bound.
    pub max_error: f64,
    /// The bound of that element.
    pub bound: f64,
    /// Elements that were compared.
    pub elements: usize,
    /// Elements among them of which the oracle knows nothing, since their error may have any size.
    pub unbounded: usize,
    /// Grid points that were run in f64, of how many.
    pub points: usize,
    pub points_of: usize,
}

impl Verified {
    pub(super) fn of(comparisons: &[Comparison], points: usize, points_of: usize) -> Verified {
        let worst = comparisons.iter().filter_map(|comparison| comparison.worst.as_ref());
        let worst = worst.reduce(|worst, next| if next.ratio() > worst.ratio() { next } else { worst });
        let total = |count: fn(&Comparison) -> u64| comparisons.iter().map(count).sum::<u64>() as usize;
        Verified {
            max_error: worst.map_or(0.0, |worst| worst.error()),
            bound: worst.map_or(0.0, |worst| worst.bound),
            elements: total(|comparison| comparison.compared),
            unbounded: total(|comparison| comparison.unbounded),
            points,
            points_of,
        }
    }
}

/// The worst element of a tensor that a kernel got wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    pub kernel: &'static str,
    pub tensor: &'static str,
    pub index: Vec<usize>,
    pub actual: f64,
    /// From the run in f64.
    pub expected: f64,
    /// How far `actual` may be from `expected`.
    pub bound: f64,
    /// Elements of the tensor beyond their bounds, of how many compared.
    pub failures: u64,
    pub compared: u64,
    /// Whether the kernel left the element as it was.
    pub unwritten: bool,
}

impl Mismatch {
    pub(super) fn find(
        kernel: &'static str,
        tensor: &'static str,
        comparison: &Comparison,
        actual: &Saved,
        poisoned: bool,
    ) -> Option<Mismatch> {
        let worst = comparison.worst.as_ref().filter(|_| comparison.failures > 0)?;
        Some(Mismatch {
            kernel,
            tensor,
            index: worst.index.clone(),
            actual: worst.actual,
            expected: worst.expected,
            bound: worst.bound,
            failures: comparison.failures,
            compared: comparison.compared,
            unwritten: poisoned && actual.is_poison(&worst.index),
        })
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { kernel, tensor, index, actual, expected, bound, failures, compared, unwritten } = self;
        write!(f, "`{kernel}` is wrong: `{tensor}`{index:?} ")?;
        if *unwritten {
            write!(f, "was never written, expected {expected:e}")?;
        } else {
            write!(f, "is {actual:e}, expected {expected:e} within {bound:.3e}")?;
        }
        write!(f, " -- the worst of {failures} wrong among {compared} compared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_names_the_worst_element() {
        let mut mismatch = Mismatch {
            kernel: "linear",
            tensor: "c",
            index: vec![3, 17],
            actual: 1.25,
            expected: 1.5,
            bound: 0.0125,
            failures: 12,
            compared: 4096,
            unwritten: false,
        };
        assert_eq!(
            mismatch.to_string(),
            "`linear` is wrong: `c`[3, 17] is 1.25e0, expected 1.5e0 within 1.250e-2 -- the worst of 12 wrong among 4096 compared"
        );
        mismatch.unwritten = true;
        assert!(mismatch.to_string().contains("`c`[3, 17] was never written, expected 1.5e0 -- "));
    }
}
