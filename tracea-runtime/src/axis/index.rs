//! What stands between the brackets of `x[(n, p * stride + r, .., c)]`.
//!
//! Each component, checked against the tensor axis that it indexes, adds its axis to the list of the tile that is read or
//! written, and becomes a [`Slot`] for the loop that moves the elements.

use std::marker::PhantomData;
use std::ops::RangeFull;

use super::coord::{Coord, CoordMap};
use super::extent::MAX_FLAT;
use super::list::{Axis, AxisKey, AxisName, Insert, Whole};
use super::ordinal::{N15, Ordinal};
use crate::dim::Dim;
use crate::tile::Tile;

/// The current block of the loop variable `A` over the dimension `D`: `start..end`.
pub struct Ix<A, D> {
    start: i32,
    end: i32,
    pub(crate) dims: [i32; MAX_FLAT],
    names: PhantomData<fn() -> (A, D)>,
}

impl<A, D> Clone for Ix<A, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A, D> Copy for Ix<A, D> {}

impl<A, D> Ix<A, D> {
    pub(crate) fn new(start: i32, end: i32, dims: [i32; MAX_FLAT]) -> Self {
        Ix { start, end, dims, names: PhantomData }
    }

    /// The block's first coordinate.
    pub fn start(self) -> i32 {
        self.start
    }

    /// One past the block's last coordinate.
    pub fn end(self) -> i32 {
        self.end
    }

    pub(crate) fn len(self) -> usize {
        (self.end - self.start).max(0) as usize
    }
}

/// One tensor axis' part of an index, at run time.
#[derive(Clone, Debug)]
pub enum Slot {
    /// One coordinate, inside the tensor or not.
    Point(i32),
    /// `start..start + len` along the tile axis `id`.
    Span { id: u8, start: i32, len: usize },
    /// Any coordinates along the tile axis `id`, which itself starts at `origin`.
    Map { id: u8, origin: i32, coords: Vec<i32> },
    /// The same along two tile axes, row by row.
    Plane { ids: [u8; 2], origins: [i32; 2], sizes: [usize; 2], coords: Vec<i32> },
}

/// An index component on a tensor axis of the dimension `D`, after components that span the axes `L`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not index an axis of the dimension `{D}`",
    label = "runs over another dimension than this axis of the tensor",
    note = "index it with a loop variable over `{D}`, coordinates, an integer, or `..`"
)]
pub trait Component<D, L> {
    /// `L` with this component's axis.
    type Out;
    fn slot(self, size: usize) -> Slot;
}

impl<A: AxisName, D, L: Insert<Axis<A, D>>> Component<D, L> for Ix<A, D> {
    type Out = <L as Insert<Axis<A, D>>>::Out;
    fn slot(self, _: usize) -> Slot {
        Slot::Span { id: A::Ordinal::INDEX, start: self.start, len: self.len() }
    }
}

impl<A: AxisName, D, E, F: CoordMap, L: Insert<Axis<A, E>>> Component<D, L> for Coord<A, E, F> {
    type Out = <L as Insert<Axis<A, E>>>::Out;
    fn slot(self, _: usize) -> Slot {
        let coords = (self.ix.start..self.ix.end).map(|position| self.map.at(position)).collect();
        Slot::Map { id: A::Ordinal::INDEX, origin: self.ix.start, coords }
    }
}

impl<D, L> Component<D, L> for i32 {
    type Out = L;
    fn slot(self, _: usize) -> Slot {
        Slot::Point(self)
    }
}

impl<D, L> Component<D, L> for Tile<i32, ()> {
    type Out = L;
    fn slot(self, _: usize) -> Slot {
        Slot::Point(self.value())
    }
}

impl<D, L: Insert<P>, P: AxisKey> Component<D, L> for Tile<i32, (P,)> {
    type Out = <L as Insert<P>>::Out;
    fn slot(self, _: usize) -> Slot {
        let ([origin, ..], _, coords) = self.coordinates();
        Slot::Map { id: P::Ordinal::INDEX, origin, coords }
    }
}

impl<D, L: Insert<P>, P: AxisKey, Q: AxisKey> Component<D, L> for Tile<i32, (P, Q)>
where
    <L as Insert<P>>::Out: Insert<Q>,
{
    type Out = <<L as Insert<P>>::Out as Insert<Q>>::Out;
    fn slot(self, _: usize) -> Slot {
        let ([outer, inner, _], [rows, columns, _], coords) = self.coordinates();
        let ids = [P::Ordinal::INDEX, Q::Ordinal::INDEX];
        Slot::Plane { ids, origins: [outer, inner], sizes: [rows, columns], coords }
    }
}

