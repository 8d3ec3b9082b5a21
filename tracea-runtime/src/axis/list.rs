//! Lists of axes: which axes a tile spans, and what operations make of them.
//!
//! A list is a tuple of up to three [`AxisKey`]s. Everything here is computed by rustc on the user's own tokens; at run time
//! [`Form`](crate::tile::Form) does the same with numbers.

use std::marker::PhantomData;

use super::boolean::{Bool, True};
use super::ordinal::{N15, Ordinal};

/// A loop variable: an uninhabited type in the kernel, named as the user named it.
pub trait AxisName: 'static {
    type Ordinal: Ordinal;
    const NAME: &'static str;
}

/// The loop variable `A` over the dimension `D`.
pub struct Axis<A, D>(PhantomData<fn() -> (A, D)>);

/// `..`: the whole of a dimension.
pub struct Whole<D>(PhantomData<fn() -> D>);

/// One entry of a tile's list of axes.
pub trait AxisKey {
    type Ordinal: Ordinal;
}

impl<A: AxisName, D> AxisKey for Axis<A, D> {
    type Ordinal = A::Ordinal;
}

impl<D> AxisKey for Whole<D> {
    type Ordinal = N15;
}

/// Two entries that may stand in one expression: any two, but `..` only with `..` over the same dimension.
#[diagnostic::on_unimplemented(
    message = "`..` stands for two dimensions here: `{Self}` and `{X}`",
    label = "these may differ in size"
)]
pub trait Agrees<X> {}
impl<A, D, B, E> Agrees<Axis<B, E>> for Axis<A, D> {}
impl<A, D, E> Agrees<Whole<E>> for Axis<A, D> {}
impl<D, B, E> Agrees<Axis<B, E>> for Whole<D> {}
impl<D> Agrees<Whole<D>> for Whole<D> {}

type Same<P, Q> = <<P as AxisKey>::Ordinal as Ordinal>::Same<<Q as AxisKey>::Ordinal>;
type Before<P, Q> = <<P as AxisKey>::Ordinal as Ordinal>::Before<<Q as AxisKey>::Ordinal>;
type Or<A, B> = <A as Bool>::Or<B>;
type And<A, B> = <A as Bool>::And<B>;
type If<C, T, F> = <C as Bool>::If<T, F>;

/// What a fourth axis makes of a tile: no operation accepts it.
#[derive(Clone, Copy, Debug)]
pub enum TooManyAxes {}

/// The list with `X` at its end, unless it is there already.
#[diagnostic::on_unimplemented(message = "a tile spans at most three axes")]
pub trait Insert<X> {
    type Out;
}

impl<X> Insert<X> for () {
    type Out = (X,);
}
impl<P: AxisKey, X: AxisKey> Insert<X> for (P,) {
    type Out = If<Same<P, X>, (P,), (P, X)>;
}
impl<P: AxisKey, Q: AxisKey, X: AxisKey> Insert<X> for (P, Q) {
    type Out = If<Or<Same<P, X>, Same<Q, X>>, (P, Q), (P, Q, X)>;
}
impl<P: AxisKey, Q: AxisKey, R: AxisKey, X: AxisKey> Insert<X> for (P, Q, R) {
    type Out = If<Or<Or<Same<P, X>, Same<Q, X>>, Same<R, X>>, (P, Q, R), TooManyAxes>;
}
impl<X> Insert<X> for TooManyAxes {
    type Out = TooManyAxes;
}

/// Whether a list has the axis `X`.
pub trait Has<X> {
    type Is: Bool;
}

impl<X> Has<X> for () {
    type Is = super::boolean::False;
}
impl<P: AxisKey + Agrees<X>, X: AxisKey> Has<X> for (P,) {
    type Is = Same<P, X>;
}
impl<P: AxisKey + Agrees<X>, Q: AxisKey + Agrees<X>, X: AxisKey> Has<X> for (P, Q) {
    type Is = Or<Same<P, X>, Same<Q, X>>;
}
impl<P: AxisKey + Agrees<X>, Q: AxisKey + Agrees<X>, R: AxisKey + Agrees<X>, X: AxisKey> Has<X> for (P, Q, R) {
    type Is = Or<Or<Same<P, X>, Same<Q, X>>, Same<R, X>>;
}

/// Whether a list has every axis of `L`.
pub trait Covers<L> {
    type Is: Bool;
}

