//! Scalars as closures and `#[device]` functions see them.
//!
//! Such a function is generic in its arithmetic: the same text runs in `f32`, and with an error bound in the oracle
//! ([`Bounded`](crate::oracle::Bounded)).
mod exponential;
mod single;

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// The named values of a floating-point type.
pub trait Limits: Sized {
    const INFINITY: Self;
    const NEG_INFINITY: Self;
    const NAN: Self;
    const MAX: Self;
    const MIN: Self;
    const EPSILON: Self;
    const MIN_POSITIVE: Self;
}

/// A real number in single precision, or a model of one.
///
/// The functions mean what they mean on the device: `max` and `min` prefer a number to a NaN, `round` takes halves away from zero.
pub trait Real:
    Limits
    + Copy
    + Debug
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + 'static
{
    fn num(value: f64) -> Self;
    fn exp(self) -> Self;
    fn exp2(self) -> Self;
    fn log(self) -> Self;
    fn log2(self) -> Self;
    fn sqrt(self) -> Self;
    fn rsqrt(self) -> Self;
    fn recip(self) -> Self;
    fn tanh(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn erf(self) -> Self;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round(self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn powf(self, exponent: Self) -> Self;
}

/// A literal in a closure or a `#[device]` function.
#[inline(always)]
pub fn num<R: Real>(value: f64) -> R {
    R::num(value)
}

/// An integer in the arithmetic of a closure or a `#[device]` function: `n as f32`.
#[inline(always)]
pub fn from_int<R: Real>(value: i32) -> R {
    R::num(f64::from(value))
}
