//! Exponents by one instruction an element: where exponentials stand beside products, what they cost is instructions.
//!
//! ```text
//! s = product * scale                          s = product                            where scale > 0, else as it was
//! largest = row_max(s)                         largest = row_max(s) * scale
//! m_new = max(m, largest)              =>      m_new = max(m, largest)
//! p = exp(s - m_new)                           rate = log2(e)                         less of a very large m_new
//!                                              shift = m_new * rate
//!                                              p = exp2(s * (rate * scale) - shift)   a multiplication and an addition in one
//! ```
//! The rate and the shift are a row's. A positive factor keeps the order of what it multiplies, so that it may wait until the greatest value
//! is found. Its sign is the launch's to say: [`Expr::Factor`].
//!
//! That loses no more than scores have lost: a product or a sum was rounded at its own size, as the shift now is. Differences of elements
//! that come as they are from memory are exact, and stay.

use super::Lowering;
use crate::nest::{BinaryOp, Dtype, ReduceOp, UnaryOp};
use crate::program::pressure::{mentions, reads, writes};
use crate::program::{Domain, Expr, Scalar, Stmt, VarId, When};
use std::collections::BTreeSet;

/// Elements of a thread that share a row's rate and shift, which take five instructions.
const LEAST_SHARED: u32 = 8;

/// Numbers that others may be multiplied by later: of scalars, launches take the same.
const ORDINARY: std::ops::RangeInclusive<f64> = 1.0 / (1u64 << 40) as f64..=(1u64 << 40) as f64;

/// A tile whose factors wait, and what they multiply.
struct Waiting {
    tile: VarId,
    multiplied: Expr,
    factors: Vec<Factor>,
}

/// A number of ordinary size, or a scalar of the launch's, or its reciprocal.
#[derive(Clone, Copy)]
enum Factor {
    Number(f64),
    Scalar(usize),
    Inverse(usize),
}

/// `exp((from - to) * scale)` of a tile and a row's or a column's value.
struct Difference<'e> {
    function: UnaryOp,
    from: &'e Expr,
    to: VarId,
    scale: Option<&'e Expr>,
}