impl<D: Dim, L: Insert<Whole<D>>> Component<D, L> for RangeFull {
    type Out = <L as Insert<Whole<D>>>::Out;
    fn slot(self, size: usize) -> Slot {
        Slot::Span { id: N15::INDEX, start: 0, len: size }
    }
}

/// An index into a tensor of shape `S`.
#[diagnostic::on_unimplemented(
    message = "this does not index a tensor of shape `{S}`",
    label = "not an index for this tensor",
    note = "an index has one component for each axis of the tensor"
)]
pub trait Index<S> {
    /// The axes of the tile that the index reads or writes.
    type Axes;
    fn slots(self, sizes: &[usize]) -> Vec<Slot>;
}

macro_rules! index {
    ($($d:ident $x:ident $i:tt $before:ty),*; $out:ty) => {
        impl<$($d,)* $($x,)*> Index<($($d,)*)> for ($($x,)*)
        where
            $($x: Component<$d, $before>,)*
        {
            type Axes = $out;
            fn slots(self, sizes: &[usize]) -> Vec<Slot> {
                vec![$(self.$i.slot(sizes[$i])),*]
            }
        }
    };
}

type Then<X, D, L> = <X as Component<D, L>>::Out;
type L1<D0, X0> = Then<X0, D0, ()>;
type L2<D0, X0, D1, X1> = Then<X1, D1, L1<D0, X0>>;
type L3<D0, X0, D1, X1, D2, X2> = Then<X2, D2, L2<D0, X0, D1, X1>>;
type L4<D0, X0, D1, X1, D2, X2, D3, X3> = Then<X3, D3, L3<D0, X0, D1, X1, D2, X2>>;
type L5<D0, X0, D1, X1, D2, X2, D3, X3, D4, X4> = Then<X4, D4, L4<D0, X0, D1, X1, D2, X2, D3, X3>>;
type L6<D0, X0, D1, X1, D2, X2, D3, X3, D4, X4, D5, X5> = Then<X5, D5, L5<D0, X0, D1, X1, D2, X2, D3, X3, D4, X4>>;

index!(D0 X0 0 (); L1<D0, X0>);
index!(D0 X0 0 (), D1 X1 1 L1<D0, X0>; L2<D0, X0, D1, X1>);
index!(D0 X0 0 (), D1 X1 1 L1<D0, X0>, D2 X2 2 L2<D0, X0, D1, X1>; L3<D0, X0, D1, X1, D2, X2>);
index!(D0 X0 0 (), D1 X1 1 L1<D0, X0>, D2 X2 2 L2<D0, X0, D1, X1>, D3 X3 3 L3<D0, X0, D1, X1, D2, X2>;
    L4<D0, X0, D1, X1, D2, X2, D3, X3>);
index!(D0 X0 0 (), D1 X1 1 L1<D0, X0>, D2 X2 2 L2<D0, X0, D1, X1>, D3 X3 3 L3<D0, X0, D1, X1, D2, X2>,
    D4 X4 4 L4<D0, X0, D1, X1, D2, X2, D3, X3>; L5<D0, X0, D1, X1, D2, X2, D3, X3, D4, X4>);
index!(D0 X0 0 (), D1 X1 1 L1<D0, X0>, D2 X2 2 L2<D0, X0, D1, X1>, D3 X3 3 L3<D0, X0, D1, X1, D2, X2>,
    D4 X4 4 L4<D0, X0, D1, X1, D2, X2, D3, X3>, D5 X5 5 L5<D0, X0, D1, X1, D2, X2, D3, X3, D4, X4>;
    L6<D0, X0, D1, X1, D2, X2, D3, X3, D4, X4, D5, X5>);

macro_rules! bare {
    ($([$($generics:tt)*] $component:ty;)*) => {$(
        impl<D, $($generics)*> Index<(D,)> for $component
        where
            $component: Component<D, ()>,
        {
            type Axes = <$component as Component<D, ()>>::Out;
            fn slots(self, sizes: &[usize]) -> Vec<Slot> {
                vec![self.slot(sizes[0])]
            }
        }
    )*};
}
bare! {
    [A, E] Ix<A, E>;
    [A, E, F] Coord<A, E, F>;
    [] i32;
    [] Tile<i32, ()>;
    [P] Tile<i32, (P,)>;
    [P, Q] Tile<i32, (P, Q)>;
    [] RangeFull;
}
