//! `f32` as a tile's value.

use super::ring::Ring;
use super::value::{Arithmetic, Number, Value};
use crate::tile::{Accumulator, Matrix, product};

impl Value for f32 {
    type Acc = f32;
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(wide: f32) -> f32 {
        wide
    }
    #[inline(always)]
    fn as_acc(row: &[f32]) -> Option<&[f32]> {
        Some(row)
    }
    #[inline(always)]
    fn as_acc_mut(row: &mut [f32]) -> Option<&mut [f32]> {
        Some(row)
    }
    fn to_f64(self) -> (f64, f64) {
        (f64::from(self), 0.0)
    }
    fn from_f64(value: f64, _: f64) -> f32 {
        value as f32
    }
}

impl Number for f32 {}

impl Arithmetic for f32 {
    fn accumulate(a: Matrix<'_, f32>, b: Matrix<'_, f32>, into: &mut Accumulator<f32>) {
        product::single(a, b, into);
    }
}

impl Ring for f32 {
    const HIGHEST: f32 = f32::INFINITY;
    const LOWEST: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn plus(self, other: f32) -> f32 {
        self + other
    }
    #[inline(always)]
    fn minus(self, other: f32) -> f32 {
        self - other
    }
    #[inline(always)]
    fn times(self, other: f32) -> f32 {
        self * other
    }
    #[inline(always)]
    fn over(self, other: f32) -> f32 {
        self / other
    }
    #[inline(always)]
    fn modulo(self, other: f32) -> f32 {
        self % other
    }
    #[inline(always)]
    fn negative(self) -> f32 {
        -self
    }
    #[inline(always)]
    fn magnitude(self) -> f32 {
        self.abs()
    }
    #[inline(always)]
    fn larger(self, other: f32) -> f32 {
        self.max(other)
    }
    #[inline(always)]
    fn smaller(self, other: f32) -> f32 {
        self.min(other)
    }
}
