//! Reductions as methods.

use super::Tile;
use super::reduce::{Reduction, reduce};
use crate::axis::ordinal::Ordinal;
use crate::axis::{ReducedAxis, Remove};
use crate::element::Number;

impl<T: Number, L> Tile<T, L> {
    fn over<X: ReducedAxis>(self, reduction: Reduction) -> Tile<T, <L as Remove<X::Ordinal>>::Out>
    where
        L: Remove<X::Ordinal>,
    {
        match self.raw.form.position(X::Ordinal::INDEX) {
            Some(axis) => Tile::new(reduce(self.raw, axis, reduction)),
            None => unreachable!("the type lists the axis"),
        }
    }

    /// The sum over an axis: a loop variable or `..`.
    pub fn sum<X: ReducedAxis>(self, _: X) -> Tile<T, <L as Remove<X::Ordinal>>::Out>
    where
        L: Remove<X::Ordinal>,
    {
        self.over::<X>(Reduction::Sum)
    }

    /// The largest element along an axis; minus infinity over nothing.
    pub fn max_over<X: ReducedAxis>(self, _: X) -> Tile<T, <L as Remove<X::Ordinal>>::Out>
    where
        L: Remove<X::Ordinal>,
    {
        self.over::<X>(Reduction::Max)
    }

    /// The smallest element along an axis; infinity over nothing.
    pub fn min_over<X: ReducedAxis>(self, _: X) -> Tile<T, <L as Remove<X::Ordinal>>::Out>
    where
        L: Remove<X::Ordinal>,
    {
        self.over::<X>(Reduction::Min)
    }
}

macro_rules! short_forms {
    ($([$($axis:ident),*] row $last:literal $rows:ty, col $cols:ty;)*) => {$(
        impl<T: Number, $($axis),*> Tile<T, ($($axis,)*)> {
            /// The sum over the last axis.
            pub fn row_sum(self) -> Tile<T, $rows> {
                Tile::new(reduce(self.raw, $last, Reduction::Sum))
            }
            /// The largest element along the last axis.
            pub fn row_max(self) -> Tile<T, $rows> {
                Tile::new(reduce(self.raw, $last, Reduction::Max))
            }
            /// The smallest element along the last axis.
            pub fn row_min(self) -> Tile<T, $rows> {
                Tile::new(reduce(self.raw, $last, Reduction::Min))
            }
            /// The sum over the first axis.
            pub fn col_sum(self) -> Tile<T, $cols> {
                Tile::new(reduce(self.raw, 0, Reduction::Sum))
            }
            /// The largest element along the first axis.
            pub fn col_max(self) -> Tile<T, $cols> {
                Tile::new(reduce(self.raw, 0, Reduction::Max))
            }
            /// The smallest element along the first axis.
            pub fn col_min(self) -> Tile<T, $cols> {
                Tile::new(reduce(self.raw, 0, Reduction::Min))
            }
        }
    )*};
}
short_forms! {
    [P] row 0 (), col ();
    [P, Q] row 1 (P,), col (Q,);
    [P, Q, R] row 2 (P, Q), col (Q, R);
}
