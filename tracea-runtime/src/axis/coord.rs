//! Element coordinates along an axis, and integer arithmetic on them: `p * stride + r * dilation - pad`.
//!
//! A coordinate is a function of the position along its axis; arithmetic composes functions, so nothing is stored per element.

use std::ops::{Add, Div, Mul, Rem, Sub};

use super::extent::{Flat, Integer, quotient, remainder};
use super::index::Ix;

/// One integer for each element along the axis `A`.
pub struct Coord<A, D, F> {
    pub(crate) ix: Ix<A, D>,
    pub(crate) map: F,
}

impl<A, D, F: Copy> Clone for Coord<A, D, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A, D, F: Copy> Copy for Coord<A, D, F> {}

/// From a position along the axis to an integer.
pub trait CoordMap: Copy {
    fn at(self, position: i32) -> i32;
}

/// The position itself.
#[derive(Clone, Copy)]
pub struct Position;

/// One component of a flat axis.
#[derive(Clone, Copy)]
pub struct Component {
    divisor: i32,
    size: i32,
}

#[derive(Clone, Copy)]
pub struct OpRight<F> {
    map: F,
    op: fn(i32, i32) -> i32,
    by: i32,
}

#[derive(Clone, Copy)]
pub struct OpLeft<F> {
    by: i32,
    op: fn(i32, i32) -> i32,
    map: F,
}

#[derive(Clone, Copy)]
pub struct OpBoth<F, G> {
    left: F,
    op: fn(i32, i32) -> i32,
    right: G,
}

impl CoordMap for Position {
    fn at(self, position: i32) -> i32 {
        position
    }
}
impl CoordMap for Component {
    fn at(self, position: i32) -> i32 {
        remainder(quotient(position, self.divisor), self.size)
    }
}
impl<F: CoordMap> CoordMap for OpRight<F> {
    fn at(self, position: i32) -> i32 {
        (self.op)(self.map.at(position), self.by)
    }
}
impl<F: CoordMap> CoordMap for OpLeft<F> {
    fn at(self, position: i32) -> i32 {
        (self.op)(self.by, self.map.at(position))
    }
}
impl<F: CoordMap, G: CoordMap> CoordMap for OpBoth<F, G> {
    fn at(self, position: i32) -> i32 {
        (self.op)(self.left.at(position), self.right.at(position))
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $apply:expr;)*) => {$(
        impl<A, D, F, I: Integer> $trait<I> for Coord<A, D, F> {
            type Output = Coord<A, D, OpRight<F>>;
            fn $method(self, by: I) -> Self::Output {
                Coord { ix: self.ix, map: OpRight { map: self.map, op: $apply, by: by.get() } }
            }
        }
        impl<A, D, F> $trait<Coord<A, D, F>> for i32 {
            type Output = Coord<A, D, OpLeft<F>>;
            fn $method(self, coord: Coord<A, D, F>) -> Self::Output {
                Coord { ix: coord.ix, map: OpLeft { by: self, op: $apply, map: coord.map } }
            }
        }
        impl<A, D, F, G> $trait<Coord<A, D, G>> for Coord<A, D, F> {
            type Output = Coord<A, D, OpBoth<F, G>>;
            fn $method(self, other: Coord<A, D, G>) -> Self::Output {
                Coord { ix: self.ix, map: OpBoth { left: self.map, op: $apply, right: other.map } }
            }
        }
        impl<A, D, I: Integer> $trait<I> for Ix<A, D> {
            type Output = Coord<A, D, OpRight<Position>>;
            fn $method(self, by: I) -> Self::Output {
                Coord { ix: self, map: OpRight { map: Position, op: $apply, by: by.get() } }
            }
        }
        impl<A, D> $trait<Ix<A, D>> for i32 {
            type Output = Coord<A, D, OpLeft<Position>>;
            fn $method(self, ix: Ix<A, D>) -> Self::Output {
                Coord { ix, map: OpLeft { by: self, op: $apply, map: Position } }
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

/// One component of the flat axis `A` over the dims `S`.
type Part<A, S> = Coord<A, Flat<S>, Component>;

/// The components of an axis over two dims.
type Two<A, S> = (Part<A, S>, Part<A, S>);

impl<A, P, Q> Ix<A, Flat<(P, Q)>> {
    /// The element's coordinate in each of the flattened dims.
    pub fn coords(self) -> Two<A, (P, Q)> {
        (self.part(0), self.part(1))
    }
}

/// The components of an axis over three dims.
type Three<A, S> = (Part<A, S>, Part<A, S>, Part<A, S>);

impl<A, P, Q, R> Ix<A, Flat<(P, Q, R)>> {
    /// The element's coordinate in each of the flattened dims.
    pub fn coords(self) -> Three<A, (P, Q, R)> {
        (self.part(0), self.part(1), self.part(2))
    }
}

/// The components of an axis over four dims.
type Four<A, S> = (Part<A, S>, Part<A, S>, Part<A, S>, Part<A, S>);

impl<A, P, Q, R, S> Ix<A, Flat<(P, Q, R, S)>> {
    /// The element's coordinate in each of the flattened dims.
    pub fn coords(self) -> Four<A, (P, Q, R, S)> {
        (self.part(0), self.part(1), self.part(2), self.part(3))
    }
}

impl<A, D> Ix<A, D> {
    fn part(self, part: usize) -> Coord<A, D, Component> {
        let divisor = self.dims[part + 1..].iter().fold(1, |product: i32, &size| product.wrapping_mul(size));
        Coord { ix: self, map: Component { divisor, size: self.dims[part] } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::extent::{Extent, flat};
    use super::*;

    fn along<A, D, F: CoordMap>(coord: Coord<A, D, F>) -> Vec<i32> {
        (coord.ix.start()..coord.ix.end()).map(|position| coord.map.at(position)).collect()
    }

    enum X {}
    impl crate::axis::AxisName for X {
        type Ordinal = crate::axis::ordinal::N0;
        const NAME: &'static str = "x";
    }

    #[test]
    fn components_count_row_major() {
        let extent = flat((Extent::<()>::new(2), Extent::<u8>::new(3), Extent::<u16>::new(5)));
        let (n, p, q) = extent.ix::<X>(13, 17).coords();
        assert_eq!(along(n), [0, 0, 1, 1]);
        assert_eq!(along(p), [2, 2, 0, 0]);
        assert_eq!(along(q), [3, 4, 0, 1]);
        assert_eq!(along(p * 2 + 1 - n), [5, 5, 0, 0]);
        assert_eq!(along(7 - q / 2 % 2), [6, 7, 7, 7]);
    }

    #[test]
    fn division_by_nothing_is_nothing() {
        let ix = Extent::<()>::new(3).ix::<X>(0, 3);
        assert_eq!(along(ix / 0), [0, 0, 0]);
        assert_eq!(along(2 * ix % Extent::<()>::new(0)), [0, 0, 0]);
    }
}
