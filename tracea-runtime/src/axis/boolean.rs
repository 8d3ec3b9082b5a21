//! Booleans as types, so that "is this axis already there" is decided by rustc.

/// [`True`] or [`False`].
pub trait Bool {
    type Not: Bool;
    type And<B: Bool>: Bool;
    type Or<B: Bool>: Bool;
    type Same<B: Bool>: Bool;
    type If<T, F>;
    const VALUE: bool;
}

#[derive(Clone, Copy, Debug)]
pub enum True {}

#[derive(Clone, Copy, Debug)]
pub enum False {}

impl Bool for True {
    type Not = False;
    type And<B: Bool> = B;
    type Or<B: Bool> = True;
    type Same<B: Bool> = B;
    type If<T, F> = T;
    const VALUE: bool = true;
}

impl Bool for False {
    type Not = True;
    type And<B: Bool> = False;
    type Or<B: Bool> = B;
    type Same<B: Bool> = B::Not;
    type If<T, F> = F;
    const VALUE: bool = false;
}