impl<S> Covers<()> for S {
    type Is = True;
}
impl<S: Has<P>, P> Covers<(P,)> for S {
    type Is = <S as Has<P>>::Is;
}
impl<S: Has<P> + Has<Q>, P, Q> Covers<(P, Q)> for S {
    type Is = And<<S as Has<P>>::Is, <S as Has<Q>>::Is>;
}
impl<S: Has<P> + Has<Q> + Has<R>, P, Q, R> Covers<(P, Q, R)> for S {
    type Is = And<And<<S as Has<P>>::Is, <S as Has<Q>>::Is>, <S as Has<R>>::Is>;
}

/// The list with `X` put to it by an operator: two lists of one axis meet in the order in which their loops are declared, so that
/// the result meets other tiles of these loops, whichever operand came first.
pub trait Meet<X> {
    type Out;
}

impl<X> Meet<X> for () {
    type Out = (X,);
}
impl<P: AxisKey, X: AxisKey> Meet<X> for (P,) {
    type Out = If<Same<P, X>, (P,), If<Before<X, P>, (X, P), (P, X)>>;
}
impl<P: AxisKey, Q: AxisKey, X: AxisKey> Meet<X> for (P, Q) {
    type Out = <Self as Insert<X>>::Out;
}
impl<P: AxisKey, Q: AxisKey, R: AxisKey, X: AxisKey> Meet<X> for (P, Q, R) {
    type Out = <Self as Insert<X>>::Out;
}
impl<X> Meet<X> for TooManyAxes {
    type Out = TooManyAxes;
}

/// The axes of an operator's result: those of the right operand where they cover the left one's, otherwise the left
/// operand's and then the right one's others, as they [meet](Meet).
pub trait Union<R> {
    type Out;
}

impl<L> Union<()> for L {
    type Out = L;
}
impl<L, X> Union<(X,)> for L
where
    L: Meet<X>,
    (X,): Covers<L>,
{
    type Out = If<<(X,) as Covers<L>>::Is, (X,), <L as Meet<X>>::Out>;
}
impl<L, X, Y> Union<(X, Y)> for L
where
    L: Insert<X>,
    <L as Insert<X>>::Out: Insert<Y>,
    (X, Y): Covers<L>,
{
    type Out = If<<(X, Y) as Covers<L>>::Is, (X, Y), <<L as Insert<X>>::Out as Insert<Y>>::Out>;
}
impl<L, X, Y, Z> Union<(X, Y, Z)> for L
where
    L: Insert<X>,
    <L as Insert<X>>::Out: Insert<Y>,
    <<L as Insert<X>>::Out as Insert<Y>>::Out: Insert<Z>,
    (X, Y, Z): Covers<L>,
{
    type Out =
        If<<(X, Y, Z) as Covers<L>>::Is, (X, Y, Z), <<<L as Insert<X>>::Out as Insert<Y>>::Out as Insert<Z>>::Out>;
}

/// A verdict that must be [`True`] for [`Within`].
#[diagnostic::on_unimplemented(
    message = "the value spans an axis that its target does not name",
    label = "an axis is missing here",
    note = "name every axis of the value in the index, or reduce the value over the axis first"
)]
pub trait Named {}
impl Named for True {}

/// A verdict that must be [`True`] for [`Remove`].
#[diagnostic::on_unimplemented(
    message = "the tile does not span the axis that it is reduced over",
    label = "not an axis of the tile"
)]
pub trait Spanned {}
impl Spanned for True {}

/// Every axis of the list is one of `R`'s.
pub trait Within<R> {}
impl<L, R: Covers<L>> Within<R> for L where <R as Covers<L>>::Is: Named {}

/// The list without the axis of that number.
pub trait Remove<S> {
    type Out;
}

type Is<P, S> = <<P as AxisKey>::Ordinal as Ordinal>::Same<S>;

impl<P: AxisKey, S: Ordinal> Remove<S> for (P,)
where
    Is<P, S>: Spanned,
{
    type Out = ();
}
impl<P: AxisKey, Q: AxisKey, S: Ordinal> Remove<S> for (P, Q)
where
    Or<Is<P, S>, Is<Q, S>>: Spanned,
{
    type Out = If<Is<P, S>, (Q,), (P,)>;
}
impl<P: AxisKey, Q: AxisKey, R: AxisKey, S: Ordinal> Remove<S> for (P, Q, R)
where
    Or<Or<Is<P, S>, Is<Q, S>>, Is<R, S>>: Spanned,
{
    type Out = If<Is<P, S>, (Q, R), If<Is<Q, S>, (P, R), (P, Q)>>;
}
