//! Extremes that are followed in leaps: sums that are relative to one need not know each greater one, but only what is greater by far.
//!
//! ```text
//! largest = row_max(s)                          largest = a thread's own part of it
//! m_new = max(m, largest)                       m_new = m;  fade = 1
//!                                               if exp(largest - m_new) > 2^8 in any thread of the warp {
//! fade = exp(m - m_new)                 =>          m_new = max(m, row_max(s));  fade = exp(m - m_new)
//! p = exp(s - m_new)                            }
//! l = l * fade + row_sum(p)                     p = exp(s - m_new)                     as much as 2^8
//! wait for acc;  acc = acc * fade               l = l * fade + row_sum(p)
//! m = m_new                                     wait for acc;  if any … { acc = acc * fade }
//!                                               m = m_new
//! ```
//! What is relative to an extreme is a multiple of it, whichever it is, so that any number will do from which the terms are not too far: where
//! nobody can tell after the loop which it was (`invariance`). After a few steps leaps are rare; then no step passes anything between threads, nor
//! touches what it has accumulated. What follows from the extreme alone, such as a rate of exponents, is carried along.

use super::Lowering;
use super::rejoined;
use crate::nest::{BinaryOp, CompareOp, Loop, ReduceOp, UnaryOp};
use crate::program::pressure::{mentions, reads, writes};
use crate::program::{Along, Domain, Expr, Identity, IntText, Operand, Rejoin, Stmt, VarId};
use std::collections::BTreeSet;

/// By how many powers of two terms may pass 1: sums of many remain finite, and so do 16-bit operands.
const LEAP: f64 = 8.0;

/// An extreme that a step may follow in leaps, and where the step does what about it.
struct Followed {
    running: VarId,
    next: VarId,
    /// The reduction that may raise it, and what is made of its result before it does.
    reduction: usize,
    largest: VarId,
    scaling: Option<usize>,
    raise: usize,
    /// By what earlier sums fade.
    fades: Vec<usize>,
    /// What else follows from the next value, in order.
    carried: Vec<usize>,
    /// What the terms are exponentials of, the scores, and how far they may go.
    exponent: Option<Expr>,
    score: VarId,
    most: f64,
}

