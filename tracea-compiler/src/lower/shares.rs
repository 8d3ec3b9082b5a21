//! Running results that each thread works out of the elements that it holds, as though there were no others. What threads have found is
//! put together once, after the loop: they never wait for each other in it.
//!
//! ```text
//! for j {                                                 for j, each thread for itself {
//!     m' = max(m, row_max(s))                                 m' = max(m, max of its s)
//!     l = l * exp(m - m') + row_sum(exp(s - m'))     →        l = l * exp(m - m') + sum of its exp(s - m')
//!     m = m'                                                  m = m'
//! }                                                       }
//!                                                         all = max of the m;  l = sum of the l * exp(m - all);  m = all
//! ```
//! A sum that fades may be relative to a running extreme: its terms and what came before are scaled by the same exponential of the
//! difference to it. Then each thread's sum is relative to the thread's own extreme, and can be scaled to any other one.

use super::Lowering;
use super::analysis::{Facts, Use, untransposed};
use super::reductions::identity;
use super::relative::Exponential;
use crate::nest::{AxisId, BinaryOp, Carried, Loop, Nest, Op, ReduceOp, ValueId};
use crate::program::{Along, Domain, Expr, Scalar, Stmt, VarId};
use crate::schedule::ScheduleError;

/// What a loop carries that may be worked out by shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Its position among what the loop carries.
    at: usize,
    pub reduction: ValueId,
    next: ValueId,
    op: ReduceOp,
    update: Update,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Update {
    /// `total + row_sum(x)`: threads fold their elements onto it.
    Taken,
    /// `m.max(row_max(s)).max(least)`.
    Bounded,
    /// `l * fade + row_sum(p)`, relative to the extreme at that position among what the loop carries, if to one.
    Faded { fade: ValueId, extreme: Option<usize> },
}

/// A share with its place in registers.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    share: Share,
    input: ValueId,
    axis: AxisId,
    target: VarId,
    along: Along,
}

/// What the loop carries that its threads may share out; `outer` is the outermost of loops that hold nothing but the next.
pub fn find(nest: &Nest, facts: &Facts, outer: &Loop, innermost: &Loop) -> Vec<Share> {
    let finder = Finder { nest, facts };
    let carried = || innermost.carried.iter().enumerate();
    let starts_empty = |share: &Share| {
        let first = &nest.value(outer.carried[share.at].init).op;
        matches!(first, Op::Fill(number) if *number == identity(share.op).number())
    };
    let mut shares: Vec<Share> = carried().filter_map(|(at, one)| finder.taken(at, one)).filter(starts_empty).collect();
    let mut faded: Vec<Share> = carried().filter_map(|(at, one)| finder.faded(at, one)).filter(starts_empty).collect();
    for (at, extreme) in carried() {
        let Some((share, mut involved)) = finder.bounded(at, extreme) else { continue };
        if shares.iter().any(|taken| taken.at == at) {
            continue;
        }
        let mut relatives = Vec::new();
        for sum in &faded {
            let Some(places) = finder.relative(sum, extreme) else { continue };
            relatives.push(sum.at);
            involved.extend(places);
        }
        if finder.is_closed(&involved, extreme) {
            shares.push(share);
            for sum in faded.extract_if(.., |sum| relatives.contains(&sum.at)) {
                let Update::Faded { fade, .. } = sum.update else { continue };
                shares.push(Share { update: Update::Faded { fade, extreme: Some(at) }, ..sum });
            }
        }
    }
    shares.extend(faded);
    shares
}

struct Finder<'a> {
    nest: &'a Nest,
    facts: &'a Facts,
}

