//! Comparing a result with the oracle, element by element, as the oracle's tiles are stored.

use std::sync::{Mutex, PoisonError};

use crate::dtype::Dtype;
use crate::element::{bf16, f16};
use crate::host::HostArray;

/// A result in host memory, and what comparing it has found so far.
#[derive(Debug)]
pub struct Comparator {
    actual: HostArray,
    found: Mutex<Comparison>,
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    pub compared: u64,
    /// Elements outside their bound, or a NaN where there should be none.
    pub failures: u64,
    /// Elements whose bound is infinite: nothing is known of them.
    pub unbounded: u64,
    /// Elements that are NaN in the result and in the oracle.
    pub nan_agreements: u64,
    /// The element with the largest error for its bound.
    pub worst: Option<Mismatch>,
}

/// One element of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    pub index: Vec<usize>,
    pub actual: f64,
    pub expected: f64,
    /// How far from `expected` the result may lie.
    pub bound: f64,
}

impl Mismatch {
    pub fn error(&self) -> f64 {
        distance(self.actual, self.expected)
    }

    /// The error for its bound: above 1 is a failure.
    pub fn ratio(&self) -> f64 {
        ratio(self.actual, self.expected, self.bound)
    }
}

fn distance(actual: f64, expected: f64) -> f64 {
    if actual == expected || actual.is_nan() && expected.is_nan() {
        return 0.0;
    }
    let distance = (actual - expected).abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

fn ratio(actual: f64, expected: f64, bound: f64) -> f64 {
    match distance(actual, expected) {
        0.0 => 0.0,
        error if bound.is_infinite() && !error.is_nan() && !actual.is_nan() => 0.0,
        error if error.is_infinite() => f64::INFINITY,
        error => error / bound,
    }
}

impl Comparison {
    /// Counts one element; true where it is the worst so far.
    fn count(&mut self, actual: f64, expected: f64, bound: f64) -> bool {
        self.compared += 1;
        if actual.is_nan() && expected.is_nan() {
            self.nan_agreements += 1;
        }
        if bound.is_infinite() {
            self.unbounded += 1;
        }
        let ratio = ratio(actual, expected, bound);
        if ratio > 1.0 {
            self.failures += 1;
        }
        let is_worst = self.worst.as_ref().is_none_or(|worst| ratio > worst.ratio());
        if is_worst {
            self.worst = Some(Mismatch { index: Vec::new(), actual, expected, bound });
        }
        is_worst
    }

    fn merge(&mut self, other: Comparison) {
        self.compared += other.compared;
        self.failures += other.failures;
        self.unbounded += other.unbounded;
        self.nan_agreements += other.nan_agreements;
        let Some(theirs) = other.worst else { return };
        // Equal ratios go to the first index, so that the report does not depend on the order of threads.
        let is_worse = self.worst.as_ref().is_none_or(|ours| {
            theirs.ratio() > ours.ratio() || theirs.ratio() == ours.ratio() && theirs.index < ours.index
        });
        if is_worse {
            self.worst = Some(theirs);
        }
    }
}

impl Comparator {
    /// # Safety
    /// While the comparator lives, the elements of `actual` are readable at their strides, and nobody writes them.
    pub unsafe fn new(actual: HostArray) -> Self {
        Comparator { actual, found: Mutex::default() }
    }

    pub(crate) fn actual(&self) -> &HostArray {
        &self.actual
    }

    /// Everything found.
    pub fn finish(self) -> Comparison {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tally(&self) -> Tally<'_> {
        Tally { comparator: self, found: Comparison::default() }
    }

    fn read(&self, offset: usize) -> f64 {
        let address = self.actual.address;
        // SAFETY: offsets come from positions inside the array at its own strides, which `new` promised to be readable.
        unsafe {
            match self.actual.dtype {
                Dtype::F16 => address.cast::<f16>().add(offset).read().to_f64(),
                Dtype::Bf16 => address.cast::<bf16>().add(offset).read().to_f64(),
                Dtype::F32 => f64::from(address.cast::<f32>().add(offset).read()),
                Dtype::I32 => f64::from(address.cast::<i32>().add(offset).read()),
            }
        }
    }
}

// SAFETY: the array is only read, and nobody writes it while the comparator lives.
unsafe impl Send for Comparator {}
// SAFETY: as above; the findings are behind a lock.
unsafe impl Sync for Comparator {}

/// The findings of one tile, added to the comparator's at its end.
pub(crate) struct Tally<'a> {
    comparator: &'a Comparator,
    found: Comparison,
}

impl Tally<'_> {
    /// Compares the element at an offset inside the array; `index` says which it is.
    pub(crate) fn compare(&mut self, offset: usize, (expected, bound): (f64, f64), index: impl FnOnce() -> Vec<usize>) {
        if self.found.count(self.comparator.read(offset), expected, bound)
            && let Some(worst) = &mut self.found.worst
        {
            worst.index = index();
        }
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        let found = std::mem::take(&mut self.found);
        self.comparator.found.lock().unwrap_or_else(PoisonError::into_inner).merge(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios() {
        assert_eq!(ratio(1.0, 1.0, 0.0), 0.0);
        assert_eq!(ratio(1.5, 1.0, 1.0), 0.5);
        assert_eq!(ratio(1.5, 1.0, 0.0), f64::INFINITY);
        assert_eq!(ratio(f64::NAN, 1.0, 1.0), f64::INFINITY);
        assert_eq!(ratio(f64::NAN, 1.0, f64::INFINITY), f64::INFINITY);
        assert_eq!(ratio(1.0, f64::NAN, 1.0), f64::INFINITY);
        assert_eq!(ratio(f64::NAN, f64::NAN, 1.0), 0.0);
        assert_eq!(ratio(f64::INFINITY, f64::INFINITY, 0.0), 0.0);
        assert_eq!(ratio(f64::NEG_INFINITY, f64::INFINITY, 0.0), f64::INFINITY);
        assert_eq!(ratio(f64::INFINITY, 65519.0, f64::INFINITY), 0.0);
    }

    #[test]
    fn the_worst_is_named() {
        let mut values = [1.0f32, 2.0, 3.0];
        let array = HostArray::new(values.as_mut_ptr().cast(), Dtype::F32, &[3], &[1]);
        // SAFETY: `values` outlives the comparator and is not written.
        let comparator = unsafe { Comparator::new(array) };
        let mut tally = comparator.tally();
        tally.compare(0, (1.0, 0.1), || vec![0]);
        tally.compare(1, (2.3, 0.1), || vec![1]);
        tally.compare(2, (3.05, 0.1), || vec![2]);
        drop(tally);
        let found = comparator.finish();
        assert_eq!((found.compared, found.failures), (3, 1));
        let worst = found.worst.expect("three elements were compared");
        assert_eq!((worst.index, worst.actual, worst.expected), (vec![1], 2.0, 2.3));
    }
}
