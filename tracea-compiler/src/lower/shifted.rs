//! Products of what a step has computed, one step later: while they run, the next step works out what to multiply.
//!
//! ```text
//! for step {                                 the first step: s = q · k;  p = …;  pack p
//!     wait for k;  s = q · k                 for each other step {
//!     p = …                                      wait for k;  issue s = q · k
//!     acc = acc * fade              becomes      wait for v;  issue acc += packed · v        of the step before
//!     wait for v;  acc += p · v                  wait for s;  p = …                          beside that product
//! }                                              wait for acc;  pack p;  acc = acc * fade
//!                                            }
//!                                            wait for v;  acc += packed · v                  of the last step
//! ```
//! The operand that is multiplied a step later comes by a ring that is counted for itself, so that both roles keep their order. What all steps
//! read, but for that last product, is given back as soon as the last step has read it: the next tile's comes while this one's is finished.
//!
//! Where the order of the steps is free and the last one may reach past an axis' end, it comes first: of all steps it is the one that is
//! there apart, so that the others need not know of the end.

use super::Lowering;
use super::analysis::OperandSource;
use super::loops::Level;
use super::rejoined;
use super::rings::{Group, Site};
use super::values::scalar_of;
use crate::nest::ValueId;
use crate::program::pressure::{self, mentions, reads, writes};
use crate::program::{Dot, IntText, MathUnit, Operand, PingPong, Stmt, VarId};
use crate::schedule::{WARPGROUP, room};

/// A step's statements, as far as the last product takes part.
struct Parts {
    /// Up to the last product and behind it, without what follows here.
    before: Vec<Stmt>,
    behind: Vec<Stmt>,
    /// What else is done to the product's accumulators.
    scalings: Vec<Stmt>,
    last: Dot,
    /// What the last product multiplies.
    value: VarId,
    group: Group,
    /// What clears the operand's rows past a loop's end.
    clear: Option<Stmt>,
}

