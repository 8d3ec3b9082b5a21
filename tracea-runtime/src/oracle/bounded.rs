//! A number in `f64` with a bound of the error of the same number computed in the precision `P`.

use std::cmp::Ordering;
use std::marker::PhantomData;

use super::precision::{F32, Precision};
use crate::element::{Arithmetic, Number, Ring, Stored, Value};
use crate::real::Limits;
use crate::tile::{Accumulator, Matrix};

/// `value`, and how far from it a result in the precision `P` may lie.
///
/// An infinite error says that nothing is known: a rounding may or may not have overflowed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Bounded<P> {
    pub value: f64,
    pub error: f64,
    precision: PhantomData<P>,
}

impl<P: Precision> Bounded<P> {
    pub(crate) const fn exact(value: f64) -> Self {
        Bounded { value, error: 0.0, precision: PhantomData }
    }

    /// `value` with the operands' errors; an error that is no number is unknown.
    pub(crate) fn with_error(value: f64, error: f64) -> Self {
        Bounded { value, error: if error.is_nan() { f64::INFINITY } else { error }, precision: PhantomData }
    }

    /// The result of an operation in the precision `P`: the operands' errors, and one rounding.
    pub(crate) fn rounded(value: f64, error: f64) -> Self {
        Self::rounded_by(value, error, 1.0)
    }

    /// The same for an operation that is right to `units` roundings.
    pub(crate) fn rounded_by(value: f64, error: f64, units: f64) -> Self {
        let magnitude = value.abs();
        if !magnitude.is_finite() {
            return Self::with_error(value, error);
        }
        // The least magnitude that rounds to infinity: half a step above the largest number.
        let overflow = P::MAX / (1.0 - P::UNIT) * (1.0 - P::UNIT / 2.0);
        if magnitude - error >= overflow {
            return Self::exact(f64::INFINITY.copysign(value));
        }
        if magnitude + error >= overflow {
            return Self::with_error(value, f64::INFINITY);
        }
        Self::with_error(value, error + units * (P::UNIT * (magnitude + error)).max(P::TINY / 2.0))
    }

    /// A number of another precision in `P`.
    ///
    /// What is rounded to the nearest is off by half of the last place, a unit; what is cut by less than all of it, two units. A
    /// number that rounds to infinity stays finite where it is cut.
    fn converted(value: f64, error: f64) -> Self {
        if P::CUT && value.is_finite() && value.abs() + error > P::MAX {
            return Self::with_error(value, f64::INFINITY);
        }
        Self::rounded_by(value, error, if P::CUT { 2.0 } else { 1.0 })
    }

    /// The same number in another precision, rounded where that precision does not have it.
    pub(crate) fn cast<Q: Precision>(self) -> Bounded<Q> {
        // What holds every number of this precision changes none of them, nor the error they carry.
        if Q::UNIT <= P::UNIT && Q::TINY <= P::TINY && Q::MAX >= P::MAX {
            return Bounded::with_error(self.value, self.error);
        }
        Value::from_f64(self.value, self.error)
    }
}

impl<P> PartialEq for Bounded<P> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
impl<P> PartialOrd for Bounded<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<P: Precision> Value for Bounded<P> {
    type Acc = Bounded<F32>;
    const ZERO: Self = Bounded::exact(0.0);
    const MODELLED: bool = true;
    fn widen(self) -> Bounded<F32> {
        Bounded::with_error(self.value, self.error)
    }
    fn narrow(wide: Bounded<F32>) -> Self {
        wide.cast()
    }
    fn to_f64(self) -> (f64, f64) {
        (self.value, self.error)
    }
    fn from_f64(value: f64, error: f64) -> Self {
        if error == 0.0 && (P::rounded(value) == value || value.is_nan()) {
            return Bounded::exact(value);
        }
        Bounded::converted(value, error)
    }
}

impl<P: Precision> Number for Bounded<P> {}

impl<P: Precision> Arithmetic for Bounded<P> {
    fn accumulate(a: Matrix<'_, Self>, b: Matrix<'_, Self>, into: &mut Accumulator<Bounded<F32>>) {
        super::product::accumulate(a, b, into);
    }
}

impl<P: Precision> Stored for Bounded<P> {
    type Storage = P::Storage;
    fn load(stored: P::Storage) -> Self {
        Self::from_f64(P::from_storage(stored), 0.0)
    }
    fn store(self) -> P::Storage {
        P::to_storage(self.value)
    }
}

