//! Tiles on the CPU.
//!
//! A [`Tile`] is a typed face: its type lists the axes that it spans ([`axis`](crate::axis)), and rustc computes the type of
//! every result. Below it a `Raw` tile has elements and a `Form`.
mod arithmetic;
mod compare;
mod create;
mod dot;
mod elements;
mod form;
mod function;
mod mask;
mod matrix;
pub(crate) mod product;
pub(crate) mod raw;
mod reduce;
mod reduction;
mod wide;

#[cfg(test)]
mod properties;

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

pub use compare::select;
pub use create::{Coordinates, Fill, full, int, iota, lit, scalar, zeros};
pub use dot::dot;
pub use form::Form;
pub use matrix::{Accumulator, Matrix};

use crate::element::Value;
use raw::Raw;

/// Elements of type `T` along the axes `L`.
pub struct Tile<T: Value, L> {
    pub(crate) raw: Raw<T>,
    axes: PhantomData<fn() -> L>,
}

impl<T: Value, L> Clone for Tile<T, L> {
    fn clone(&self) -> Self {
        Tile::new(self.raw.clone())
    }
}

impl<T: Value, L> fmt::Debug for Tile<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (form, values) = self.raw.clone().into_values();
        f.debug_struct("Tile").field("sizes", &&form.sizes[..form.rank]).field("values", &values).finish()
    }
}

impl<T: Value, L> Tile<T, L> {
    pub(crate) fn new(raw: Raw<T>) -> Self {
        Tile { raw, axes: PhantomData }
    }

    /// The same values in another type, rounded to it.
    pub fn to<U: Value>(self) -> Tile<U, L> {
        let (from, to) = (TypeId::of::<T::Acc>(), TypeId::of::<U::Acc>());
        if TypeId::of::<T>() == TypeId::of::<U>() {
            let mut slot = Some(self.raw);
            let same = (&mut slot as &mut dyn std::any::Any).downcast_mut::<Option<Raw<U>>>().and_then(Option::take);
            if let Some(same) = same {
                return Tile::new(same);
            }
            unreachable!("a type is itself")
        }
        if from == to {
            return Tile::new(elements::unary::<T, U>(self.raw, same_accumulator::<T, U>));
        }
        Tile::new(elements::unary::<T, U>(self.raw, |x| {
            let (value, error) = x.to_f64();
            U::Acc::from_f64(value, error)
        }))
    }
}

/// The identity between accumulator types that are the same.
#[inline(always)]
fn same_accumulator<T: Value, U: Value>(x: T::Acc) -> U::Acc {
    debug_assert_eq!(TypeId::of::<T::Acc>(), TypeId::of::<U::Acc>());
    // SAFETY: the caller has found both types to be one.
    unsafe { std::mem::transmute_copy(&x) }
}

impl<T: Value, P, Q> Tile<T, (P, Q)> {
    /// The transposed tile.
    pub fn t(self) -> Tile<T, (Q, P)> {
        let raw = self.raw.settled();
        Tile::new(Raw { form: raw.form.transposed(), data: raw.data })
    }
}

impl<L> Tile<i32, L> {
    /// For each axis the first coordinate and the size, and the elements, row by row.
    pub(crate) fn coordinates(self) -> ([i32; form::MAX_RANK], [usize; form::MAX_RANK], Vec<i32>) {
        let (form, values) = self.raw.into_values();
        (form.origins, form.sizes, values)
    }
}

impl<T: Value> Tile<T, ()> {
    /// The one element.
    pub fn value(&self) -> T {
        let tile = self.raw.clone().settled();
        // SAFETY: a settled tile without axes has one element at its address.
        unsafe { *tile.address() }
    }
}
