//! Tiles out of nothing: constants, scalars and coordinates.

use super::Tile;
use super::form::Form;
use super::raw::Raw;
use crate::axis::{Axes, Axis, AxisName, Coord, CoordMap, Extent, Integer, Ix};
use crate::element::{Arithmetic, Number, Value};
use crate::real::Real;

/// One value for a whole tile: a scalar, or a tile without axes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value for a tile of `{T}`",
    label = "expected a scalar or a tile without axes"
)]
pub trait Fill<T> {
    fn fill(self) -> T;
}

impl<T: Number> Fill<T> for T {
    fn fill(self) -> T {
        self
    }
}

impl<T: Number> Fill<T> for Tile<T, ()> {
    fn fill(self) -> T {
        self.value()
    }
}

/// What stands beside a tile of `T`: another tile, or an integer beside integers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not go with a tile of `{T}`",
    label = "expected a tile or a scalar of `{T}`"
)]
pub trait Operand<T: Value> {
    type Axes;
    fn operand(self) -> Tile<T, Self::Axes>;
}

impl<T: Value, L> Operand<T> for Tile<T, L> {
    type Axes = L;
    fn operand(self) -> Tile<T, L> {
        self
    }
}

impl Operand<i32> for i32 {
    type Axes = ();
    fn operand(self) -> Tile<i32, ()> {
        Tile::new(Raw::uniform(Form::default(), self))
    }
}

impl<D> Operand<i32> for Extent<D> {
    type Axes = ();
    fn operand(self) -> Tile<i32, ()> {
        self.get().operand()
    }
}

/// Zeros along the axes: `zeros::<f32>((i, j))`.
pub fn zeros<T: Value, L>(axes: impl Axes<L>) -> Tile<T, L> {
    Tile::new(Raw::uniform(axes.form(), T::ZERO))
}

/// One value along the axes: `full::<f32>(i, f32::NEG_INFINITY)`.
pub fn full<T: Value, L>(axes: impl Axes<L>, value: impl Fill<T>) -> Tile<T, L> {
    Tile::new(Raw::uniform(axes.form(), value.fill()))
}

/// What [`iota`] makes a tile of: a loop variable, or what integer arithmetic makes of one or of its `coords()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no coordinates along an axis",
    label = "expected a loop variable, or what arithmetic makes of one"
)]
pub trait Coordinates {
    type Along;
    fn tile(self) -> Tile<i32, (Self::Along,)>;
}

impl<A: AxisName, D> Coordinates for Ix<A, D> {
    type Along = Axis<A, D>;
    fn tile(self) -> Tile<i32, (Axis<A, D>,)> {
        numbers(self, |position| position)
    }
}

impl<A: AxisName, D, F: CoordMap> Coordinates for Coord<A, D, F> {
    type Along = Axis<A, D>;
    fn tile(self) -> Tile<i32, (Axis<A, D>,)> {
        numbers(self.ix, |position| self.map.at(position))
    }
}

fn numbers<A: AxisName, D>(axis: Ix<A, D>, at: impl Fn(i32) -> i32) -> Tile<i32, (Axis<A, D>,)> {
    let form = Axes::<(Axis<A, D>,)>::form(axis);
    Tile::new(Raw::owned(form, (axis.start()..axis.end().max(axis.start())).map(at).collect()))
}

/// The coordinates along an axis: `iota(j)`, or a number of each, as in `iota(p * 2 - r)`.
pub fn iota<C: Coordinates>(coordinates: C) -> Tile<i32, (C::Along,)> {
    coordinates.tile()
}

/// A literal in tile arithmetic.
pub fn lit<T: Arithmetic>(value: f64) -> Tile<T, ()> {
    Tile::new(Raw::uniform(Form::default(), T::narrow(T::Acc::num(value))))
}

/// A scalar argument in tile arithmetic.
pub fn scalar<T: Arithmetic>(value: f32) -> Tile<T, ()> {
    lit(f64::from(value))
}

/// An integer in tile arithmetic: `N as f32`.
pub fn int<T: Arithmetic>(value: impl Integer) -> Tile<T, ()> {
    lit(f64::from(value.get()))
}