impl<P: Precision> Limits for Bounded<P> {
    const INFINITY: Self = Bounded::exact(f64::INFINITY);
    const NEG_INFINITY: Self = Bounded::exact(f64::NEG_INFINITY);
    const NAN: Self = Bounded::exact(f64::NAN);
    const MAX: Self = Bounded::exact(P::MAX);
    const MIN: Self = Bounded::exact(-P::MAX);
    const EPSILON: Self = Bounded::exact(P::UNIT * 2.0);
    const MIN_POSITIVE: Self = Bounded::exact(P::MIN_POSITIVE);
}

/// The λ of the probabilistic bounds: with it, λ·√n·u fails for a rounding error in less than one case in 10^13
/// (Higham and Mary 2019, *A New Approach to Probabilistic Rounding Error Analysis*, theorem 2.4,
/// <https://doi.org/10.1137/18M1226312>: 2·exp(-λ²/2)).
pub(crate) const LAMBDA: f64 = 8.0;

impl Ring for Bounded<F32> {
    const HIGHEST: Self = Self::INFINITY;
    const LOWEST: Self = Self::NEG_INFINITY;
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn minus(self, other: Self) -> Self {
        self - other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn over(self, other: Self) -> Self {
        self / other
    }
    fn modulo(self, other: Self) -> Self {
        let quotient = (self.value / other.value).trunc();
        let error = self.error + quotient.abs() * other.error;
        // Operands near a multiple may fall on either side of it.
        let near = (self.value - quotient * other.value).abs().min((self.value - (quotient + 1.0) * other.value).abs());
        let jump = if error > 0.0 && near <= error { other.value.abs() } else { 0.0 };
        Self::rounded(self.value % other.value, error + jump)
    }
    fn negative(self) -> Self {
        -self
    }
    fn magnitude(self) -> Self {
        Self::with_error(self.value.abs(), self.error)
    }
    fn larger(self, other: Self) -> Self {
        choose(self, other, f64::max)
    }
    fn smaller(self, other: Self) -> Self {
        choose(self, other, f64::min)
    }

    /// Any order of summation: λ·√n·u on the mean partial sum for a running sum, and λ·u·Σ|x| for the leaves of a tree.
    fn sum(row: &[Self]) -> Self {
        let (mut total, mut partials, mut magnitudes, mut error) = (0.0, 0.0, 0.0, 0.0);
        for x in row {
            total += x.value;
            partials += f64::abs(total);
            magnitudes += x.value.abs();
            error += x.error;
        }
        let n = row.len() as f64;
        if row.len() < 2 {
            return Self::with_error(total, error);
        }
        Self::rounded(total, error + LAMBDA * F32::UNIT * (partials / n.sqrt() + magnitudes))
    }
}

/// `f` of the values, which picks one of them; both errors count, since the device may pick the other. A NaN is not picked.
fn choose(a: Bounded<F32>, b: Bounded<F32>, f: fn(f64, f64) -> f64) -> Bounded<F32> {
    match (a.value.is_nan(), b.value.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => {
            // An operand that cannot come near the result does not count.
            let value = f(a.value, b.value);
            let counts = |x: Bounded<F32>| {
                if (x.value - value).abs() <= a.error + b.error || x.value == value { x.error } else { 0.0 }
            };
            Bounded::with_error(value, counts(a).max(counts(b)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::tf32;
    use crate::oracle::Tf32;
    use proptest::prelude::*;

    /// An `f32` whose last 13 bits are ignored.
    fn cut(x: f32) -> f64 {
        f64::from(f32::from_bits(x.to_bits() & !0x1fff))
    }

    proptest! {
        #[test]
        fn an_operand_may_be_cut_or_rounded(bits in any::<u32>()) {
            let x = f32::from_bits(bits);
            prop_assume!(x.is_finite());
            let modelled = Bounded::<Tf32>::load(x);
            for seen in [cut(x), f64::from(tf32::from_f32(x).to_f32())] {
                prop_assert!(modelled.error.is_infinite() || (seen - modelled.value).abs() <= modelled.error);
            }
            prop_assert!(modelled.error <= (f64::from(x).abs() / 1024.0).max(Tf32::TINY) || f64::from(x).abs() > Tf32::MAX);
        }
    }

    #[test]
    fn what_the_format_holds_is_exact() {
        assert_eq!(Bounded::<Tf32>::load(1.5).error, 0.0);
        assert_eq!(Bounded::<Tf32>::load(f32::INFINITY).error, 0.0);
        // Rounded it is infinite, cut it is not.
        assert_eq!(Bounded::<Tf32>::load(f32::MAX).error, f64::INFINITY);
    }
}
