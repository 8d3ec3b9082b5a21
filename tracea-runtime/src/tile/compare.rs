//! Comparisons, and choices by them.

use super::Tile;
use super::create::Operand;
use super::elements::{self, binary};
use crate::axis::Union;
use crate::element::{Number, Value};

macro_rules! comparisons {
    ($($name:ident $op:tt;)*) => {
        impl<T: Number, L> Tile<T, L> {$(
            #[doc = concat!("Where `self ", stringify!($op), " other`.")]
            pub fn $name<R: Operand<T>>(self, other: R) -> Tile<bool, <L as Union<R::Axes>>::Out>
            where
                L: Union<R::Axes>,
            {
                Tile::new(binary::<T, T, bool>(self.raw, other.operand().raw, |a, b| a $op b))
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

type Chosen<C, A> = <C as Union<A>>::Out;
type Joined<C, A, B> = <Chosen<C, A> as Union<B>>::Out;

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
    pub fn select<T: Value, A: Operand<T>, B: Operand<T>>(self, a: A, b: B) -> Tile<T, Joined<C, A::Axes, B::Axes>>
    where
        C: Union<A::Axes>,
        Chosen<C, A::Axes>: Union<B::Axes>,
    {
        Tile::new(elements::select(self.raw, a.operand().raw, b.operand().raw))
    }
}

/// `a` where the condition holds, `b` elsewhere.
pub fn select<T: Value, C, A: Operand<T>, B: Operand<T>>(
    condition: Tile<bool, C>,
    a: A,
    b: B,
) -> Tile<T, Joined<C, A::Axes, B::Axes>>
where
    C: Union<A::Axes>,
    Chosen<C, A::Axes>: Union<B::Axes>,
{
    condition.select(a, b)
}
