//! How far a loop runs: a dimension, a product of dimensions, or a part of one.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Range, Rem, Sub};

use super::index::Ix;
use super::list::AxisName;
use crate::tile::Tile;

/// Dims that one axis can flatten.
pub const MAX_FLAT: usize = 4;

/// `lo..hi` along a dimension `D`. As a number it is the dimension's size, as in `H / G`.
pub struct Extent<D> {
    pub(crate) lo: i32,
    pub(crate) hi: i32,
    /// The sizes that a flat axis runs over, outer first; 1 where unused.
    pub(crate) dims: [i32; MAX_FLAT],
    size: i32,
    dim: PhantomData<fn() -> D>,
}

impl<D> Clone for Extent<D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for Extent<D> {}

impl<D> Extent<D> {
    pub fn new(size: i32) -> Self {
        let size = size.max(0);
        Extent { lo: 0, hi: size, dims: [size, 1, 1, 1], size, dim: PhantomData }
    }

    /// The dimension's size, whatever part of it this is.
    pub fn size(self) -> i32 {
        self.size
    }

    /// The part below `end`.
    pub fn until(self, end: impl Integer) -> Self {
        Extent { hi: end.get().clamp(self.lo, self.hi), ..self }
    }

    /// The part from `start` on.
    pub fn from(self, start: impl Integer) -> Self {
        Extent { lo: start.get().clamp(self.lo, self.hi), ..self }
    }

    pub fn range<I: Integer>(self, range: Range<I>) -> Self {
        self.from(range.start.get()).until(range.end.get())
    }

    pub(crate) fn len(self) -> usize {
        (self.hi - self.lo).max(0) as usize
    }

    pub(crate) fn ix<A: AxisName>(self, start: i32, end: i32) -> Ix<A, D> {
        Ix::new(start, end, self.dims)
    }
}

/// A dimension, or a product of dimensions as one: `Flat<(N, P, Q)>`.
pub struct Flat<S>(PhantomData<fn() -> S>);

/// One extent over a product of extents, row-major.
pub fn flat<T: Flatten>(extents: T) -> Extent<T::Dim> {
    let dims = extents.dims();
    let size = dims.iter().map(|&d| i64::from(d)).product::<i64>().min(i64::from(i32::MAX)) as i32;
    Extent { lo: 0, hi: size, dims, size, dim: PhantomData }
}

/// A tuple of [`Extent`]s.
pub trait Flatten {
    type Dim;
    fn dims(&self) -> [i32; MAX_FLAT];
}

macro_rules! flatten {
    ($($d:ident $i:tt),*; $($one:literal),*) => {
        impl<$($d),*> Flatten for ($(Extent<$d>,)*) {
            type Dim = Flat<($($d,)*)>;
            fn dims(&self) -> [i32; MAX_FLAT] {
                [$(self.$i.size(),)* $($one),*]
            }
        }
    };
}
flatten!(A 0, B 1; 1, 1);
flatten!(A 0, B 1, C 2; 1);
flatten!(A 0, B 1, C 2, D 3; );

/// What may stand for an integer in a bound: an `i32`, an [`Extent`] as its size, or the one element of a tile without axes.
pub trait Integer {
    fn get(self) -> i32;
}

impl Integer for i32 {
    fn get(self) -> i32 {
        self
    }
}

impl<D> Integer for Extent<D> {
    fn get(self) -> i32 {
        self.size
    }
}

impl Integer for Tile<i32, ()> {
    fn get(self) -> i32 {
        self.value()
    }
}

/// `a / b` and `a % b` as the device has them, but 0 where `b` is 0.
pub(crate) fn quotient(a: i32, b: i32) -> i32 {
    a.checked_div(b).unwrap_or(0)
}

pub(crate) fn remainder(a: i32, b: i32) -> i32 {
    a.checked_rem(b).unwrap_or(0)
}

macro_rules! operator {
    ($($trait:ident $method:ident $apply:expr;)*) => {$(
        impl<D, I: Integer> $trait<I> for Extent<D> {
            type Output = i32;
            fn $method(self, other: I) -> i32 {
                let apply: fn(i32, i32) -> i32 = $apply;
                apply(self.size, other.get())
            }
        }
        impl<D> $trait<Extent<D>> for i32 {
            type Output = i32;
            fn $method(self, other: Extent<D>) -> i32 {
                let apply: fn(i32, i32) -> i32 = $apply;
                apply(self, other.size)
            }
        }
    )*};
}
operator! {
    Add add i32::wrapping_add;
    Sub sub i32::wrapping_sub;
    Mul mul i32::wrapping_mul;
    Div div quotient;
    Rem rem remainder;
}

impl<D, I: Integer + Copy> PartialEq<I> for Extent<D> {
    fn eq(&self, other: &I) -> bool {
        self.size == other.get()
    }
}
impl<D, I: Integer + Copy> PartialOrd<I> for Extent<D> {
    fn partial_cmp(&self, other: &I) -> Option<Ordering> {
        Some(self.size.cmp(&other.get()))
    }
}
impl<D> PartialEq<Extent<D>> for i32 {
    fn eq(&self, other: &Extent<D>) -> bool {
        *self == other.size
    }
}
impl<D> PartialOrd<Extent<D>> for i32 {
    fn partial_cmp(&self, other: &Extent<D>) -> Option<Ordering> {
        Some(self.cmp(&other.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_inside() {
        let t = Extent::<()>::new(10);
        assert_eq!((t.until(99).hi, t.until(-3).hi, t.from(4).lo), (10, 0, 4));
        let part = t.range(3..7);
        assert_eq!((part.lo, part.hi, part.len(), part.size()), (3, 7, 4, 10));
        assert_eq!(Extent::<()>::new(12) / Extent::<u8>::new(4), 3);
        assert_eq!(7 / Extent::<()>::new(0), 0);
    }

    #[test]
    fn flat_multiplies() {
        let e = flat((Extent::<()>::new(2), Extent::<u8>::new(3), Extent::<u16>::new(5)));
        assert_eq!((e.size(), e.dims), (30, [2, 3, 5, 1]));
        assert_eq!(flat((Extent::<()>::new(0), Extent::<u8>::new(3))).len(), 0);
    }
}
