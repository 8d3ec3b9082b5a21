//! Arithmetic that integers and floats share.

use super::value::Value;

/// A type that tiles are computed in: `i32`, `f32`, or the oracle's model of `f32`. Integers wrap; a division by zero gives 0.
pub trait Ring: Value<Acc = Self> + PartialOrd {
    /// Nothing is larger.
    const HIGHEST: Self;
    /// Nothing is smaller: a maximum over nothing.
    const LOWEST: Self;

    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn modulo(self, other: Self) -> Self;
    fn negative(self) -> Self;
    fn magnitude(self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;

    #[inline(always)]
    fn sum(row: &[Self]) -> Self {
        fold(row, Self::ZERO, Self::plus)
    }
}

const LANES: usize = 16;

/// A reduction in independent lanes, so that it vectorises.
#[inline(always)]
pub fn fold<A: Copy>(row: &[A], identity: A, f: impl Fn(A, A) -> A) -> A {
    let mut lanes = [identity; LANES];
    let mut chunks = row.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, x);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = f(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    chunks.remainder().iter().fold(lanes[0], |total, &x| f(total, x))
}
