//! What a tile holds, by how much can be done with it.

use std::fmt::Debug;

use super::memory::Stored;
use super::ring::Ring;
use crate::real::{Limits, Real};
use crate::tile::{Accumulator, Matrix};

/// Anything that a tile can hold.
pub trait Value: Copy + Debug + Send + Sync + 'static {
    /// What it is computed in: `f32` for the floats, itself for integers and booleans.
    type Acc: Value<Acc = Self::Acc>;
    const ZERO: Self;
    /// Whether this is the oracle's model: sums and products must be seen whole.
    const MODELLED: bool = false;

    fn widen(self) -> Self::Acc;
    fn narrow(wide: Self::Acc) -> Self;

    #[inline(always)]
    fn widen_row(from: &[Self], to: &mut [Self::Acc]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.widen();
        }
    }

    #[inline(always)]
    fn narrow_row(from: &[Self::Acc], to: &mut [Self]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = Self::narrow(*from);
        }
    }

    /// The row itself, where it is in the accumulator type already.
    #[inline(always)]
    fn as_acc(row: &[Self]) -> Option<&[Self::Acc]> {
        let _ = row;
        None
    }

    /// The same for a row to be written.
    #[inline(always)]
    fn as_acc_mut(row: &mut [Self]) -> Option<&mut [Self::Acc]> {
        let _ = row;
        None
    }

    /// The value, and a bound of its error.
    fn to_f64(self) -> (f64, f64);
    fn from_f64(value: f64, error: f64) -> Self;
}

/// A value with arithmetic: a float or an integer.
#[diagnostic::on_unimplemented(message = "a tile of `{Self}` has no arithmetic", label = "expected numbers")]
pub trait Number: Value<Acc: Ring> {}

/// A float, or a model of one: what a kernel's body is generic over.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point type of the language",
    label = "expected f16, bf16, tf32 or f32"
)]
pub trait Arithmetic: Number<Acc: Real> + Stored + Limits {
    /// `into += a · b`; `into = a · b` where it is fresh.
    fn accumulate(a: Matrix<'_, Self>, b: Matrix<'_, Self>, into: &mut Accumulator<Self::Acc>);
}
