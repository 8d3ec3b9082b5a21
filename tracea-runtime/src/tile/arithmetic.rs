//! Operators: a tile with a tile, broadcast by axis, or with a scalar.

use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign, Mul, MulAssign,
    Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign,
};

use super::Tile;
use super::create::{Operand, iota};
use super::elements::{binary, broadcast, unary};
use super::form::Form;
use super::matrix::Accumulator;
use super::raw::{Data, Raw};
use crate::axis::{Axis, AxisName, Coord, CoordMap, Extent, Ix, Union, Within};
use crate::element::{Number, Ring, Value};

/// `a + b`; a product that only this sum waits for goes straight into the other operand's memory.
fn sum<T: Number>(a: Raw<T>, b: Raw<T>) -> Raw<T> {
    match (a.form.agrees(&b.form), a.as_lone_product().is_some(), b.as_lone_product().is_some()) {
        (true, _, true) => add_product(a, b),
        (true, true, false) => add_product(b, a),
        _ => binary::<T, T, T>(a, b, T::Acc::plus),
    }
}

fn add_product<T: Number>(to: Raw<T>, product: Raw<T>) -> Raw<T> {
    let is_fresh = matches!(to.data, Data::Uniform(zero) if is_plain_zero(zero));
    let (form, values) = to.into_values();
    let mut into = Accumulator { values, rows: form.sizes[0], cols: form.sizes[1], is_fresh };
    if let Some(product) = product.as_lone_product() {
        product.add_into(&mut into);
    }
    Raw::owned(form, into.values)
}

fn is_plain_zero<T: Value>(value: T) -> bool {
    value.to_f64() == (0.0, 0.0)
}

macro_rules! operator {
    ($element:ty $(where $of:ident: $bound:ident)?, $trait:ident $method:ident, $assign:ident $assign_method:ident, $apply:expr) => {
        impl<$($of: $bound,)? L: Union<R>, R> $trait<Tile<$element, R>> for Tile<$element, L> {
            type Output = Tile<$element, <L as Union<R>>::Out>;
            fn $method(self, other: Tile<$element, R>) -> Self::Output {
                let apply: fn(Raw<$element>, Raw<$element>) -> Raw<$element> = $apply;
                Tile::new(apply(self.raw, other.raw))
            }
        }
        impl<$($of: $bound,)? L> $trait<$element> for Tile<$element, L> {
            type Output = Tile<$element, L>;
            fn $method(self, other: $element) -> Self::Output {
                let apply: fn(Raw<$element>, Raw<$element>) -> Raw<$element> = $apply;
                Tile::new(apply(self.raw, Raw::uniform(Form::default(), other)))
            }
        }
        impl<$($of: $bound,)? L, R: Within<L>> $assign<Tile<$element, R>> for Tile<$element, L> {
            fn $assign_method(&mut self, other: Tile<$element, R>) {
                let apply: fn(Raw<$element>, Raw<$element>) -> Raw<$element> = $apply;
                let form = self.raw.form;
                let own = std::mem::replace(&mut self.raw, Raw::uniform(Form::default(), <$element>::ZERO));
                // An operand with the same axes in another order would set the result's order.
                let other = if other.raw.form.rank == form.rank && other.raw.form.ids != form.ids {
                    broadcast(other.raw, form)
                } else {
                    other.raw
                };
                self.raw = apply(own, other);
            }
        }
        impl<$($of: $bound,)? L> $assign<$element> for Tile<$element, L> {
            fn $assign_method(&mut self, other: $element) {
                let apply: fn(Raw<$element>, Raw<$element>) -> Raw<$element> = $apply;
                let own = std::mem::replace(&mut self.raw, Raw::uniform(Form::default(), <$element>::ZERO));
                self.raw = apply(own, Raw::uniform(Form::default(), other));
            }
        }
    };
}
operator!(T where T: Number, Add add, AddAssign add_assign, sum);
operator!(T where T: Number, Sub sub, SubAssign sub_assign, |a, b| binary::<T, T, T>(a, b, T::Acc::minus));
operator!(T where T: Number, Mul mul, MulAssign mul_assign, |a, b| binary::<T, T, T>(a, b, T::Acc::times));
operator!(T where T: Number, Div div, DivAssign div_assign, |a, b| binary::<T, T, T>(a, b, T::Acc::over));
operator!(T where T: Number, Rem rem, RemAssign rem_assign, |a, b| binary::<T, T, T>(a, b, T::Acc::modulo));

/// Bits of integers: of numbers that hold several smaller ones, as quantised weights do.
fn bits(a: Raw<i32>, b: Raw<i32>, of: fn(i32, i32) -> i32) -> Raw<i32> {
    binary::<i32, i32, i32>(a, b, of)
}
operator!(i32, BitAnd bitand, BitAndAssign bitand_assign, |a, b| bits(a, b, |a, b| a & b));
operator!(i32, BitOr bitor, BitOrAssign bitor_assign, |a, b| bits(a, b, |a, b| a | b));
operator!(i32, BitXor bitxor, BitXorAssign bitxor_assign, |a, b| bits(a, b, |a, b| a ^ b));
operator!(i32, Shl shl, ShlAssign shl_assign, |a, b| bits(a, b, |a, count| a.wrapping_shl(count as u32)));
operator!(i32, Shr shr, ShrAssign shr_assign, |a, b| bits(a, b, |a, count| a.wrapping_shr(count as u32)));