impl Lowering<'_> {
    /// Whether the last of these dots multiplies what others lead to, so that what it takes from a ring is to be counted for itself.
    pub fn may_be_shifted(&self, dots: &[ValueId]) -> bool {
        let Some((last, others)) = dots.split_last() else { return false };
        let computed =
            |dot: &ValueId| self.facts.dot(*dot).is_some_and(|fact| matches!(fact.a, OperandSource::Computed { .. }));
        !others.is_empty() && computed(last) && self.schedule.stages > 1
    }

    /// Whether the loop that feeds these dots may begin with its last step, and has a reason to: that reaches past the end.
    pub fn may_run_backwards(&self, levels: &[Level], dots: &[ValueId]) -> bool {
        let [Level { inner, .. }] = levels else { return false };
        self.may_be_shifted(dots) && self.partial(inner.axis) && rejoined::find(self.nest, inner, inner).is_some()
    }

    /// The loop over the steps with its last product a step behind, where registers have room for that.
    pub fn shifted(&mut self, body: &[Stmt], site: &Site, steps: &str, levels: &[Level]) -> Option<Vec<Stmt>> {
        let parts = self.parts(body, site)?;
        let declared = self.program.vars.len();
        let shifted = self.around(parts, steps, levels, site);
        if shifted.is_none() {
            self.program.vars.truncate(declared);
        }
        shifted
    }

    fn around(&mut self, parts: Parts, steps: &str, levels: &[Level], site: &Site) -> Option<Vec<Stmt>> {
        let Parts { before, behind, scalings, last, value, group, clear } = parts;
        let Operand::Registers { ty, .. } = last.a else { return None };
        let domain = self.program.var(value).domain;
        let name = format!("{}_operand", self.program.var(value).name);
        let operand = self.declare(&name, scalar_of(ty), domain);
        self.out.pop();
        let acc = last.target;

        let issue = |stmts: &mut Vec<Stmt>| {
            stmts.extend(group.count.position());
            stmts.push(Stmt::WaitFull(group.turn()));
            stmts.push(Stmt::Dot(Dot { a: Operand::Packed { operand }, ..last.clone() }));
        };
        let finish = |stmts: &mut Vec<Stmt>| {
            stmts.push(Stmt::DotWait { pending: 0, results: vec![acc, operand] });
            stmts.push(Stmt::Release(group.turn()));
            stmts.push(group.count.advance());
        };
        let pack = Stmt::Pack { value, operand };

        // Of one loop, the last step alone comes to its end.
        let (mut ends, mut in_loop, mut in_first) = (Vec::new(), None, None);
        if site.backwards {
            in_first = clear;
        } else {
            in_loop = clear;
        }
        if let [level] = levels
            && let Some(clear) = in_loop.take()
        {
            let start = format!("{}0", self.names.axis(level.inner.axis));
            let last = IntText::name(steps).minus(IntText::Const(1));
            ends.push(Stmt::Let { name: "step".into(), value: last });
            ends.extend(before.iter().find(|stmt| matches!(stmt, Stmt::Let { name, .. } if *name == start)).cloned());
            ends.push(clear);
        }

        let left_early: Vec<Stmt> = site.left_early(group.last).map(|group| Stmt::Release(group.turn())).collect();
        let last_step = |until: IntText| Stmt::If {
            condition: IntText::Less(Box::new(IntText::name(steps)), Box::new(until)),
            body: left_early.clone(),
        };
        let product = before.iter().rposition(|stmt| matches!(stmt, Stmt::Dot(_)))?;
        let multiplied = before[product..].iter().position(|stmt| matches!(stmt, Stmt::DotWait { .. }))? + product;

        let mut first = vec![Stmt::Let { name: "step".into(), value: IntText::Const(0) }];
        first.extend(before[..=multiplied].iter().cloned());
        if !left_early.is_empty() {
            first.push(last_step(IntText::Const(2)));
        }
        first.extend(before[multiplied + 1..].iter().cloned());
        first.push(pack.clone());
        first.extend(scalings.iter().cloned());
        first.extend(in_loop.iter().chain(&in_first).chain(&behind).cloned());

        let (until, from) = before.split_at(product);
        let mut step = until.to_vec();
        let warpgroups = Some(self.schedule.threads() / WARPGROUP).filter(|warpgroups| *warpgroups > 1);
        step.extend(warpgroups.map(|warpgroups| Stmt::PingPong(PingPong::Take, warpgroups)));
        step.extend(from.first().cloned());
        issue(&mut step);
        step.extend(warpgroups.map(|warpgroups| Stmt::PingPong(PingPong::Pass, warpgroups)));
        for (at, stmt) in before.iter().enumerate().skip(product + 1) {
            step.push(match stmt {
                Stmt::DotWait { pending: 0, results } => Stmt::DotWait { pending: 1, results: results.clone() },
                other => other.clone(),
            });
            if at == multiplied && !left_early.is_empty() {
                step.push(last_step(IntText::name("step").plus(IntText::Const(2))));
            }
        }
        if let ([level], true) = (levels, site.backwards) {
            step.retain(|stmt| !matches!(stmt, Stmt::MaskEdge { axis, .. } if *axis == level.inner.axis));
        }
        finish(&mut step);
        step.push(pack);
        step.extend(scalings);
        step.extend(in_loop.into_iter().chain(behind));

        let mut after = ends;
        issue(&mut after);
        finish(&mut after);

        let any = || IntText::Less(Box::new(IntText::Const(0)), Box::new(IntText::name(steps)));
        let mut shifted = vec![
            Stmt::DeclareOperand(operand),
            Stmt::If { condition: any(), body: first },
            Stmt::For {
                var: "step".into(),
                from: IntText::Const(1),
                until: IntText::name(steps),
                step: IntText::Const(1),
                unroll: false,
                body: step,
            },
            Stmt::If { condition: any(), body: after },
        ];
        if !left_early.is_empty() {
            shifted.push(last_step(IntText::Const(1)));
        }
        let fits = pressure::peak_within(&self.program, &shifted) <= room::registers_of(self.schedule);
        if !fits {
            return None;
        }
        self.program.pingpong = warpgroups.or(self.program.pingpong);
        Some(shifted)
    }

    /// Takes a step apart; none where its last product cannot wait.
    fn parts(&self, body: &[Stmt], site: &Site) -> Option<Parts> {
        let dots: Vec<usize> = (0..body.len()).filter(|at| matches!(body[*at], Stmt::Dot(_))).collect();
        let [.., _, at] = dots[..] else { return None };
        let Stmt::Dot(last) = &body[at] else { return None };
        let Operand::Registers { value, .. } = last.a else { return None };
        let by_tensor_cores = last.unit == MathUnit::Wgmma && !last.overwrite;
        let ring =
            body[at..].iter().find_map(|stmt| if let Stmt::Release(turn) = stmt { Some(turn.ring) } else { None })?;
        let group = site.moving.iter().find(|group| group.ring == ring && group.first == group.last)?;
        let alone = site.moving.iter().filter(|other| other.count == group.count).count() == 1;
        if !by_tensor_cores || !alone || group.count.stages < 2 {
            return None;
        }
        let clear = self.cleared(group);
        let own = |stmt: &Stmt| match stmt {
            _ if Some(stmt) == clear.as_ref() => true,
            Stmt::WaitFull(turn) | Stmt::Release(turn) => turn.ring == ring,
            Stmt::DotWait { results, .. } => results.contains(&last.target),
            Stmt::Dot(dot) => dot == last,
            other => *other == group.count.advance() || group.count.position().contains(other),
        };
        // Also where only some steps do.
        let scales = |stmt: &Stmt| match stmt {
            Stmt::If { body, .. } => body.iter().all(|inner| writes(inner) == Some(last.target)),
            Stmt::Map { target, .. } => *target == last.target,
            _ => false,
        };
        let needed = |stmt: &Stmt| match stmt {
            Stmt::If { body, .. } => body.iter().flat_map(reads).collect(),
            other => reads(other),
        };
        let (mut before, mut behind, mut scalings): (Vec<Stmt>, Vec<Stmt>, Vec<Stmt>) = Default::default();
        for (place, stmt) in body.iter().enumerate() {
            if own(stmt) {
                continue;
            }
            if place < at && scales(stmt) {
                scalings.push(stmt.clone());
                continue;
            }
            // What scales the accumulators stays as it is until they are.
            let changed = writes(stmt).is_some_and(|var| scalings.iter().any(|scaling| needed(scaling).contains(&var)));
            if mentions(stmt, last.target) || place < at && changed {
                return None;
            }
            if place < at { &mut before } else { &mut behind }.push(stmt.clone());
        }
        let waits = before.iter().any(|stmt| matches!(stmt, Stmt::DotWait { pending: 0, .. }));
        waits.then(|| Parts { before, behind, scalings, last: last.clone(), value, group: group.clone(), clear })
    }
}

#[cfg(test)]
mod tests;
