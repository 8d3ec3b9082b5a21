//! Matrix products on the CPU, by the `gemm` crate.

use std::cell::Cell;

use gemm::Parallelism;

use super::matrix::{Accumulator, Matrix};
use crate::element::Value;

thread_local! {
    static PARALLEL: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with products that use every core or only this one.
pub(crate) fn with_parallel<R>(parallel: bool, f: impl FnOnce() -> R) -> R {
    let before = PARALLEL.replace(parallel);
    let result = f();
    PARALLEL.set(before);
    result
}

/// Below this many multiplications, waking other cores costs more than they save.
const WORTH_SHARING: usize = 1 << 22;

/// `into += a · b` in `f32`.
pub fn single(a: Matrix<'_, f32>, b: Matrix<'_, f32>, into: &mut Accumulator<f32>) {
    let (m, n, k) = (into.rows, into.cols, a.cols.min(b.rows));
    assert!(a.rows >= m && b.cols >= n && into.values.len() == m * n, "a product's operands and accumulator disagree");
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let parallelism =
        if PARALLEL.get() && m * n * k >= WORTH_SHARING { Parallelism::Rayon(0) } else { Parallelism::None };
    // SAFETY: the matrices' elements are readable at their strides, and the accumulator holds m · n elements of its own.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            into.values.as_mut_ptr(),
            1,
            n as isize,
            !into.is_fresh,
            a.address(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.address(),
            b.col_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
    into.is_fresh = false;
}

/// `into += a · b` for operands of 16 bits: they are widened first, then multiplied in `f32`.
pub fn widened<T: Value<Acc = f32>>(a: Matrix<'_, T>, b: Matrix<'_, T>, into: &mut Accumulator<f32>) {
    let (wide_a, wide_b) = (Widened::new(a), Widened::new(b));
    single(wide_a.matrix(), wide_b.matrix(), into);
}

/// A matrix in `f32`, with its elements in the order of the original's memory.
struct Widened {
    values: Vec<f32>,
    rows: usize,
    cols: usize,
    by_columns: bool,
}

impl Widened {
    fn new<T: Value<Acc = f32>>(of: Matrix<'_, T>) -> Self {
        let by_columns = of.col_stride != 1 && of.row_stride == 1;
        let lines = if by_columns { of.transposed() } else { of };
        let mut values = vec![0.0; lines.rows * lines.cols];
        if lines.cols > 0 {
            for (row, to) in values.chunks_exact_mut(lines.cols).enumerate() {
                match lines.row(row) {
                    Some(from) => T::widen_row(from, to),
                    None => to.iter_mut().enumerate().for_each(|(col, to)| *to = lines.at(row, col).widen()),
                }
            }
        }
        Widened { values, rows: lines.rows, cols: lines.cols, by_columns }
    }

    fn matrix(&self) -> Matrix<'_, f32> {
        // SAFETY: `values` holds rows · cols elements row-major and is borrowed for as long as the matrix.
        let lines = unsafe { Matrix::new(self.values.as_ptr(), self.rows, self.cols, self.cols, 1) };
        if self.by_columns { lines.transposed() } else { lines }
    }
}
