//! [`Real`] with error bounds: each function passes its operands' errors through its derivative and adds its own.
//!
//! How right the device's functions are, in units of the last place, is in the CUDA C++ Programming Guide's appendix on
//! mathematical functions; the units below are at least those, and at least those of the CPU's versions.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::bounded::Bounded;
use super::precision::F32;
use crate::element::Ring;
use crate::real::Real;

type B = Bounded<F32>;

/// Roundings that a transcendental function may be off: 4 units in the last place.
const FUNCTION: f64 = 8.0;
/// The same for the square root, its reciprocal and the reciprocal: 2 units in the last place.
const ROOT: f64 = 4.0;

impl Add for B {
    type Output = B;
    fn add(self, other: B) -> B {
        let value = self.value + other.value;
        // Adding nothing rounds nothing.
        if self.value == 0.0 || other.value == 0.0 {
            return B::with_error(value, self.error + other.error);
        }
        B::rounded(value, self.error + other.error)
    }
}

impl Sub for B {
    type Output = B;
    fn sub(self, other: B) -> B {
        self + -other
    }
}

/// `|x| · error`, where no error stays none beside an infinity.
fn scaled(x: f64, error: f64) -> f64 {
    if error == 0.0 { 0.0 } else { x.abs() * error }
}

impl Mul for B {
    type Output = B;
    fn mul(self, other: B) -> B {
        let error = scaled(self.value, other.error) + scaled(other.value, self.error) + scaled(self.error, other.error);
        B::rounded(self.value * other.value, error)
    }
}

impl Div for B {
    type Output = B;
    fn div(self, other: B) -> B {
        let value = self.value / other.value;
        // The divisor may come this close to 0.
        let least = other.value.abs() - other.error;
        let error = if self.error == 0.0 && other.error == 0.0 {
            0.0
        } else if least > 0.0 {
            (self.error + scaled(value, other.error)) / least
        } else {
            f64::INFINITY
        };
        // Division may be a product with a reciprocal.
        B::rounded_by(value, error, ROOT)
    }
}

impl Neg for B {
    type Output = B;
    fn neg(self) -> B {
        B::with_error(-self.value, self.error)
    }
}

macro_rules! assign {
    ($($trait:ident $method:ident $op:tt;)*) => {$(
        impl $trait for B {
            fn $method(&mut self, other: B) {
                *self = *self $op other;
            }
        }
    )*};
}
assign! {
    AddAssign add_assign +;
    SubAssign sub_assign -;
    MulAssign mul_assign *;
    DivAssign div_assign /;
}

impl B {
    /// A function that grows everywhere: its values at the ends of the interval bound the operand's error.
    fn growing(self, f: impl Fn(f64) -> f64, units: f64) -> B {
        let (low, value, high) = (f(self.value - self.error), f(self.value), f(self.value + self.error));
        // Infinite at both ends, it is known to be.
        let error = if low == high { 0.0 } else { (high - value).abs().max((value - low).abs()) };
        B::rounded_by(value, error, units)
    }

    /// A function whose slope is at most `slope` in magnitude near the operand.
    fn sloped(self, value: f64, slope: f64, units: f64) -> B {
        B::rounded_by(value, scaled(slope, self.error), units)
    }

    /// A function that is constant but for jumps.
    fn stepped(self, f: impl Fn(f64) -> f64) -> B {
        let value = f(self.value);
        let error = (f(self.value + self.error) - value).abs().max((value - f(self.value - self.error)).abs());
        if self.error == 0.0 { B::exact(value) } else { B::with_error(value, error) }
    }

    /// At the low end of the interval, but not below the function's domain.
    fn growing_from_zero(self, f: impl Fn(f64) -> f64, units: f64) -> B {
        if self.value < 0.0 && self.value + self.error < 0.0 {
            return B::exact(f64::NAN);
        }
        let low = self.value - self.error;
        if self.error > 0.0 && low < 0.0 {
            // The device may or may not see a negative number.
            return B::with_error(f(self.value.max(0.0)), f64::INFINITY);
        }
        self.growing(f, units)
    }
}

impl Real for B {
    /// Literals are `f32` on the device too.
    fn num(value: f64) -> B {
        B::exact(f64::from(value as f32))
    }
    fn exp(self) -> B {
        self.growing(f64::exp, FUNCTION).scaled_argument(self.value).flushed(self.value)
    }
    fn exp2(self) -> B {
        self.growing(f64::exp2, FUNCTION).flushed(self.value)
    }
    fn log(self) -> B {
        self.growing_from_zero(f64::ln, FUNCTION).near_one(self.value)
    }
    fn log2(self) -> B {
        self.growing_from_zero(f64::log2, FUNCTION).near_one(self.value)
    }
    fn sqrt(self) -> B {
        if self.error == 0.0 {
            return B::rounded_by(self.value.sqrt(), 0.0, ROOT);
        }
        if self.value - self.error < 0.0 && self.value >= 0.0 {
            // Below 0 the device would have a NaN; an exact zero that is known only to its error is the common case.
            return B::rounded_by(self.value.sqrt(), (self.value + self.error).sqrt(), ROOT);
        }
        self.growing(f64::sqrt, ROOT)
    }
    fn rsqrt(self) -> B {
        let value = self.value.sqrt().recip();
        let least = self.value - self.error;
        let error = match self.error {
            0.0 => 0.0,
            _ if least > 0.0 => least.sqrt().recip() - value,
            _ => f64::INFINITY,
        };
        B::rounded_by(value, error, ROOT)
    }
    fn recip(self) -> B {
        B::exact(1.0) / self
    }
    fn tanh(self) -> B {
        self.growing(f64::tanh, FUNCTION)
    }
    fn sin(self) -> B {
        let moved = self.sloped(self.value.sin(), 1.0, FUNCTION);
        // Near a multiple of π the error is absolute: 2^-21.4 in the guide's words.
        B::with_error(moved.value, moved.error + FUNCTION * F32_UNIT)
    }
    fn cos(self) -> B {
        let moved = self.sloped(self.value.cos(), 1.0, FUNCTION);
        B::with_error(moved.value, moved.error + FUNCTION * F32_UNIT)
    }
    fn erf(self) -> B {
        self.growing(libm::erf, FUNCTION)
    }
    fn abs(self) -> B {
        self.magnitude()
    }
    fn floor(self) -> B {
        self.stepped(f64::floor)
    }
    fn ceil(self) -> B {
        self.stepped(f64::ceil)
    }
    fn round(self) -> B {
        self.stepped(f64::round)
    }
    fn max(self, other: B) -> B {
        self.larger(other)
    }
    fn min(self, other: B) -> B {
        self.smaller(other)
    }
    fn powf(self, exponent: B) -> B {
        let value = self.value.powf(exponent.value);
        let by_base = if self.error == 0.0 { 0.0 } else { exponent.value * self.value.powf(exponent.value - 1.0) };
        let by_exponent = if exponent.error == 0.0 { 0.0 } else { value * self.value.abs().ln() };
        // Computed as 2^(y·log2 x), the exponent's rounding grows with it.
        let units = FUNCTION * (2.0 + (exponent.value * self.value.abs().max(f64::MIN_POSITIVE).log2()).abs());
        B::rounded_by(value, scaled(by_base, self.error) + scaled(by_exponent, exponent.error), units)
    }
}