impl Finder<'_> {
    fn op(&self, id: ValueId) -> &Op {
        &self.nest.value(id).op
    }

    fn reduction(&self, id: ValueId) -> Option<ReduceOp> {
        match self.op(id) {
            Op::Reduce(op, ..) if self.facts.used_once(id) => Some(*op),
            _ => None,
        }
    }

    /// A reduction that a running result takes up by nothing but its own operation.
    fn taken(&self, at: usize, carried: &Carried) -> Option<Share> {
        let Op::Binary(binary, a, b) = *self.op(carried.next) else { return None };
        let reduction = other_than(carried.head, a, b)?;
        let op = self.reduction(reduction).filter(|op| binary_of(*op) == binary)?;
        let only = self.facts.used_once(carried.head) && self.facts.used_once(carried.next);
        only.then_some(Share { at, reduction, next: carried.next, op, update: Update::Taken })
    }

    /// The larger, or the smaller, of a running result, one reduction, and what no step changes; and what it is made of.
    fn bounded(&self, at: usize, carried: &Carried) -> Option<(Share, Vec<ValueId>)> {
        let Op::Binary(binary, ..) = *self.op(carried.next) else { return None };
        let op = [ReduceOp::Max, ReduceOp::Min].into_iter().find(|op| binary_of(*op) == binary)?;
        let (mut heads, mut reductions) = (0, Vec::new());
        let (mut pending, mut involved) = (vec![carried.next], Vec::new());
        while let Some(id) = pending.pop() {
            match *self.op(id) {
                Op::Binary(inner, a, b) if inner == binary => {
                    pending.extend([a, b]);
                    involved.push(id);
                }
                _ if id == carried.head => heads += 1,
                _ if self.reduction(id) == Some(op) => reductions.push(id),
                Op::Fill(_) | Op::Scalar(_) => {}
                _ => return None,
            }
        }
        let (1, [reduction]) = (heads, &reductions[..]) else { return None };
        let share = Share { at, reduction: *reduction, next: carried.next, op, update: Update::Bounded };
        Some((share, involved))
    }

    /// A sum of what there was before, scaled, and of a reduction.
    fn faded(&self, at: usize, carried: &Carried) -> Option<Share> {
        let Op::Binary(BinaryOp::Add, a, b) = *self.op(carried.next) else { return None };
        let sums = |id: ValueId| self.reduction(id) == Some(ReduceOp::Sum);
        let (scaled, reduction) = [(a, b), (b, a)].into_iter().find(|(_, reduction)| sums(*reduction))?;
        let Op::Binary(BinaryOp::Mul, x, y) = *self.op(scaled) else { return None };
        let fade = other_than(carried.head, x, y)?;
        let only = [scaled, carried.head, carried.next].into_iter().all(|id| self.facts.used_once(id));
        let update = Update::Faded { fade, extreme: None };
        only.then_some(Share { at, reduction, next: carried.next, op: ReduceOp::Sum, update })
    }

    /// What stands between the extreme and a sum that is relative to it.
    fn relative(&self, share: &Share, extreme: &Carried) -> Option<Vec<ValueId>> {
        let Update::Faded { fade, .. } = share.update else { return None };
        let Op::Reduce(_, terms, _) = *self.op(share.reduction) else { return None };
        let Op::Binary(_, a, b) = *self.op(share.next) else { return None };
        let mut places = vec![share.reduction, share.next, a, b];
        let fading = Exponential::of(self.nest, fade)?;
        let growing = self.multiple_of(terms, extreme.next, &mut places)?;
        places.extend(fading.places.into_iter().chain(growing.places));
        let meets = (fading.from, fading.to, growing.to) == (extreme.head, extreme.next, extreme.next);
        (fading.is_like(self.nest, &growing) && meets).then_some(places)
    }

    /// The exponential of a difference to the value, of which the terms are multiples; what lies between goes to `places`.
    fn multiple_of(&self, terms: ValueId, to: ValueId, places: &mut Vec<ValueId>) -> Option<Exponential> {
        let found = match *self.op(terms) {
            Op::Transpose(inner) => self.multiple_of(inner, to, places),
            Op::Binary(BinaryOp::Mul, a, b) => {
                let first = self.multiple_of(a, to, places);
                if first.is_some() { first } else { self.multiple_of(b, to, places) }
            }
            Op::Select(_, a, b) if matches!(self.op(b), Op::Fill(number) if *number == 0.0) => {
                self.multiple_of(a, to, places)
            }
            _ => Exponential::of(self.nest, terms).filter(|found| found.to == to),
        };
        places.extend(found.is_some().then_some(terms));
        found
    }

    /// Whether nothing else depends on the extreme in the loop, or on what is relative to it.
    fn is_closed(&self, involved: &[ValueId], extreme: &Carried) -> bool {
        let read_inside = |id: ValueId| {
            let uses = &self.facts.uses[id.index()];
            let carries = uses.iter().filter(|usage| **usage == Use::Carry).count();
            let next = id == extreme.next || self.facts.used_once(id);
            let values = uses.iter().all(|usage| match usage {
                Use::Value(reader) => involved.contains(reader),
                Use::Carry => true,
                Use::Store => false,
            });
            values && carries <= usize::from(next)
        };
        read_inside(extreme.head) && involved.iter().all(|id| read_inside(*id))
    }
}

/// The one of two that is not this one, where the other is.
fn other_than(one: ValueId, a: ValueId, b: ValueId) -> Option<ValueId> {
    match (a == one, b == one) {
        (true, false) => Some(b),
        (false, true) => Some(a),
        _ => None,
    }
}

fn binary_of(op: ReduceOp) -> BinaryOp {
    match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    }
}

