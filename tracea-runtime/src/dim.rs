//! Dimensions as types: known at compile time or at launch, and shapes as tuples of them.

use std::fmt::Debug;

/// A dimension of a tensor.
pub trait Dim: Copy + Debug + Send + Sync + 'static {
    /// The size that the type fixes.
    const KNOWN: Option<usize>;
}

/// A size known at launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dyn;

/// A size known to the type checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Const<const N: usize>;

impl Dim for Dyn {
    const KNOWN: Option<usize> = None;
}

impl<const N: usize> Dim for Const<N> {
    const KNOWN: Option<usize> = Some(N);
}

/// A tensor's shape: a tuple of [`Dim`]s, outermost first.
pub trait Shape: Copy + Debug + Send + Sync + 'static {
    const RANK: usize;
    const KNOWN: &'static [Option<usize>];
}

/// Sizes as a person writes them: `(m, k)`, `(rows, Const::<64>)`.
pub trait IntoShape {
    type Shape: Shape;
    fn sizes(&self) -> Vec<usize>;
}

/// One size in a tuple of sizes.
pub trait IntoDim {
    type Dim: Dim;
    fn size(&self) -> usize;
}

impl IntoDim for usize {
    type Dim = Dyn;
    fn size(&self) -> usize {
        *self
    }
}

impl<const N: usize> IntoDim for Const<N> {
    type Dim = Const<N>;
    fn size(&self) -> usize {
        N
    }
}

macro_rules! shapes {
    ($($rank:literal: $($dim:ident $index:tt),*;)*) => {$(
        impl<$($dim: Dim),*> Shape for ($($dim,)*) {
            const RANK: usize = $rank;
            const KNOWN: &'static [Option<usize>] = &[$($dim::KNOWN),*];
        }
        impl<$($dim: IntoDim),*> IntoShape for ($($dim,)*) {
            type Shape = ($($dim::Dim,)*);
            fn sizes(&self) -> Vec<usize> {
                vec![$(self.$index.size()),*]
            }
        }
    )*};
}

shapes! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
}
