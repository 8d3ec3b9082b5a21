//! Functions of each element.

use super::Tile;
use super::create::{Fill, Operand};
use super::elements::{binary, unary};
use crate::axis::Union;
use crate::element::{Arithmetic, Number, Ring};
use crate::real::Real;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl<T: Arithmetic, L> Tile<T, L> {$(
            $(#[$doc])*
            pub fn $name(self) -> Tile<T, L> {
                Tile::new(unary::<T, T>(self.raw, <T::Acc as Real>::$name))
            }
        )*}
    };
}
functions! {
    exp;
    exp2;
    /// The natural logarithm.
    log;
    log2;
    sqrt;
    /// One over the square root.
    rsqrt;
    /// One over the element.
    recip;
    tanh;
    sin;
    cos;
    /// The error function.
    erf;
    floor;
    ceil;
    /// To the nearest integer, halves away from zero.
    round;
}

impl<T: Number, L> Tile<T, L> {
    pub fn abs(self) -> Tile<T, L> {
        Tile::new(unary::<T, T>(self.raw, T::Acc::magnitude))
    }

    /// The larger element; a number where the other is a NaN.
    pub fn max<R: Operand<T>>(self, other: R) -> Tile<T, <L as Union<R::Axes>>::Out>
    where
        L: Union<R::Axes>,
    {
        Tile::new(binary::<T, T, T>(self.raw, other.operand().raw, T::Acc::larger))
    }

    /// The smaller element; a number where the other is a NaN.
    pub fn min<R: Operand<T>>(self, other: R) -> Tile<T, <L as Union<R::Axes>>::Out>
    where
        L: Union<R::Axes>,
    {
        Tile::new(binary::<T, T, T>(self.raw, other.operand().raw, T::Acc::smaller))
    }

    /// Not below `low` and not above `high`.
    pub fn clamp(self, low: impl Fill<T>, high: impl Fill<T>) -> Tile<T, L> {
        let (low, high) = (low.fill().widen(), high.fill().widen());
        Tile::new(unary::<T, T>(self.raw, |x| x.larger(low).smaller(high)))
    }
}

impl<T: Arithmetic, L> Tile<T, L> {
    pub fn pow<R>(self, exponent: Tile<T, R>) -> Tile<T, <L as Union<R>>::Out>
    where
        L: Union<R>,
    {
        Tile::new(binary::<T, T, T>(self.raw, exponent.raw, <T::Acc as Real>::powf))
    }

    /// `f` of each element, computed in the accumulator type and rounded once.
    pub fn map(self, f: impl Fn(T::Acc) -> T::Acc) -> Tile<T, L> {
        Tile::new(unary::<T, T>(self.raw, f))
    }

    /// `f` of each pair of elements, broadcast by axis.
    pub fn zip_map<R>(self, other: Tile<T, R>, f: impl Fn(T::Acc, T::Acc) -> T::Acc) -> Tile<T, <L as Union<R>>::Out>
    where
        L: Union<R>,
    {
        Tile::new(binary::<T, T, T>(self.raw, other.raw, f))
    }
}
