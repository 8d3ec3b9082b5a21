//! Matrix products in `f64`, with a bound of the error of the same product on tensor cores or in `f32`.
//!
//! The bound follows the partial sums of the product itself instead of Σ|a·b|, which for data of both signs is √n times
//! larger and would hide a missing element. For n terms summed into an `f32` accumulator whose partial sums have the mean
//! magnitude s̄:
//!
//! - roundings to nearest at random: λ·√n·u·s̄ (Higham and Mary 2019, see [`LAMBDA`]);
//! - tensor cores add 8 terms at once and truncate: 2u of the partial sum in each of n/8 steps, all in one direction
//!   (Fasi, Higham, Mikaitis and Pranesh 2021, *Numerical behavior of NVIDIA tensor cores*, <https://doi.org/10.7717/peerj-cs.330>);
//! - the terms themselves are aligned to the largest of a step and cut there: 2u·Σ|a·b|;
//! - the operands' own errors: |A|·E_B + E_A·|B| + E_A·E_B.
//!
//! Partial sums are seen every [`STEP`] terms; between two of them they grow by at most the Σ|a·b| of these terms.

use gemm::Parallelism;

use super::bounded::{Bounded, LAMBDA};
use super::precision::{F32, Precision};
use crate::tile::{Accumulator, Matrix};

const STEP: usize = 64;
/// Terms that a tensor core adds in one step.
const TERMS_AT_ONCE: f64 = 8.0;
/// Truncation loses up to one unit in the last place: two unit roundoffs.
const TRUNCATION: f64 = 2.0;

pub(super) fn accumulate<P: Precision>(
    a: Matrix<'_, Bounded<P>>,
    b: Matrix<'_, Bounded<P>>,
    into: &mut Accumulator<Bounded<F32>>,
) {
    let (m, n, k) = (into.rows, into.cols, a.cols.min(b.rows));
    assert!(a.rows >= m && b.cols >= n && into.values.len() == m * n, "a product's operands and accumulator disagree");
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let a_values = Plain::of(a, m, k, |x| x.value);
    let b_values = Plain::of(b, k, n, |x| x.value);
    let mut values: Vec<f64> = into.values.iter().map(|x| x.value).collect();
    let mut partials = vec![0.0; m * n];
    for from in (0..k).step_by(STEP) {
        let until = k.min(from + STEP);
        add_product(&a_values.columns(from, until), &b_values.rows(from, until), &mut values);
        for (partial, value) in partials.iter_mut().zip(&values) {
            *partial += value.abs();
        }
    }
    let steps = k.div_ceil(STEP) as f64;

    let a_magnitudes = Plain::of(a, m, k, |x| x.value.abs());
    let b_magnitudes = Plain::of(b, k, n, |x| x.value.abs());
    let mut magnitudes = vec![0.0; m * n];
    add_product(&a_magnitudes.whole(), &b_magnitudes.whole(), &mut magnitudes);

    let mut errors: Vec<f64> = into.values.iter().map(|x| x.error).collect();
    let a_errors = Plain::of(a, m, k, |x| x.error);
    let b_errors = Plain::of(b, k, n, |x| x.error);
    if !b_errors.is_zero() {
        add_product(&a_magnitudes.whole(), &b_errors.whole(), &mut errors);
    }
    if !a_errors.is_zero() {
        let b_reach = Plain::of(b, k, n, |x| x.value.abs() + x.error);
        add_product(&a_errors.whole(), &b_reach.whole(), &mut errors);
    }

    let terms = k as f64;
    let running = LAMBDA * terms.sqrt() + TRUNCATION * (terms / TERMS_AT_ONCE).ceil();
    for (at, x) in into.values.iter_mut().enumerate() {
        let partial = (partials[at] + magnitudes[at]) / steps;
        let own = F32::UNIT * (running * partial + TRUNCATION * magnitudes[at]) + terms * F32::TINY;
        *x = Bounded::with_error(values[at], errors[at] + own);
    }
    into.is_fresh = false;
}

/// One number for each element of a matrix, row-major.
struct Plain {
    values: Vec<f64>,
    rows: usize,
    cols: usize,
}

/// Some rows and columns of a [`Plain`].
struct Part<'a> {
    values: &'a [f64],
    rows: usize,
    cols: usize,
    row_stride: usize,
}

impl Plain {
    fn of<P: Precision>(
        matrix: Matrix<'_, Bounded<P>>,
        rows: usize,
        cols: usize,
        f: impl Fn(Bounded<P>) -> f64,
    ) -> Self {
        let mut values = Vec::with_capacity(rows * cols);
        for row in 0..rows {
            values.extend((0..cols).map(|col| f(matrix.at(row, col))));
        }
        Plain { values, rows, cols }
    }

    fn is_zero(&self) -> bool {
        self.values.iter().all(|&x| x == 0.0)
    }

    fn whole(&self) -> Part<'_> {
        Part { values: &self.values, rows: self.rows, cols: self.cols, row_stride: self.cols }
    }

    fn columns(&self, from: usize, until: usize) -> Part<'_> {
        Part { values: &self.values[from..], rows: self.rows, cols: until - from, row_stride: self.cols }
    }

    fn rows(&self, from: usize, until: usize) -> Part<'_> {
        Part { values: &self.values[from * self.cols..], rows: until - from, cols: self.cols, row_stride: self.cols }
    }
}

/// `into += a · b`.
fn add_product(a: &Part<'_>, b: &Part<'_>, into: &mut [f64]) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let reach = |part: &Part<'_>| (part.rows - 1) * part.row_stride + part.cols;
    assert!(k == b.rows && into.len() == m * n && reach(a) <= a.values.len() && reach(b) <= b.values.len());
    // SAFETY: the last element of each part lies inside its values, and `into` holds m · n elements.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            into.as_mut_ptr(),
            1,
            n as isize,
            true,
            a.values.as_ptr(),
            1,
            a.row_stride as isize,
            b.values.as_ptr(),
            1,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
