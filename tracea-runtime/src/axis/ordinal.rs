//! Numbers as types: each loop variable of a kernel gets its own, and two axes are the same axis when their numbers are.
//!
//! Four bits, most significant first, make equality a handful of implementations instead of a table of 256.

use std::marker::PhantomData;

use super::boolean::{Bool, False, True};

/// Four [`Bool`]s read as a binary number.
pub struct Binary<A, B, C, D>(PhantomData<(A, B, C, D)>);

/// A number below 16 as a type.
pub trait Ordinal {
    type Bit3: Bool;
    type Bit2: Bool;
    type Bit1: Bool;
    type Bit0: Bool;
    type Same<O: Ordinal>: Bool;
    /// Whether this number is the smaller one.
    type Before<O: Ordinal>: Bool;
    const INDEX: u8;
}

type And<A, B> = <A as Bool>::And<B>;
type Or<A, B> = <A as Bool>::Or<B>;
type Xnor<A, B> = <A as Bool>::Same<B>;
/// Whether the bit `A` is smaller than `B`, or equal to it where what follows decides for `Rest`.
type Less<A, B, Rest> = Or<And<<A as Bool>::Not, B>, And<Xnor<A, B>, Rest>>;

impl<A: Bool, B: Bool, C: Bool, D: Bool> Ordinal for Binary<A, B, C, D> {
    type Bit3 = A;
    type Bit2 = B;
    type Bit1 = C;
    type Bit0 = D;
    type Same<O: Ordinal> = And<And<And<Xnor<A, O::Bit3>, Xnor<B, O::Bit2>>, Xnor<C, O::Bit1>>, Xnor<D, O::Bit0>>;
    type Before<O: Ordinal> = Less<A, O::Bit3, Less<B, O::Bit2, Less<C, O::Bit1, Less<D, O::Bit0, False>>>>;
    const INDEX: u8 = (A::VALUE as u8) << 3 | (B::VALUE as u8) << 2 | (C::VALUE as u8) << 1 | D::VALUE as u8;
}

pub type N0 = Binary<False, False, False, False>;
pub type N1 = Binary<False, False, False, True>;
pub type N2 = Binary<False, False, True, False>;
pub type N3 = Binary<False, False, True, True>;
pub type N4 = Binary<False, True, False, False>;
pub type N5 = Binary<False, True, False, True>;
pub type N6 = Binary<False, True, True, False>;
pub type N7 = Binary<False, True, True, True>;
pub type N8 = Binary<True, False, False, False>;
pub type N9 = Binary<True, False, False, True>;
pub type N10 = Binary<True, False, True, False>;
pub type N11 = Binary<True, False, True, True>;
pub type N12 = Binary<True, True, False, False>;
pub type N13 = Binary<True, True, False, True>;
pub type N14 = Binary<True, True, True, False>;
/// Kept for `..`.
pub type N15 = Binary<True, True, True, True>;

#[cfg(test)]
mod tests {
    use super::*;

    fn same<A: Ordinal, B: Ordinal>() -> bool {
        <A::Same<B> as Bool>::VALUE
    }

    #[test]
    fn equal_only_to_itself() {
        assert!(same::<N0, N0>() && same::<N10, N10>() && same::<N15, N15>());
        assert!(!same::<N0, N1>() && !same::<N5, N4>() && !same::<N7, N15>());
        assert_eq!((N0::INDEX, N5::INDEX, N10::INDEX, N15::INDEX), (0, 5, 10, 15));
    }

    fn before<A: Ordinal, B: Ordinal>() -> bool {
        <A::Before<B> as Bool>::VALUE
    }

    #[test]
    fn ordered_as_numbers_are() {
        assert!(before::<N0, N1>() && before::<N3, N4>() && before::<N7, N8>() && before::<N14, N15>());
        assert!(!before::<N1, N0>() && !before::<N4, N3>() && !before::<N8, N7>() && !before::<N5, N5>());
    }
}