impl Lowering<'_> {
    /// The step, and what is done once before the loop.
    pub fn follow_in_leaps(
        &mut self,
        outer: &Loop,
        innermost: &Loop,
        running: &[VarId],
        mut step: Vec<Stmt>,
    ) -> (Vec<Stmt>, Vec<Stmt>) {
        let mut before = Vec::new();
        let Some(ways) = rejoined::find(self.nest, outer, innermost) else { return (before, step) };
        let mut extremes: Vec<usize> = ways
            .iter()
            .filter_map(|way| if let Rejoin::Relative { extreme, .. } = way { Some(*extreme) } else { None })
            .collect();
        extremes.dedup();
        for at in extremes {
            let is_hidden = self.hidden.contains(&outer.carried[at].result);
            if let Some(followed) = self.followed(&step, running[at]).filter(|_| is_hidden) {
                let (more, rewritten) = self.leaping(followed, step);
                before.extend(more);
                step = rewritten;
            }
        }
        (before, step)
    }

    fn followed(&self, step: &[Stmt], running: VarId) -> Option<Followed> {
        let Domain::Rows(layout) = self.program.var(running).domain else { return None };
        // A warp decides for itself: it has all of its rows.
        if self.program.layout(layout).parts_along_cols() > 1 || step.iter().any(stores) {
            return None;
        }
        let (raise, next, value) = step.iter().enumerate().find_map(|(at, stmt)| match stmt {
            Stmt::Map { target, value: value @ Expr::Binary(BinaryOp::Max, ..), unless_all: None }
                if *target != running && reads(stmt).contains(&running) =>
            {
                Some((at, *target, value))
            }
            _ => None,
        })?;
        let others: Vec<VarId> = reads(&step[raise]).into_iter().filter(|var| *var != running).collect();
        let [largest] = others[..] else { return None };
        if !is_greatest(value) {
            return None;
        }
        let (reduction, score) = step.iter().enumerate().find_map(|(at, stmt)| match stmt {
            Stmt::Reduce { op: ReduceOp::Max, value, target, along: Along::Cols } if *target == largest => {
                Some((at, *value))
            }
            _ => None,
        })?;
        let scaling = match step.get(reduction + 1) {
            Some(Stmt::Map { target, value: Expr::Binary(BinaryOp::Mul, a, _), unless_all: None })
                if *target == largest && **a == Expr::Var(largest) =>
            {
                Some(reduction + 1)
            }
            _ => None,
        };
        let mut followed = Followed {
            running,
            next,
            reduction,
            largest,
            scaling,
            raise,
            fades: Vec::new(),
            carried: Vec::new(),
            exponent: None,
            score,
            most: LEAP,
        };
        self.sort_followers(step, &mut followed)?;
        Some(followed)
    }

    /// Finds what follows from the extreme in the step; none where anything else than exponentials of differences does.
    fn sort_followers(&self, step: &[Stmt], followed: &mut Followed) -> Option<()> {
        let Followed { running, next, largest, raise, .. } = *followed;
        let own: BTreeSet<VarId> =
            step.iter().filter_map(|stmt| if let Stmt::Declare(var) = stmt { Some(*var) } else { None }).collect();
        let (mut follows, mut terms) = (BTreeSet::from([next]), BTreeSet::new());
        for (at, stmt) in step.iter().enumerate() {
            let read = reads(stmt);
            if at == raise || at == followed.reduction || followed.scaling == Some(at) {
                continue;
            }
            let holds_others = !stmt.bodies().is_empty();
            let involved = |var: &VarId| mentions(stmt, *var);
            if read.contains(&largest)
                || holds_others && follows.iter().chain(&terms).chain([&largest, &running]).any(involved)
            {
                return None;
            }
            match stmt {
                Stmt::Map { target, value, unless_all: None } if *target == running => {
                    (*value == Expr::Var(next)).then_some(())?;
                }
                Stmt::Map { target, value, unless_all: None }
                    if !read.is_disjoint(&follows) || read.contains(&running) =>
                {
                    let is_row = matches!(self.program.var(*target).domain, Domain::Rows(_)) && own.contains(target);
                    match value {
                        Expr::Unary(UnaryOp::Exp | UnaryOp::Exp2, inner)
                            if is_row && **inner == difference(running, next) =>
                        {
                            followed.fades.push(at);
                        }
                        _ if is_row && read.is_subset(&follows) => {
                            followed.carried.push(at);
                            follows.insert(*target);
                        }
                        Expr::Unary(function @ (UnaryOp::Exp | UnaryOp::Exp2), exponent)
                            if own.contains(target) && read.difference(&follows).eq([&followed.score]) =>
                        {
                            let known = followed.exponent.get_or_insert_with(|| (**exponent).clone());
                            (*known == **exponent).then_some(())?;
                            followed.most = LEAP * if *function == UnaryOp::Exp { std::f64::consts::LN_2 } else { 1.0 };
                            terms.insert(*target);
                        }
                        _ => return None,
                    }
                }
                _ if read.contains(&running) => return None,
                other => self.bears_leaps(other, &terms)?,
            }
        }
        (!followed.fades.is_empty() && !terms.is_empty()).then_some(())
    }

    /// Of terms that may pass 1, sums are made, and operands.
    fn bears_leaps(&self, stmt: &Stmt, terms: &BTreeSet<VarId>) -> Option<()> {
        let bears = match stmt {
            _ if reads(stmt).is_disjoint(terms) => true,
            Stmt::MaskEdge { identity: Identity::Zero, .. } | Stmt::Pack { .. } => true,
            Stmt::Fold { op: ReduceOp::Sum, .. } | Stmt::Reduce { op: ReduceOp::Sum, .. } => true,
            Stmt::Dot(dot) => matches!(dot.a, Operand::Registers { .. }),
            Stmt::Map { target, value: Expr::Select(_, kept, other), .. } => {
                **kept == Expr::Var(*target) && **other == Expr::Number(0.0)
            }
            _ => false,
        };
        bears.then_some(())
    }

    fn leaping(&mut self, followed: Followed, step: Vec<Stmt>) -> (Vec<Stmt>, Vec<Stmt>) {
        let Followed { running, next, reduction, largest, scaling, raise, fades, carried, exponent, score, most } =
            followed;
        let Some(exponent) = exponent else { return (Vec::new(), step) };
        let leaps = self.names.fresh("leaps");
        // Before the loop, what follows from the next value follows from the first one.
        let mut before: Vec<Stmt> = carried.iter().filter_map(|at| writes(&step[*at]).map(Stmt::Declare)).collect();
        before.extend(carried.iter().map(|at| of_another(&step[*at], next, running)));

        let fading: Vec<VarId> = fades.iter().filter_map(|at| writes(&step[*at])).collect();
        let moved = |var: &VarId| fading.contains(var) || carried.iter().any(|at| writes(&step[*at]) == Some(*var));
        let mut leap = vec![Stmt::Spread { op: ReduceOp::Max, target: largest, along: Along::Cols }];
        let places = scaling.iter().chain([&raise]).chain(&fades).chain(&carried);
        leap.extend(places.map(|at| step[*at].clone()));

        let exponent = Box::new(exponent.with(score, largest));
        let greater = Expr::Compare(CompareOp::Gt, exponent, Box::new(Expr::Number(most)));
        let only_leaping = |stmt: Stmt| Stmt::If { condition: IntText::name(&leaps), body: vec![stmt] };
        let mut rewritten = Vec::new();
        for (at, stmt) in step.iter().enumerate() {
            match stmt {
                _ if fades.contains(&at) || carried.contains(&at) || scaling == Some(at) => {}
                Stmt::Declare(var) if moved(var) => {}
                Stmt::Reduce { op, value, along, .. } if at == reduction => {
                    let least = Expr::Number(f64::NEG_INFINITY);
                    rewritten.push(Stmt::Map { target: largest, value: least, unless_all: None });
                    rewritten.push(Stmt::Fold { op: *op, value: *value, target: largest, along: *along });
                }
                _ if at == raise => {
                    rewritten.push(Stmt::Map { target: next, value: Expr::Var(running), unless_all: None });
                    rewritten.push(Stmt::Vote { name: leaps.clone(), condition: greater.clone(), slice: largest });
                    for fade in &fading {
                        rewritten.push(Stmt::Declare(*fade));
                        rewritten.push(Stmt::Map { target: *fade, value: Expr::Number(1.0), unless_all: None });
                    }
                    rewritten.push(Stmt::If { condition: IntText::name(&leaps), body: std::mem::take(&mut leap) });
                }
                Stmt::Map { target, value, unless_all: None } if self.only_fades(*target, value, &fading) => {
                    rewritten.push(only_leaping(stmt.clone()));
                }
                other => rewritten.push(other.clone()),
            }
        }
        (before, rewritten)
    }

    /// A tile, times a fade.
    fn only_fades(&self, target: VarId, value: &Expr, fading: &[VarId]) -> bool {
        let is_fade = |expr: &Expr| matches!(expr, Expr::Var(var) if fading.contains(var));
        let same = |expr: &Expr| *expr == Expr::Var(target);
        matches!(value, Expr::Binary(BinaryOp::Mul, a, b) if same(a) && is_fade(b) || is_fade(a) && same(b))
            && matches!(self.program.var(target).domain, Domain::Tile(_))
    }
}

/// Whether anything leaves the block, by threads or panel by panel.
fn stores(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Store { .. } | Stmt::Panels { .. }) || stmt.bodies().into_iter().flatten().any(stores)
}

/// Nothing but the greatest of some numbers.
fn is_greatest(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(BinaryOp::Max, a, b) => is_greatest(a) && is_greatest(b),
        other => matches!(other, Expr::Var(_) | Expr::Number(_) | Expr::Param(_)),
    }
}

fn difference(a: VarId, b: VarId) -> Expr {
    Expr::Binary(BinaryOp::Sub, Box::new(Expr::Var(a)), Box::new(Expr::Var(b)))
}

/// The same of another variable.
fn of_another(stmt: &Stmt, one: VarId, other: VarId) -> Stmt {
    match stmt {
        Stmt::Map { target, value, unless_all } => {
            Stmt::Map { target: *target, value: value.with(one, other), unless_all: unless_all.clone() }
        }
        stmt => stmt.clone(),
    }
}

#[cfg(test)]
mod tests;
