//! `i32` and `bool` as a tile's value.

use super::ring::Ring;
use super::value::{Number, Value};
use crate::axis::extent::{quotient, remainder};

impl Value for i32 {
    type Acc = i32;
    const ZERO: Self = 0;
    #[inline(always)]
    fn widen(self) -> i32 {
        self
    }
    #[inline(always)]
    fn narrow(wide: i32) -> i32 {
        wide
    }
    #[inline(always)]
    fn as_acc(row: &[i32]) -> Option<&[i32]> {
        Some(row)
    }
    #[inline(always)]
    fn as_acc_mut(row: &mut [i32]) -> Option<&mut [i32]> {
        Some(row)
    }
    fn to_f64(self) -> (f64, f64) {
        (f64::from(self), 0.0)
    }
    fn from_f64(value: f64, _: f64) -> i32 {
        value as i32
    }
}

impl Number for i32 {}

impl Ring for i32 {
    const HIGHEST: i32 = i32::MAX;
    const LOWEST: i32 = i32::MIN;
    #[inline(always)]
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn minus(self, other: i32) -> i32 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn times(self, other: i32) -> i32 {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn over(self, other: i32) -> i32 {
        quotient(self, other)
    }
    #[inline(always)]
    fn modulo(self, other: i32) -> i32 {
        remainder(self, other)
    }
    #[inline(always)]
    fn negative(self) -> i32 {
        self.wrapping_neg()
    }
    #[inline(always)]
    fn magnitude(self) -> i32 {
        self.wrapping_abs()
    }
    #[inline(always)]
    fn larger(self, other: i32) -> i32 {
        self.max(other)
    }
    #[inline(always)]
    fn smaller(self, other: i32) -> i32 {
        self.min(other)
    }
}

impl Value for bool {
    type Acc = bool;
    const ZERO: Self = false;
    #[inline(always)]
    fn widen(self) -> bool {
        self
    }
    #[inline(always)]
    fn narrow(wide: bool) -> bool {
        wide
    }
    #[inline(always)]
    fn as_acc(row: &[bool]) -> Option<&[bool]> {
        Some(row)
    }
    #[inline(always)]
    fn as_acc_mut(row: &mut [bool]) -> Option<&mut [bool]> {
        Some(row)
    }
    fn to_f64(self) -> (f64, f64) {
        (f64::from(u8::from(self)), 0.0)
    }
    fn from_f64(value: f64, _: f64) -> bool {
        value != 0.0
    }
}