impl Lowering<'_> {
    /// Finds what a loop's threads share out; its running values have registers already.
    pub fn find_shares(&mut self, outer: &Loop, innermost: &Loop, running: &[VarId]) -> Vec<Placed> {
        let shares = find(self.nest, self.facts, outer, innermost);
        let placed: Vec<Option<Placed>> = shares.iter().map(|share| self.placed(*share, running[share.at])).collect();
        // What is relative to an extreme needs it as a share, and the other way round.
        let group = |share: &Share| match share.update {
            Update::Faded { extreme: Some(at), .. } => at,
            _ => share.at,
        };
        let lost: Vec<usize> =
            shares.iter().zip(&placed).filter(|(_, placed)| placed.is_none()).map(|(share, _)| group(share)).collect();
        placed.into_iter().flatten().filter(|placed| !lost.contains(&group(&placed.share))).collect()
    }

    fn placed(&self, share: Share, target: VarId) -> Option<Placed> {
        let Op::Reduce(_, input, axis) = self.nest.value(share.reduction).op else { return None };
        let input = untransposed(self.nest, input);
        let Domain::Tile(layout) = self.domain(input) else { return None };
        let var = self.program.var(target);
        let tile = self.program.layout(layout);
        let (along, alike) = match (tile.row_axis? == axis, var.domain) {
            (true, Domain::Cols(shares)) => (Along::Rows, self.program.layout(shares).shares_cols(tile)),
            (false, Domain::Rows(shares)) => (Along::Cols, self.program.layout(shares).shares_rows(tile)),
            _ => return None,
        };
        let together = self.home.get(&share.reduction) == self.home.get(&share.next);
        let fits = together && alike && var.ty == Scalar::Float;
        fits.then_some(Placed { share, input, axis, target, along })
    }

    /// Whether the value is a reduction that its running result takes up.
    pub fn is_folded(&self, id: ValueId) -> bool {
        self.shares.iter().any(|placed| placed.share.reduction == id && placed.share.update == Update::Taken)
    }

    /// Whether threads work out the running result that has this next value by shares.
    pub fn is_shared_out(&self, next: ValueId) -> bool {
        self.shares.iter().any(|placed| placed.share.next == next)
    }

    /// The share onto which a running result's next value is folded.
    pub fn fold_to(&self, id: ValueId) -> Option<Placed> {
        let folded = |placed: &&Placed| placed.share.next == id && placed.share.update == Update::Taken;
        self.shares.iter().find(folded).copied()
    }

    pub fn fold(&mut self, placed: Placed) -> Result<(), ScheduleError> {
        let Placed { share, input, axis, target, along } = placed;
        let value = self.wide(input)?;
        self.mask_edge(value, axis, identity(share.op));
        self.out.push(Stmt::Fold { op: share.op, value, target, along });
        self.vars.insert(share.next, target);
        Ok(())
    }

    /// The share whose reduction this is, where threads make it of their own elements.
    pub fn own_part(&self, id: ValueId) -> Option<Placed> {
        self.shares.iter().find(|placed| placed.share.reduction == id).copied()
    }

    pub fn reduce_own(&mut self, placed: Placed) -> Result<(), ScheduleError> {
        let Placed { share, input, axis, along, .. } = placed;
        let value = self.wide(input)?;
        self.mask_edge(value, axis, identity(share.op));
        let domain = match (self.program.var(value).domain, along) {
            (Domain::Tile(layout), Along::Rows) => Domain::Cols(layout),
            (Domain::Tile(layout), _) => Domain::Rows(layout),
            (other, _) => other,
        };
        let target = self.declare(&self.name(share.reduction), Scalar::Float, domain);
        self.map(target, Expr::Number(identity(share.op).number()));
        self.out.push(Stmt::Fold { op: share.op, value, target, along });
        self.vars.insert(share.reduction, target);
        Ok(())
    }

    /// Whether this is the next value of an extreme of which each thread has its own.
    pub fn is_own_extreme(&self, id: ValueId) -> bool {
        self.shares.iter().any(|placed| placed.share.next == id && placed.share.update == Update::Bounded)
    }

    /// After the loop.
    pub fn spread(&mut self, placed: &[Placed]) {
        for extreme in placed.iter().filter(|placed| placed.share.update == Update::Bounded) {
            self.spread_extreme(*extreme, placed);
        }
        for Placed { share, target, along, .. } in placed.iter().filter(|placed| placed.share.update != Update::Bounded)
        {
            self.spread_one(share.op, *target, *along);
        }
    }

    /// Sums that are relative to a thread's own extreme are scaled to that of all.
    fn spread_extreme(&mut self, extreme: Placed, placed: &[Placed]) {
        let relative = |placed: &&Placed| matches!(placed.share.update, Update::Faded { extreme: Some(at), .. } if at == extreme.share.at);
        if !placed.iter().any(|placed| relative(&placed)) {
            return self.spread_one(extreme.share.op, extreme.target, extreme.along);
        }
        let own = extreme.target;
        let all = self.declare(
            &format!("{}_of_all", self.program.var(own).name),
            Scalar::Float,
            self.program.var(own).domain,
        );
        self.map(all, Expr::Var(own));
        self.spread_one(extreme.share.op, all, extreme.along);
        for sum in placed.iter().filter(relative) {
            let Update::Faded { fade, .. } = sum.share.update else { continue };
            let scale = self.weight(fade, own, all);
            self.map(sum.target, Expr::Binary(BinaryOp::Mul, Box::new(Expr::Var(sum.target)), Box::new(scale)));
        }
        self.map(own, Expr::Var(all));
    }

    fn spread_one(&mut self, op: ReduceOp, target: VarId, along: Along) {
        if let Domain::Rows(layout) | Domain::Cols(layout) = self.program.var(target).domain {
            self.scratch = self.scratch.max(self.reduction_bytes(Domain::Tile(layout), along));
        }
        self.out.push(Stmt::Spread { op, target, along });
    }
}

#[cfg(test)]
mod tests;
