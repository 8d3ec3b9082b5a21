//! Matrices as the products see them: strided operands and a row-major accumulator.

use std::marker::PhantomData;

use crate::element::Value;

/// A strided matrix in somebody else's memory.
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    address: *const T,
    pub rows: usize,
    pub cols: usize,
    /// In elements.
    pub row_stride: usize,
    pub col_stride: usize,
    memory: PhantomData<&'a T>,
}

impl<'a, T: Copy> Matrix<'a, T> {
    /// # Safety
    /// For `'a`, every element within `rows` and `cols` is readable at its strides from `address`, and nobody writes it.
    pub unsafe fn new(address: *const T, rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Self {
        Matrix { address, rows, cols, row_stride, col_stride, memory: PhantomData }
    }

    pub fn address(&self) -> *const T {
        self.address
    }

    pub fn at(&self, row: usize, col: usize) -> T {
        assert!(row < self.rows && col < self.cols, "a matrix position outside the matrix");
        // SAFETY: the position is inside, and `new` promised readable elements there.
        unsafe { *self.address.add(row * self.row_stride + col * self.col_stride) }
    }

    pub fn transposed(self) -> Self {
        Matrix { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// Columns `from..to`.
    pub fn columns(self, from: usize, to: usize) -> Self {
        assert!(from <= to && to <= self.cols, "columns outside the matrix");
        Matrix { address: self.address.wrapping_add(from * self.col_stride), cols: to - from, ..self }
    }

    /// Row `row`, where its elements lie side by side.
    pub fn row(&self, row: usize) -> Option<&'a [T]> {
        assert!(row < self.rows, "a row outside the matrix");
        // SAFETY: with unit stride the row is one readable piece, as `new` promised.
        (self.col_stride == 1)
            .then(|| unsafe { std::slice::from_raw_parts(self.address.add(row * self.row_stride), self.cols) })
    }

    /// The same elements read as another type.
    ///
    /// # Safety
    /// `U` has the size and layout of `T`, and every value of `T` is one of `U`.
    pub unsafe fn cast<U>(self) -> Matrix<'a, U> {
        Matrix {
            address: self.address.cast(),
            rows: self.rows,
            cols: self.cols,
            row_stride: self.row_stride,
            col_stride: self.col_stride,
            memory: PhantomData,
        }
    }
}

/// What a product is added to, row-major.
pub struct Accumulator<A> {
    pub values: Vec<A>,
    pub rows: usize,
    pub cols: usize,
    /// All zeros so far: the product may overwrite it.
    pub is_fresh: bool,
}

impl<A: Value> Accumulator<A> {
    pub(crate) fn fresh(rows: usize, cols: usize) -> Self {
        Accumulator { values: vec![A::ZERO; rows * cols], rows, cols, is_fresh: true }
    }
}
