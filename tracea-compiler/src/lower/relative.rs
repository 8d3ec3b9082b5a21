//! Sums that are relative to a running extreme: their terms, and what came before, are multiples of the exponential of a difference to it.
//!
//! ```text
//! m' = max(m, row_max(s))
//! l = l * exp(m - m') + row_sum(exp(s - m'))
//! ```
//! What is relative to one extreme becomes relative to another one, where it is multiplied by the exponential of their difference.

use super::{Lowering, invariance, rejoined};
use crate::nest::{BinaryOp, Carried, CompareOp, Loop, Nest, Op, UnaryOp, ValueId};
use crate::program::{Expr, Rejoin, Scalar, VarId};
use crate::schedule::ScheduleError;

/// `exp(from - to)`, or of the difference scaled by what no step changes.
pub struct Exponential {
    function: UnaryOp,
    pub from: ValueId,
    pub to: ValueId,
    pub scale: Option<ValueId>,
    /// The difference, scaled, and the exponential itself.
    pub places: [ValueId; 3],
}

impl Exponential {
    pub fn of(nest: &Nest, id: ValueId) -> Option<Exponential> {
        let op = |id: ValueId| &nest.value(id).op;
        let Op::Unary(function @ (UnaryOp::Exp | UnaryOp::Exp2), scaled) = *op(id) else { return None };
        let never_changes = |id: &ValueId| matches!(op(*id), Op::Fill(_) | Op::Scalar(_));
        let (difference, scale) = match *op(scaled) {
            Op::Binary(BinaryOp::Mul, a, b) if never_changes(&b) => (a, Some(b)),
            Op::Binary(BinaryOp::Mul, a, b) if never_changes(&a) => (b, Some(a)),
            _ => (scaled, None),
        };
        let Op::Binary(BinaryOp::Sub, from, to) = *op(difference) else { return None };
        Some(Exponential { function, from, to, scale, places: [difference, scaled, id] })
    }

    pub fn is_of_two(&self) -> bool {
        self.function == UnaryOp::Exp2
    }

    /// Whether both are the same function of a difference.
    pub fn is_like(&self, nest: &Nest, other: &Exponential) -> bool {
        let scale = |exponential: &Exponential| exponential.scale.map(|scale| &nest.value(scale).op);
        self.function == other.function && scale(self) == scale(other)
    }
}

impl Lowering<'_> {
    /// Notes which of a loop's extremes nobody can tell from other numbers that its sums might be relative to.
    pub fn find_hidden(&mut self, outer: &Loop, innermost: &Loop) {
        for way in rejoined::find(self.nest, outer, innermost).unwrap_or_default() {
            let Rejoin::Relative { extreme, .. } = way else { continue };
            if invariance::holds(self.nest, outer, innermost, extreme) {
                self.hidden.insert(outer.carried[extreme].result);
            }
        }
    }

    /// Notes which of a loop's extremes a part of it may find nothing for where there is something elsewhere.
    pub fn bound_extremes(&mut self, outer: &Loop, innermost: &Loop) {
        let Some(split) = self.program.split.as_ref().filter(|split| split.axis == outer.axis) else { return };
        for way in split.ways.clone() {
            let Rejoin::Relative { extreme, .. } = way else { continue };
            if self.finite_start(outer, &outer.carried[extreme]).is_none() {
                self.bounded.insert(innermost.carried[extreme].next);
            }
        }
    }

    /// Where an extreme of a part of a loop may begin instead of with infinity, so that differences to it are none of infinities: where
    /// nobody can tell from what sums relative to it have become.
    pub fn finite_start(&self, outer: &Loop, carried: &Carried) -> Option<f64> {
        let split = self.program.split.as_ref().filter(|split| split.axis == outer.axis)?;
        let at = outer.carried.iter().position(|other| other == carried)?;
        let relative = split.ways.iter().any(|way| matches!(way, Rejoin::Relative { extreme, .. } if *extreme == at));
        let Op::Fill(first) = self.nest.value(carried.init).op else { return None };
        let inside = relative && first.is_infinite() && self.hidden.contains(&carried.result);
        inside.then(|| if first < 0.0 { f64::from(f32::MIN) } else { f64::from(f32::MAX) })
    }

    /// Of an extreme that may still be infinite: a number in its place, so that differences to it are none of infinities.
    pub fn note_extreme(&mut self, id: ValueId) -> Result<(), ScheduleError> {
        let is_extreme = self.is_own_extreme(id) || self.bounded.contains(&id);
        let Op::Binary(op @ (BinaryOp::Max | BinaryOp::Min), ..) = self.nest.value(id).op else { return Ok(()) };
        if !is_extreme || self.is_above_neg_infinity(id) {
            return Ok(());
        }
        let var = self.materialize(id)?;
        let name = format!("{}_finite", self.program.var(var).name);
        let finite = self.declare(&name, Scalar::Float, self.program.var(var).domain);
        let least = if op == BinaryOp::Min { f64::from(f32::MAX) } else { f64::from(f32::MIN) };
        self.map(finite, Expr::Binary(op, Box::new(Expr::Var(var)), Box::new(Expr::Number(least))));
        self.finite.insert(id, finite);
        Ok(())
    }

    /// By what a sum is multiplied that is relative to one extreme, so that it is relative to the other one.
    pub fn weight(&self, fade: ValueId, from: VarId, to: VarId) -> Expr {
        // The difference of two infinities is none.
        let same = Expr::Compare(CompareOp::Eq, Box::new(Expr::Var(from)), Box::new(Expr::Var(to)));
        Expr::Select(Box::new(same), Box::new(Expr::Number(1.0)), Box::new(self.faded(fade, from, to)))
    }

    /// What a fade is from one extreme to another.
    fn faded(&self, fade: ValueId, from: VarId, to: VarId) -> Expr {
        match &self.nest.value(fade).op {
            Op::Unary(op, inner) => Expr::Unary(*op, Box::new(self.faded(*inner, from, to))),
            Op::Binary(BinaryOp::Mul, a, b) => {
                Expr::Binary(BinaryOp::Mul, Box::new(self.faded(*a, from, to)), Box::new(self.faded(*b, from, to)))
            }
            Op::Fill(number) => Expr::Number(*number),
            Op::Scalar(scalar) => Expr::Param(scalar.index()),
            _ => Expr::Binary(BinaryOp::Sub, Box::new(Expr::Var(from)), Box::new(Expr::Var(to))),
        }
    }
}
