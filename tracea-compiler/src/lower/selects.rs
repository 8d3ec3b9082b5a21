//! Selects by position: a block on which an affine predicate holds everywhere skips its mask.

use super::Lowering;
use super::analysis::{axes_in, is_tiled, untransposed};
use super::values::scalar_of;
use crate::nest::{CompareOp, Int, IntOp, Op, Predicate, ValueId};
use crate::program::{Domain, Expr, Stmt};
use crate::schedule::ScheduleError;

impl Lowering<'_> {
    /// A select by position: blocks on which the predicate holds everywhere skip it.
    pub fn split_select(
        &mut self,
        id: ValueId,
        condition: ValueId,
        yes: ValueId,
        no: ValueId,
    ) -> Result<bool, ScheduleError> {
        let Op::Predicate(predicate) = &self.nest.value(untransposed(self.nest, condition)).op else {
            return Ok(false);
        };
        let Some(everywhere) = self.holds_everywhere(predicate) else { return Ok(false) };
        if self.domain(yes) != self.domain(id) || !self.is_free(no) || matches!(self.domain(id), Domain::Once) {
            return Ok(false);
        }
        let domain = self.domain(id);
        let reusable = self.given_up(yes).filter(|_| self.home.get(&yes) == self.home.get(&id));
        let target = match reusable {
            Some(var) => var,
            None => {
                let value = self.expr(yes, domain)?;
                let named = if self.nest.value(id).name.is_some() { id } else { yes };
                let target = self.declare(&self.name(named), scalar_of(self.nest.value(id).ty.dtype), domain);
                self.map(target, value);
                target
            }
        };
        let otherwise = self.expr(no, domain)?;
        let value = Expr::Select(
            Box::new(Expr::Predicate(predicate.clone())),
            Box::new(Expr::Var(target)),
            Box::new(otherwise),
        );
        self.out.push(Stmt::Map { target, value, unless_all: Some(everywhere) });
        self.vars.insert(id, target);
        Ok(true)
    }

    /// A condition on block bounds under which the predicate holds for every element.
    fn holds_everywhere(&self, predicate: &Predicate) -> Option<Predicate> {
        match predicate {
            Predicate::Const(_) => None,
            Predicate::And(a, b) => {
                Some(Predicate::And(Box::new(self.holds_everywhere(a)?), Box::new(self.holds_everywhere(b)?)))
            }
            Predicate::Compare(op, a, b) => {
                let ((a_low, a_high), (b_low, b_high)) = (self.bounds(a)?, self.bounds(b)?);
                match op {
                    CompareOp::Lt | CompareOp::Le => Some(Predicate::Compare(*op, a_high, b_low)),
                    CompareOp::Gt | CompareOp::Ge => Some(Predicate::Compare(*op, a_low, b_high)),
                    CompareOp::Eq | CompareOp::Ne => None,
                }
            }
            Predicate::Or(..) | Predicate::Not(_) => None,
        }
    }

    /// The least and greatest value of an expression over the current block.
    fn bounds(&self, int: &Int) -> Option<(Int, Int)> {
        let mut vector = false;
        axes_in(int, &mut |axis| vector |= is_tiled(self.nest, axis));
        if !vector {
            return Some((int.clone(), int.clone()));
        }
        match int {
            Int::Axis(axis) => {
                let block = i64::from(self.schedule.blocks[axis.index()]?);
                let first = Int::BlockStart(*axis);
                let last = Int::Binary(IntOp::Add, Box::new(first.clone()), Box::new(Int::Const(block - 1)));
                Some((first, last))
            }
            Int::Binary(IntOp::Add, a, b) => {
                let ((a0, a1), (b0, b1)) = (self.bounds(a)?, self.bounds(b)?);
                Some((binary(IntOp::Add, a0, b0), binary(IntOp::Add, a1, b1)))
            }
            Int::Binary(IntOp::Sub, a, b) => {
                let ((a0, a1), (b0, b1)) = (self.bounds(a)?, self.bounds(b)?);
                Some((binary(IntOp::Sub, a0, b1), binary(IntOp::Sub, a1, b0)))
            }
            _ => None,
        }
    }
}

fn binary(op: IntOp, a: Int, b: Int) -> Int {
    Int::Binary(op, Box::new(a), Box::new(b))
}
