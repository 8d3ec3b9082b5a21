//! Axes as an argument: `zeros((i, ..))`, `x.sum(j)`.

use std::ops::RangeFull;

use super::index::Ix;
use super::list::{Axis, AxisName, Whole};
use super::ordinal::{N15, Ordinal};
use crate::dim::{Const, Dim};
use crate::tile::Form;

/// A dimension whose size its type tells.
#[diagnostic::on_unimplemented(
    message = "`..` makes a tile only of a dimension that is known at compile time",
    label = "the size of `{Self}` is known at launch -- loop over it with tile!"
)]
pub trait KnownDim: Dim {
    const SIZE: usize;
}

impl<const N: usize> KnownDim for Const<N> {
    const SIZE: usize = N;
}

/// One axis as an argument, which becomes the entry `K` of a tile's list.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an axis", label = "expected a loop variable or `..`")]
pub trait OneAxis<K> {
    fn push(self, form: &mut Form);
}

impl<A: AxisName, D> OneAxis<Axis<A, D>> for Ix<A, D> {
    fn push(self, form: &mut Form) {
        form.push(A::Ordinal::INDEX, self.len(), self.start());
    }
}

impl<D: KnownDim> OneAxis<Whole<D>> for RangeFull {
    fn push(self, form: &mut Form) {
        form.push(N15::INDEX, D::SIZE, 0);
    }
}

/// Axes as an argument: one, a tuple of up to three, or `()`; `L` is the list of the tile that they make.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of axes",
    label = "expected a loop variable, `..`, or up to three of them in a tuple"
)]
pub trait Axes<L> {
    fn form(self) -> Form;
}

impl Axes<()> for () {
    fn form(self) -> Form {
        Form::default()
    }
}

impl<A, D, K> Axes<(K,)> for Ix<A, D>
where
    Ix<A, D>: OneAxis<K>,
{
    fn form(self) -> Form {
        (self,).form()
    }
}

impl<K> Axes<(K,)> for RangeFull
where
    RangeFull: OneAxis<K>,
{
    fn form(self) -> Form {
        (self,).form()
    }
}

macro_rules! axes {
    ($($x:ident $k:ident $i:tt),*) => {
        impl<$($x: OneAxis<$k>, $k),*> Axes<($($k,)*)> for ($($x,)*) {
            fn form(self) -> Form {
                let mut form = Form::default();
                $(self.$i.push(&mut form);)*
                form
            }
        }
    };
}
axes!(X P 0);
axes!(X P 0, Y Q 1);
axes!(X P 0, Y Q 1, Z R 2);

/// The axis that a reduction removes.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an axis", label = "expected a loop variable or `..`")]
pub trait ReducedAxis {
    type Ordinal: Ordinal;
}

impl<A: AxisName, D> ReducedAxis for Ix<A, D> {
    type Ordinal = A::Ordinal;
}

impl ReducedAxis for RangeFull {
    type Ordinal = N15;
}