/// An integer before integers; where there are floats, it is a tile of its own.
macro_rules! integer_first {
    ($($trait:ident $method:ident;)*) => {$(
        impl<L> $trait<Tile<i32, L>> for i32
        where
            (): Union<L>,
        {
            type Output = Tile<i32, <() as Union<L>>::Out>;
            fn $method(self, tile: Tile<i32, L>) -> Self::Output {
                self.operand().$method(tile)
            }
        }
        impl<D, P> $trait<Tile<i32, (P,)>> for Extent<D>
        where
            (): Union<(P,)>,
        {
            type Output = Tile<i32, <() as Union<(P,)>>::Out>;
            fn $method(self, tile: Tile<i32, (P,)>) -> Self::Output {
                self.operand().$method(tile)
            }
        }
    )*};
}
/// Coordinates along two axes make a number for each pair of them.
macro_rules! coordinates {
    ($($trait:ident $method:ident;)*) => {$(
        impl<A: AxisName, D, B: AxisName, E> $trait<Ix<B, E>> for Ix<A, D>
        where
            (Axis<A, D>,): Union<(Axis<B, E>,)>,
        {
            type Output = Tile<i32, <(Axis<A, D>,) as Union<(Axis<B, E>,)>>::Out>;
            fn $method(self, other: Ix<B, E>) -> Self::Output {
                iota(self).$method(iota(other))
            }
        }
        impl<A: AxisName, D, F: CoordMap, B: AxisName, E> $trait<Ix<B, E>> for Coord<A, D, F>
        where
            (Axis<A, D>,): Union<(Axis<B, E>,)>,
        {
            type Output = Tile<i32, <(Axis<A, D>,) as Union<(Axis<B, E>,)>>::Out>;
            fn $method(self, other: Ix<B, E>) -> Self::Output {
                iota(self).$method(iota(other))
            }
        }
        impl<A: AxisName, D, F: CoordMap, B: AxisName, E> $trait<Coord<A, D, F>> for Ix<B, E>
        where
            (Axis<B, E>,): Union<(Axis<A, D>,)>,
        {
            type Output = Tile<i32, <(Axis<B, E>,) as Union<(Axis<A, D>,)>>::Out>;
            fn $method(self, other: Coord<A, D, F>) -> Self::Output {
                iota(self).$method(iota(other))
            }
        }
        impl<A: AxisName, D, P> $trait<Tile<i32, (P,)>> for Ix<A, D>
        where
            (Axis<A, D>,): Union<(P,)>,
        {
            type Output = Tile<i32, <(Axis<A, D>,) as Union<(P,)>>::Out>;
            fn $method(self, other: Tile<i32, (P,)>) -> Self::Output {
                iota(self).$method(other)
            }
        }
        impl<A: AxisName, D, L> $trait<Ix<A, D>> for Tile<i32, L>
        where
            L: Union<(Axis<A, D>,)>,
        {
            type Output = Tile<i32, <L as Union<(Axis<A, D>,)>>::Out>;
            fn $method(self, other: Ix<A, D>) -> Self::Output {
                self.$method(iota(other))
            }
        }
        impl<D, L> $trait<Extent<D>> for Tile<i32, L>
        where
            L: Union<()>,
        {
            type Output = Tile<i32, <L as Union<()>>::Out>;
            fn $method(self, size: Extent<D>) -> Self::Output {
                self.$method(size.operand())
            }
        }
    )*};
}
coordinates! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
    Rem rem;
}

integer_first! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
    Rem rem;
    BitAnd bitand;
    BitOr bitor;
    BitXor bitxor;
    Shl shl;
    Shr shr;
}

impl<T: Number, L> Neg for Tile<T, L> {
    type Output = Tile<T, L>;
    fn neg(self) -> Self::Output {
        Tile::new(unary::<T, T>(self.raw, T::Acc::negative))
    }
}

impl<L> Not for Tile<bool, L> {
    type Output = Tile<bool, L>;
    fn not(self) -> Self::Output {
        Tile::new(unary::<bool, bool>(self.raw, |x| !x))
    }
}

impl<L: Union<R>, R> BitAnd<Tile<bool, R>> for Tile<bool, L> {
    type Output = Tile<bool, <L as Union<R>>::Out>;
    fn bitand(self, other: Tile<bool, R>) -> Self::Output {
        Tile::new(binary::<bool, bool, bool>(self.raw, other.raw, |a, b| a & b))
    }
}

impl<L: Union<R>, R> BitOr<Tile<bool, R>> for Tile<bool, L> {
    type Output = Tile<bool, <L as Union<R>>::Out>;
    fn bitor(self, other: Tile<bool, R>) -> Self::Output {
        Tile::new(binary::<bool, bool, bool>(self.raw, other.raw, |a, b| a | b))
    }
}