impl Lowering<'_> {
    /// A step's statements, rewritten.
    pub fn merge_exponents(&mut self, mut step: Vec<Stmt>) -> Vec<Stmt> {
        let mut done = BTreeSet::new();
        for at in (0..step.len()).rev() {
            if let Some(waiting) = self.waiting(&step, at) {
                self.let_wait(&mut step, at, &waiting, &mut done);
            }
        }
        let mut merged = Vec::new();
        for at in 0..step.len() {
            if let Stmt::Map { target, value, unless_all: None } = &step[at]
                && matches!(self.program.var(*target).domain, Domain::Tile(_))
                && !done.contains(target)
            {
                let plain = |expr: &Expr| is_rounded(&step[..at], expr).then_some(Expr::Number(1.0));
                let (rows, value) = self.merged(value, &plain);
                merged.extend(rows);
                merged.push(Stmt::Map { target: *target, value, unless_all: None });
            } else {
                merged.push(step[at].clone());
            }
        }
        merged
    }

    /// The tile that the statement fills with a multiple of another one, where nothing needs the factor that could not do without it.
    fn waiting(&self, step: &[Stmt], at: usize) -> Option<Waiting> {
        let Stmt::Map { target, value: value @ Expr::Binary(BinaryOp::Mul, ..), unless_all: None } = &step[at] else {
            return None;
        };
        let var = self.program.var(*target);
        let mut factors = Vec::new();
        let multiplied = self.without_factors(value, &mut factors).filter(|_| !factors.is_empty())?;
        let is_tile = matches!((var.domain, var.ty), (Domain::Tile(_), Scalar::Float));
        let mut exponents = 0;
        let others = step.iter().enumerate().filter(|(place, _)| *place != at);
        let all_can_wait = others.into_iter().all(|(place, stmt)| {
            let touched = mentions(stmt, *target);
            exponents += usize::from(touched && matches!(stmt, Stmt::Map { target: other, .. } if other != target));
            !touched || place > at && self.can_wait(&step[..place], stmt, *target)
        });
        (is_tile && all_can_wait && exponents > 0 && !reads(&step[at]).contains(target)).then_some(Waiting {
            tile: *target,
            multiplied,
            factors,
        })
    }

    fn factor(&self, expr: &Expr) -> Option<Factor> {
        let scalar = |at: &usize| Some(*at).filter(|at| self.nest.scalars[*at].dtype == Dtype::F32);
        match expr {
            Expr::Number(number) if ORDINARY.contains(number) => Some(Factor::Number(*number)),
            Expr::Param(at) => scalar(at).map(Factor::Scalar),
            Expr::Unary(UnaryOp::Recip, inner) => match &**inner {
                Expr::Param(at) => scalar(at).map(Factor::Inverse),
                _ => None,
            },
            _ => None,
        }
    }

    /// What of a product is no factor, if anything is.
    fn without_factors(&self, expr: &Expr, factors: &mut Vec<Factor>) -> Option<Expr> {
        if let Some(factor) = self.factor(expr) {
            factors.push(factor);
            return None;
        }
        let Expr::Binary(BinaryOp::Mul, a, b) = expr else { return Some(expr.clone()) };
        match (self.without_factors(a, factors), self.without_factors(b, factors)) {
            (Some(a), Some(b)) => Some(times(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether the statement does the same with the tile before its factor, or can make up for it.
    fn can_wait(&self, before: &[Stmt], stmt: &Stmt, tile: VarId) -> bool {
        match stmt {
            Stmt::MaskEdge { target, .. } => *target == tile,
            Stmt::Reduce { op: ReduceOp::Max | ReduceOp::Min, value, target, .. } => *value == tile && *target != tile,
            Stmt::Fold { op: ReduceOp::Max | ReduceOp::Min, value, target, .. } => {
                let last = before.iter().rfind(|stmt| writes(stmt) == Some(*target));
                let starts = matches!(last, Some(Stmt::Map { value: Expr::Number(first), .. }) if first.is_infinite());
                *value == tile && *target != tile && starts
            }
            Stmt::Map { target, value: Expr::Select(condition, kept, other), .. } if *target == tile => {
                let unscaled = matches!(**other, Expr::Number(other) if other.is_infinite() || other == 0.0);
                **kept == Expr::Var(tile) && !condition.reads(tile) && unscaled
            }
            Stmt::Map { target, value, unless_all: None } if *target != tile => self.only_in_differences(value, tile),
            _ => false,
        }
    }

    fn only_in_differences(&self, expr: &Expr, tile: VarId) -> bool {
        if let Some(Difference { from: Expr::Var(from), scale, .. }) = self.difference(expr)
            && *from == tile
        {
            return scale.is_none_or(|scale| !scale.reads(tile));
        }
        *expr != Expr::Var(tile) && expr.parts().into_iter().all(|part| self.only_in_differences(part, tile))
    }

    /// Targets whose exponents make up for the factor go to `done`.
    fn let_wait(&mut self, step: &mut Vec<Stmt>, at: usize, waiting: &Waiting, done: &mut BTreeSet<VarId>) {
        let Waiting { tile, multiplied, factors } = waiting;
        let (mut value, mut later) = (multiplied.clone(), None);
        let mut multiply_later = |factor: Expr| {
            later = Some(later.take().map_or(factor.clone(), |later| times(later, factor)));
        };
        for factor in factors {
            let (scalar, of): (usize, fn(Expr) -> Expr) = match *factor {
                Factor::Number(number) => {
                    multiply_later(Expr::Number(number));
                    continue;
                }
                Factor::Scalar(scalar) => (scalar, |factor| factor),
                Factor::Inverse(scalar) => (scalar, |factor| Expr::Unary(UnaryOp::Recip, Box::new(factor))),
            };
            if !self.program.positive.contains(&scalar) {
                self.program.positive.push(scalar);
            }
            value = times(value, of(Expr::Factor(scalar, When::AtOnce)));
            multiply_later(of(Expr::Factor(scalar, When::Later)));
        }
        let later = later.unwrap_or(Expr::Number(1.0));
        let mut waits = Vec::new();
        for (place, stmt) in std::mem::take(step).into_iter().enumerate() {
            match stmt {
                Stmt::Map { target, unless_all, .. } if place == at => {
                    waits.push(Stmt::Map { target, value: value.clone(), unless_all });
                }
                Stmt::Reduce { value, target, .. } | Stmt::Fold { value, target, .. } if value == *tile => {
                    waits.push(stmt);
                    let value = times(Expr::Var(target), later.clone());
                    waits.push(Stmt::Map { target, value, unless_all: None });
                }
                Stmt::Map { target, ref value, unless_all: None } if target != *tile && value.reads(*tile) => {
                    let of_tile = |expr: &Expr| (*expr == Expr::Var(*tile)).then(|| later.clone());
                    let (rows, value) = self.merged(value, &of_tile);
                    done.insert(target);
                    waits.extend(rows);
                    waits.push(Stmt::Map { target, value, unless_all: None });
                }
                other => waits.push(other),
            }
        }
        *step = waits;
    }

    /// The expression with exponents of one instruction: of differences from tiles for which there is a factor that is still to come.
    fn merged(&mut self, expr: &Expr, factor: &dyn Fn(&Expr) -> Option<Expr>) -> (Vec<Stmt>, Expr) {
        if let Some(difference) = self.difference(expr)
            && let Some(later) = factor(difference.from)
        {
            return self.exponential(&difference, later);
        }
        let mut rows = Vec::new();
        let merged = expr.map_parts(|part| {
            let (more, merged) = self.merged(part, factor);
            rows.extend(more);
            merged
        });
        (rows, merged)
    }

    /// `exp2(from * (rate * later) - shift)`, and what makes each row's rate and shift.
    fn exponential(&mut self, difference: &Difference<'_>, later: Expr) -> (Vec<Stmt>, Expr) {
        let Difference { function, from, to, scale } = difference;
        let scaled = |value: Expr| scale.map_or(value.clone(), |scale| times(value, scale.clone()));
        let (name, domain) = (self.program.var(*to).name.clone(), self.program.var(*to).domain);
        let most = if *function == UnaryOp::Exp { std::f64::consts::LOG2_E } else { 1.0 };
        let mut rows = Vec::new();
        let mut row = |suffix: &str, value: Expr| {
            let var = self.declare(&format!("{name}_{suffix}"), Scalar::Float, domain);
            rows.extend(self.out.pop());
            rows.push(Stmt::Map { target: var, value, unless_all: None });
            Expr::Var(var)
        };
        let rate = row("rate", scaled(Expr::Rate { most, of: Box::new(scaled(Expr::Var(*to))) }));
        let shift = row("shift", times(Expr::Var(*to), rate.clone()));
        let factor = if later == Expr::Number(1.0) { rate } else { row("factor", times(rate, later)) };
        let value = Expr::Binary(BinaryOp::Sub, Box::new(times((*from).clone(), factor)), Box::new(shift));
        (rows, Expr::Unary(UnaryOp::Exp2, Box::new(value)))
    }

    fn difference<'e>(&self, expr: &'e Expr) -> Option<Difference<'e>> {
        let Expr::Unary(function @ (UnaryOp::Exp | UnaryOp::Exp2), argument) = expr else { return None };
        let free = |expr: &Expr| matches!(expr, Expr::Number(_) | Expr::Param(_));
        let (difference, scale) = match &**argument {
            Expr::Binary(BinaryOp::Mul, a, b) if free(b) => (&**a, Some(&**b)),
            Expr::Binary(BinaryOp::Mul, a, b) if free(a) => (&**b, Some(&**a)),
            other => (other, None),
        };
        let Expr::Binary(BinaryOp::Sub, from, to) = difference else { return None };
        let Expr::Var(to) = **to else { return None };
        let var = self.program.var(to);
        let (slots, elements) = match var.domain {
            Domain::Rows(layout) => (self.program.layout(layout).row_size(), self.program.layout(layout).size()),
            Domain::Cols(layout) => (self.program.layout(layout).col_size(), self.program.layout(layout).size()),
            Domain::Tile(_) | Domain::Once => return None,
        };
        let pays = var.ty == Scalar::Float && slots * LEAST_SHARED <= elements;
        pays.then_some(Difference { function: *function, from, to, scale })
    }
}

/// Whether the expression was rounded at its own size as it was computed, after these statements.
fn is_rounded(before: &[Stmt], expr: &Expr) -> bool {
    match expr {
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div, ..) => true,
        Expr::Select(_, a, b) => [a, b].into_iter().any(|side| is_rounded(before, side)),
        Expr::Var(var) => {
            let fills = |stmt: &&Stmt| match stmt {
                Stmt::Map { target, value, .. } => target == var && !value.reads(*var),
                Stmt::Dot(dot) => dot.target == *var,
                other => writes(other) == Some(*var),
            };
            let place = before.iter().rposition(|stmt| fills(&stmt));
            place.is_some_and(|place| match &before[place] {
                Stmt::Dot(_) => true,
                Stmt::Map { value, .. } => is_rounded(&before[..place], value),
                _ => false,
            })
        }
        _ => false,
    }
}

fn times(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::Mul, Box::new(a), Box::new(b))
}

#[cfg(test)]
mod tests;
