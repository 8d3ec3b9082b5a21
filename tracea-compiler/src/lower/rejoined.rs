//! How the values that a loop carries are put together again, where parts of its steps have run apart from each other.
//!
//! ```text
//! total = total + f(x)                           the sum of all parts' totals
//! m' = max(m, row_max(s))                        the largest of all
//! l = l * exp(m - m') + row_sum(exp(s - m'))     the sum of the l * exp(m - the largest m)
//! ```
//! The terms read nothing that the loop carries, but for the extreme that they are relative to. Whether a term is, goes by what is linear:
//! a multiple of an exponential, a product of tiles, a sum along an axis.

use super::analysis::inputs;
use super::relative::Exponential;
use crate::nest::{BinaryOp, Block, Carried, Dtype, Loop, Nest, Op, ReduceOp, Stmt, UnaryOp, ValueId};
use crate::program::Rejoin;
use std::collections::BTreeSet;

/// How parts of the outermost of loops are put together that hold nothing but the next, where each may begin as the whole does.
pub fn of_parts(nest: &Nest, outer: &Loop, innermost: &Loop) -> Option<Vec<Rejoin>> {
    let ways = find(nest, outer, innermost)?;
    let may_start = ways.iter().zip(&outer.carried).all(|(way, first)| {
        // What is added counts once; the greatest and the least value may begin with the same one in each part.
        let is_sum = !matches!(way, Rejoin::Reduced(ReduceOp::Max | ReduceOp::Min));
        !is_sum || matches!(nest.value(first.init).op, Op::Fill(0.0))
    });
    may_start.then_some(ways)
}

/// For each value that the loops carry, whatever it begins with.
pub fn find(nest: &Nest, outer: &Loop, innermost: &Loop) -> Option<Vec<Rejoin>> {
    let heads = innermost.carried.iter().map(|carried| carried.head).collect();
    let carried = Carries { nest, innermost, dependent: dependent(nest, &innermost.body, heads) };
    let is_float = |inner: &&Carried| nest.value(inner.head).ty.dtype == Dtype::F32;
    let found = innermost.carried.iter().map(|inner| Some(inner).filter(is_float).and_then(|inner| carried.way(inner)));
    found.collect::<Option<Vec<_>>>().filter(|found| found.len() == outer.carried.len())
}

/// All values of a loop's body that depend on these.
fn dependent(nest: &Nest, body: &Block, mut known: BTreeSet<ValueId>) -> BTreeSet<ValueId> {
    loop {
        let before = known.len();
        add_dependent(nest, body, &mut known);
        if known.len() == before {
            return known;
        }
    }
}

fn add_dependent(nest: &Nest, body: &Block, known: &mut BTreeSet<ValueId>) {
    for stmt in &body.stmts {
        match stmt {
            Stmt::Value(id) if inputs(&nest.value(*id).op).iter().any(|input| known.contains(input)) => {
                known.insert(*id);
            }
            Stmt::Loop(inner) => {
                add_dependent(nest, &inner.body, known);
                for carried in &inner.carried {
                    if known.contains(&carried.init) || known.contains(&carried.next) {
                        known.extend([carried.head, carried.result]);
                    }
                }
            }
            Stmt::Value(_) | Stmt::Store { .. } => {}
        }
    }
}

struct Carries<'a> {
    nest: &'a Nest,
    innermost: &'a Loop,
    /// What depends on anything that the loop carries.
    dependent: BTreeSet<ValueId>,
}

impl Carries<'_> {
    fn op(&self, id: ValueId) -> &Op {
        &self.nest.value(id).op
    }

    fn is_free(&self, id: ValueId) -> bool {
        !self.dependent.contains(&id)
    }

    fn way(&self, carried: &Carried) -> Option<Rejoin> {
        let Op::Binary(op, ..) = *self.op(carried.next) else { return None };
        let reduce = match op {
            BinaryOp::Add => ReduceOp::Sum,
            BinaryOp::Max => ReduceOp::Max,
            BinaryOp::Min => ReduceOp::Min,
            _ => return None,
        };
        let terms = self.terms(carried.next, op);
        let dependent: Vec<ValueId> = terms.iter().copied().filter(|term| !self.is_free(*term)).collect();
        match op {
            _ if dependent == [carried.head] => Some(Rejoin::Reduced(reduce)),
            BinaryOp::Add => self.relative(carried, &terms),
            _ => None,
        }
    }

    /// What the operation puts together.
    fn terms(&self, id: ValueId, op: BinaryOp) -> Vec<ValueId> {
        match *self.op(id) {
            Op::Binary(inner, a, b) if inner == op => {
                let mut terms = self.terms(a, op);
                terms.extend(self.terms(b, op));
                terms
            }
            _ => vec![id],
        }
    }

    /// A sum of what there was before, faded, and of what is relative to the same extreme.
    fn relative(&self, carried: &Carried, terms: &[ValueId]) -> Option<Rejoin> {
        let fade_of = |term: &ValueId| match *self.op(*term) {
            Op::Binary(BinaryOp::Mul, a, b) if a == carried.head => Some(b),
            Op::Binary(BinaryOp::Mul, a, b) if b == carried.head => Some(a),
            _ => None,
        };
        let faded: Vec<(usize, ValueId)> =
            terms.iter().enumerate().filter_map(|(at, term)| Some((at, fade_of(term)?))).collect();
        let [(place, fade)] = faded[..] else { return None };
        let fading = Exponential::of(self.nest, fade)?;
        let extreme =
            self.innermost.carried.iter().position(|other| (other.head, other.next) == (fading.from, fading.to))?;
        let is_extreme = matches!(self.op(fading.to), Op::Binary(BinaryOp::Max | BinaryOp::Min, ..));
        let others = terms.iter().enumerate().filter(|(at, _)| *at != place);
        let all = others.into_iter().all(|(_, term)| self.is_relative(*term, &fading));
        (is_extreme && all).then_some(Rejoin::Relative { fade, extreme })
    }

    /// Whether the value is linear in exponentials of differences to the extreme.
    fn is_relative(&self, id: ValueId, fading: &Exponential) -> bool {
        let relative = |id: ValueId| self.is_relative(id, fading);
        let product = |a, b| relative(a) && self.is_free(b) || self.is_free(a) && relative(b);
        match *self.op(id) {
            Op::Fill(number) => number == 0.0,
            Op::Unary(UnaryOp::Exp | UnaryOp::Exp2, _) => Exponential::of(self.nest, id).is_some_and(|growing| {
                growing.to == fading.to && self.is_free(growing.from) && growing.is_like(self.nest, fading)
            }),
            Op::Unary(UnaryOp::Neg, a) | Op::Cast(a) | Op::Broadcast(a) | Op::Transpose(a) => relative(a),
            Op::Reduce(ReduceOp::Sum, a, _) => relative(a),
            Op::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => relative(a) && relative(b),
            Op::Binary(BinaryOp::Mul, a, b) | Op::Dot { a, b } => product(a, b),
            Op::Binary(BinaryOp::Div, a, b) => relative(a) && self.is_free(b),
            Op::Select(condition, a, b) => self.is_free(condition) && relative(a) && relative(b),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
