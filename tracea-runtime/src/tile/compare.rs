//! Comparisons, and choices by them.

use super::Tile;
use super::elements::{self, binary};
use crate::axis::Union;
use crate::element::{Number, Value};

macro_rules! comparisons {
    ($($name:ident $op:tt;)*) => {
        impl<T: Number, L> Tile<T, L> {$(
            #[doc = concat!("Where `self ", stringify!($op), " other`.")]
            pub fn $name<R>(self, other: Tile<T, R>) -> Tile<bool, <L as Union<R>>::Out>
            where
                L: Union<R>,
            {
                Tile::new(binary::<T, T, bool>(self.raw, other.raw, |a, b| a $op b))
            }
        )*}
    };
}
comparisons! {
    lt <;
    le <=;
    gt >;
    ge >=;
    eq ==;
    ne !=;
}

type Joined<C, A, B> = <<C as Union<A>>::Out as Union<B>>::Out;

impl<C> Tile<bool, C> {
    pub fn and<R>(self, other: Tile<bool, R>) -> Tile<bool, <C as Union<R>>::Out>
    where
        C: Union<R>,
    {
        self & other
    }

    pub fn or<R>(self, other: Tile<bool, R>) -> Tile<bool, <C as Union<R>>::Out>
    where
        C: Union<R>,
    {
        self | other
    }

    #[allow(clippy::should_implement_trait)]
    pub fn not(self) -> Tile<bool, C> {
        !self
    }

    /// `a` where this holds, `b` elsewhere.
    pub fn select<T: Value, A, B>(self, a: Tile<T, A>, b: Tile<T, B>) -> Tile<T, Joined<C, A, B>>
    where
        C: Union<A>,
        <C as Union<A>>::Out: Union<B>,
    {
        Tile::new(elements::select(self.raw, a.raw, b.raw))
    }
}

/// `a` where the condition holds, `b` elsewhere.
pub fn select<T: Value, C, A, B>(condition: Tile<bool, C>, a: Tile<T, A>, b: Tile<T, B>) -> Tile<T, Joined<C, A, B>>
where
    C: Union<A>,
    <C as Union<A>>::Out: Union<B>,
{
    condition.select(a, b)
}
