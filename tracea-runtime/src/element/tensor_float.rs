//! `tf32`: an `f32` that keeps 10 bits of its fraction, as tensor cores read it.

use super::memory::Stored;
use super::value::{Arithmetic, Number, Value};
use crate::real::Limits;
use crate::tile::{Accumulator, Matrix, product};

/// An `f32` rounded to 10 fraction bits, halves away from zero (PTX ISA, `cvt.rna.tf32.f32`). Tensor cores that read operands from
/// shared memory by themselves cut the other bits off instead; [`Tf32`](crate::oracle::Tf32) bounds both.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct tf32(f32);

impl tf32 {
    #[inline(always)]
    pub fn from_f32(x: f32) -> Self {
        let rounded = f32::from_bits(x.to_bits().wrapping_add(0x1000) & !0x1fff);
        tf32(if x.is_finite() { rounded } else { x })
    }

    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        self.0
    }

    fn as_single(matrix: Matrix<'_, tf32>) -> Matrix<'_, f32> {
        // SAFETY: a `tf32` is transparent over an `f32`.
        unsafe { matrix.cast::<f32>() }
    }
}

impl Value for tf32 {
    type Acc = f32;
    const ZERO: Self = tf32(0.0);
    #[inline(always)]
    fn widen(self) -> f32 {
        self.0
    }
    #[inline(always)]
    fn narrow(wide: f32) -> Self {
        tf32::from_f32(wide)
    }
    fn to_f64(self) -> (f64, f64) {
        (f64::from(self.0), 0.0)
    }
    fn from_f64(value: f64, _: f64) -> Self {
        tf32::from_f32(value as f32)
    }
}

impl Number for tf32 {}

impl Arithmetic for tf32 {
    fn accumulate(a: Matrix<'_, Self>, b: Matrix<'_, Self>, into: &mut Accumulator<f32>) {
        product::single(tf32::as_single(a), tf32::as_single(b), into);
    }
}

/// In memory it is an `f32`.
impl Stored for tf32 {
    type Storage = f32;
    #[inline(always)]
    fn load(stored: f32) -> Self {
        tf32::from_f32(stored)
    }
    #[inline(always)]
    fn store(self) -> f32 {
        self.0
    }
}

impl Limits for tf32 {
    const INFINITY: Self = tf32(f32::INFINITY);
    const NEG_INFINITY: Self = tf32(f32::NEG_INFINITY);
    const NAN: Self = tf32(f32::NAN);
    const MAX: Self = tf32(f32::from_bits(0x7f7f_e000));
    const MIN: Self = tf32(f32::from_bits(0xff7f_e000));
    const EPSILON: Self = tf32(f32::from_bits(0x3a80_0000));
    const MIN_POSITIVE: Self = tf32(f32::MIN_POSITIVE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_halves_away() {
        let step = 2f32.powi(-10);
        assert_eq!(tf32::EPSILON.0, step);
        assert_eq!(tf32::from_f32(1.0 + step / 2.0).0, 1.0 + step);
        assert_eq!(tf32::from_f32(-1.0 - step / 2.0).0, -1.0 - step);
        assert_eq!(tf32::from_f32(1.0 + step / 2.1).0, 1.0);
        assert!(tf32::from_f32(f32::NAN).0.is_nan());
        assert_eq!(tf32::from_f32(f32::INFINITY).0, f32::INFINITY);
    }
}
