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

macro_rules! coords {
    ($($d:ident $part:tt),*; $out:ty) => {
        impl<A, $($d),*> Ix<A, Flat<($($d,)*)>> {
            /// The element's coordinate in each of the flattened dims.
            pub fn coords(self) -> $out {
                ($(Coord { ix: self, map: self.component($part) },)*)
            }
        }
    };
}
type Part<A, D> = Coord<A, D, Component>;
coords!(P 0, Q 1; (Part<A, Flat<(P, Q)>>, Part<A, Flat<(P, Q)>>));
coords!(P 0, Q 1, R 2; (Part<A, Flat<(P, Q, R)>>, Part<A, Flat<(P, Q, R)>>, Part<A, Flat<(P, Q, R)>>));
coords!(P 0, Q 1, R 2, S 3; (
    Part<A, Flat<(P, Q, R, S)>>, Part<A, Flat<(P, Q, R, S)>>, Part<A, Flat<(P, Q, R, S)>>, Part<A, Flat<(P, Q, R, S)>>
));

impl<A, D> Ix<A, D> {
    fn component(self, part: usize) -> Component {
        let divisor = self.dims[part + 1..].iter().product::<i32>();
        Component { divisor, size: self.dims[part] }
    }
}