const F32_UNIT: f64 = <F32 as super::precision::Precision>::UNIT;

impl B {
    /// `exp` by way of `exp2` rounds x·log2 e, and the error of that grows with |x|.
    fn scaled_argument(self, argument: f64) -> B {
        if !argument.is_finite() || self.value.is_infinite() {
            return self;
        }
        B::with_error(self.value, self.error + self.value * argument.abs() * 2.0 * F32_UNIT)
    }

    /// The device gives 0 for a power below the least normal number.
    fn flushed(self, argument: f64) -> B {
        let least = f64::from(f32::MIN_POSITIVE);
        match argument.is_finite() && self.value - self.error < least {
            true => B::with_error(self.value, self.error + least),
            false => self,
        }
    }

    /// A logarithm by way of another base is right near 1 only absolutely.
    fn near_one(self, argument: f64) -> B {
        if !argument.is_finite() || argument <= 0.0 {
            return self;
        }
        B::with_error(self.value, self.error + FUNCTION * F32_UNIT * (argument - 1.0).abs().min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn b(value: f64, error: f64) -> B {
        B::with_error(value, error)
    }

    #[test]
    fn single_precision_stays_inside() {
        for step in 1..4000 {
            let (x, y) = (step as f32 * 0.0137 - 20.0, step as f32 * 0.0071 + 0.3);
            let (bx, by) = (B::num(f64::from(x)), B::num(f64::from(y)));
            let cases = [
                (x + y, bx + by),
                (x - y, bx - by),
                (x * y, bx * by),
                (x / y, bx / by),
                (Real::exp(x), bx.exp()),
                (Real::exp2(x), bx.exp2()),
                (Real::log(y), by.log()),
                (Real::log2(y), Real::log2(by)),
                (Real::sqrt(y), by.sqrt()),
                (Real::rsqrt(y), by.rsqrt()),
                (Real::tanh(x), bx.tanh()),
                (Real::sin(x), bx.sin()),
                (Real::cos(x), bx.cos()),
                (Real::erf(x), bx.erf()),
                (Real::powf(y, 1.7), by.powf(B::num(f64::from(1.7f32)))),
                (Real::exp(x * y + x), (bx * by + bx).exp()),
            ];
            for (case, (got, want)) in cases.into_iter().enumerate() {
                let off = (f64::from(got) - want.value).abs();
                assert!(off <= want.error || f64::from(got) == want.value, "case {case} at {x}, {y}: {got} {want:?}");
            }
        }
    }

    #[test]
    fn infinities_stay_known() {
        let low = <B as crate::real::Limits>::NEG_INFINITY;
        let faded = (low - b(3.0, 0.1)).exp();
        assert_eq!((faded.value, faded.error), (0.0, faded.error));
        assert!(faded.error < 1e-40);
        assert!((low - low).value.is_nan());
        for x in [-95.0, -1e4] {
            let overflown = b(1.0, 0.0) + (-b(x, 0.1)).exp();
            assert_eq!((overflown.value, overflown.error), (f64::INFINITY, 0.0));
            assert!((b(x, 0.1) / overflown).error < 1e-40);
        }
        assert_eq!(low.larger(b(1.0, 0.5)).error, 0.5);
        assert_eq!(b(2.0, 0.0).larger(b(-50.0, 9.0)).error, 0.0);
    }

    #[test]
    fn jumps_count() {
        assert_eq!(b(1.99, 0.02).floor().error, 1.0);
        assert_eq!(b(1.5, 0.02).floor().error, 0.0);
        assert!((b(1.0, 0.1) / b(0.05, 0.1)).error.is_infinite());
    }

    #[test]
    fn overflow_in_half() {
        use crate::oracle::F16;
        assert_eq!(b(70000.0, 1.0).cast::<F16>().value, f64::INFINITY);
        assert!(b(65519.0, 10.0).cast::<F16>().error.is_infinite());
        assert_eq!(b(0.5, 0.0).cast::<F16>().error, 0.0);
        assert_eq!(b(1.0 + 1e-4, 0.0).cast::<F16>().error, (1.0 + 1e-4) / 2048.0);
    }
}
