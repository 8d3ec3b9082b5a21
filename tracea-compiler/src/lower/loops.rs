//! Loops, and the rings that keep a dot's operands coming.
//!
//! ```text
//! for k { acc += dot(a[(i, k)], b[(k, j)]) }
//! ```
//! becomes, with `stages` slots a buffer,
//! ```text
//! for stage in 0..stages-1 { copy step `stage` into slot `stage`; commit }
//! for step {
//!     wait until the step's copies have landed; barrier
//!     copy step `step + stages - 1` into the slot that the last step has left; commit
//!     dot from slot `step % stages`
//! }
//! ```
//! Loops that hold nothing but another loop run as one loop over the product of their steps, so that the ring never drains
//! between them. Operands that no loop variable moves are copied once, before the ring starts.

use super::Lowering;
use super::analysis::{OperandSource, depends_on, is_tiled};
use super::params::{blocks_name, divisor_name, extent_dims};
use super::roles::{Role, step_loop};
use super::streams::Stream;
use super::values::scalar_of;
use crate::nest::{AxisId, Block, Dtype, Int, IntOp, Loop, Op, Stmt as NestStmt, ValueId};
use crate::program::shared::SharedId;
use crate::program::{Divisor, Expr, IntText, Stmt, VarId};
use crate::schedule::{self, ScheduleError};

/// A tensor's operand tile in shared memory.
#[derive(Clone, Debug)]
pub struct Resident {
    pub load: ValueId,
    pub rows: AxisId,
    pub cols: AxisId,
    pub shared: SharedId,
    pub slot: Option<IntText>,
}

impl Resident {
    pub fn matches(&self, other: &Resident) -> bool {
        (self.load, self.rows, self.cols) == (other.load, other.rows, other.cols)
    }
}

/// One loop of a nest, with the names of its first and last coordinate.
pub struct Level<'n> {
    pub inner: &'n Loop,
    from: IntText,
    pub steps: IntText,
}

impl Lowering<'_> {
    /// `home` is the block that the loop stands in.
    pub fn run_loop(&mut self, outer: &Loop, home: &Block, streams: &[Stream]) -> Result<(), ScheduleError> {
        let levels = nest_of(outer);
        let fed = self.operands_of(levels[levels.len() - 1]);

        self.find_hidden(outer, levels[levels.len() - 1]);
        self.bound_extremes(outer, levels[levels.len() - 1]);
        let running = self.start_running(outer, home)?;
        for level in &levels {
            for (carried, var) in level.carried.iter().zip(&running) {
                self.vars.insert(carried.head, *var);
                self.vars.insert(carried.result, *var);
            }
        }
        let bounded: Vec<Level> = levels.iter().map(|level| self.bounds_of(level)).collect();
        let before = self.operands.len();
        self.masked.clear();
        let shares = self.find_shares(outer, levels[levels.len() - 1], &running);
        self.shares.extend(&shares);
        let from = self.out.len();
        match (fed.is_empty(), self.role) {
            (true, _) if !streams.is_empty() => self.stream(&bounded, streams, &running)?,
            (true, _) => {
                self.plain(&bounded, &running)?;
                self.hold_rows(from);
            }
            (false, Role::All) => self.ring(&bounded, fed, &running)?,
            (false, _) => self.consume(&bounded, fed, &running)?,
        }
        self.spread(&shares);
        if self.is_split(outer.axis) {
            self.join_parts(&running);
        }
        self.operands.truncate(before);
        self.masked.clear();
        for level in &levels {
            self.shifted.remove(&level.axis);
            self.off_vectors.remove(&level.axis);
            self.limited.remove(&level.axis);
        }
        Ok(())
    }

    /// Gives each loop-carried variable its registers and its first value.
    fn start_running(&mut self, outer: &Loop, home: &Block) -> Result<Vec<VarId>, ScheduleError> {
        let mut running = Vec::new();
        for carried in &outer.carried {
            let domain = self.domain(carried.head);
            let ty = scalar_of(self.nest.value(carried.head).ty.dtype);
            if home.stmts.contains(&NestStmt::Value(carried.init))
                && self.finite_start(outer, carried).is_none()
                && let Some(var) = self.given_up(carried.init)
                && (self.program.var(var).domain, self.program.var(var).ty) == (domain, ty)
            {
                running.push(var);
                continue;
            }
            let first = match self.finite_start(outer, carried) {
                Some(number) => Expr::Number(number),
                None => self.expr(carried.init, domain)?,
            };
            let var = self.declare(&carried.name, ty, domain);
            self.map(var, first);
            running.push(var);
        }
        Ok(running)
    }

    pub fn finish_running(&mut self, inner: &Loop, running: &[VarId]) -> Result<(), ScheduleError> {
        let mut moves = Vec::new();
        for (carried, var) in inner.carried.iter().zip(running) {
            let domain = self.program.var(*var).domain;
            let value = self.expr(carried.next, domain)?;
            if value != Expr::Var(*var) {
                moves.push((*var, value));
            }
        }
        // Values that change places pass through copies.
        for at in 0..moves.len() {
            let Expr::Var(from) = moves[at].1 else { continue };
            if moves[..at].iter().any(|(to, _)| *to == from) {
                let source = self.program.var(from).clone();
                let copy = self.declare(&source.name, source.ty, source.domain);
                self.map(copy, Expr::Var(from));
                moves[at].1 = Expr::Var(copy);
            }
        }
        // Copies are taken before any variable changes.
        for (var, value) in moves {
            self.map(var, value);
        }
        Ok(())
    }

    /// Names the loop's limits where they are not 0 and the extent.
    pub fn bounds_of<'n>(&mut self, inner: &'n Loop) -> Level<'n> {
        let axis = inner.axis;
        let stem = self.names.axis(axis).to_string();
        if let Some(until) = &inner.until {
            let inside =
                matches!(until, Int::BlockEnd(other) if self.nest.axis(*other).extent == self.nest.axis(axis).extent);
            let value = match inside {
                true => IntText::Int(until.clone()),
                false => IntText::Min(Box::new(IntText::Int(until.clone())), Box::new(IntText::Extent(axis))),
            };
            self.out.push(Stmt::Let { name: format!("{stem}_end"), value });
            if !self.ends_with_a_step(inner) {
                self.limited.insert(axis);
                if !self.program.limited.contains(&axis) {
                    self.program.limited.push(axis);
                }
            }
        }
        let from = match &inner.from {
            Some(from) => {
                let value = match from {
                    Int::Binary(IntOp::Max, _, least) if **least == Int::Const(0) => IntText::Int(from.clone()),
                    _ => IntText::Max(Box::new(IntText::Int(from.clone())), Box::new(IntText::Const(0))),
                };
                let name = format!("{stem}_from");
                self.out.push(Stmt::Let { name: name.clone(), value });
                self.shifted.insert(axis);
                if !self.begins_on_vectors(from) {
                    self.off_vectors.insert(axis);
                }
                IntText::Name(name)
            }
            None => IntText::Const(0),
        };
        let limit = self.limit_of(inner);
        let span = match &from {
            IntText::Const(0) => limit,
            _ => IntText::Sub(Box::new(limit), Box::new(from.clone())),
        };
        let steps = match self.schedule.blocks[axis.index()] {
            Some(block) if is_tiled(self.nest, axis) => IntText::CeilDiv(Box::new(span), block),
            _ => span,
        };
        Level { inner, from, steps }
    }

    /// The name and value of a loop's variable at one of its steps.
    fn coordinate(&self, level: &Level, step: IntText) -> Stmt {
        let axis = level.inner.axis;
        let stem = self.names.axis(axis);
        if is_tiled(self.nest, axis) {
            let block = self.schedule.blocks[axis.index()].unwrap_or(1);
            Stmt::Let { name: format!("{stem}0"), value: level.from.clone().plus(step.times(block)) }
        } else {
            Stmt::Let { name: stem.to_string(), value: level.from.clone().plus(step) }
        }
    }

    /// Loops as they are written; those that hold nothing but the next share their running variables.
    fn plain(&mut self, levels: &[Level], running: &[VarId]) -> Result<(), ScheduleError> {
        let [level, deeper @ ..] = levels else { return Ok(()) };
        if deeper.is_empty() && self.has_edge(level) {
            return self.edged(level, running);
        }
        let body = self.nested(|this| {
            if !deeper.is_empty() {
                return this.plain(deeper, running);
            }
            this.await_kept(level.inner.axis);
            let step = this.nested(|this| {
                this.block(&level.inner.body)?;
                this.finish_running(level.inner, running)
            })?;
            let step = this.where_columns_are(level.inner, step);
            this.out.extend(step);
            Ok(())
        })?;
        self.plain_loop(level, body);
        Ok(())
    }

    /// A loop by blocks, or one by one, in one variable.
    pub fn plain_loop(&mut self, level: &Level, body: Vec<Stmt>) {
        let axis = level.inner.axis;
        let stem = self.names.axis(axis).to_string();
        let tiled = is_tiled(self.nest, axis);
        let (from, until) = self.plain_range(level);
        self.out.push(Stmt::For {
            var: if tiled { format!("{stem}0") } else { stem },
            from,
            until,
            step: IntText::Const(if tiled { self.schedule.blocks[axis.index()].unwrap_or(1).into() } else { 1 }),
            unroll: false,
            body,
        });
    }

    /// Where this block's part of such a loop begins and ends.
    pub fn plain_range(&self, level: &Level) -> (IntText, IntText) {
        let axis = level.inner.axis;
        match self.split_range.clone().filter(|_| self.is_split(axis)) {
            Some((first, until)) => (IntText::Name(first), IntText::Name(until)),
            None if level.inner.until.is_some() => (level.from.clone(), self.limit_of(level.inner)),
            None => (self.skewed_start(axis).unwrap_or(level.from.clone()), IntText::Extent(axis)),
        }
    }

    fn ring(&mut self, levels: &[Level], fed: Vec<(Resident, Dtype)>, running: &[VarId]) -> Result<(), ScheduleError> {
        let axes: Vec<AxisId> = levels.iter().map(|level| level.inner.axis).collect();
        let (moving, fixed): (Vec<_>, Vec<_>) = fed.into_iter().partition(|(resident, _)| self.moves(resident, &axes));
        let stages = self.schedule.stages;
        if stages < 2 && !moving.is_empty() {
            return Err(ScheduleError::about(
                "stages",
                "a loop that feeds a dot needs a ring -- use stages = 2 or more",
            ));
        }
        for (wanted, dtype) in fixed {
            let resident = self.fetch(wanted, dtype, 1, None);
            self.operands.push(resident);
        }
        if moving.is_empty() {
            self.out.push(Stmt::Commit);
            self.out.push(Stmt::Wait(0));
        }

        let steps = self.total_steps(levels);

        let mut ring = Vec::new();
        for (mut wanted, dtype) in moving {
            self.make_buffer(&mut wanted, dtype, stages, "ring");
            wanted.slot = Some(IntText::name("slot"));
            ring.push(wanted);
        }
        let mut once = Vec::new();
        let body = |this: &mut Self| {
            this.coordinates(levels, IntText::name("step"));
            this.operands.extend(ring.iter().cloned());
            let step = this.product_step(levels, running, &mut once)?;
            this.out.extend(step);
            Ok(())
        };
        if ring.is_empty() {
            let body = self.nested(body)?;
            self.out.extend(once);
            self.out.push(step_loop(steps, body));
            return Ok(());
        }
        let before = self.out.len();
        self.ahead(stages, steps, |this, step, slot| this.fill(levels, &ring, step, slot), body)?;
        self.out.splice(before..before, once);
        self.out.push(Stmt::Wait(0));
        Ok(())
    }

    /// What a step does of a loop that brings a dot's operands; what is done once, before the loop, goes to `once`.
    pub fn product_step(
        &mut self,
        levels: &[Level],
        running: &[VarId],
        once: &mut Vec<Stmt>,
    ) -> Result<Vec<Stmt>, ScheduleError> {
        let (outer, inner) = (levels[0].inner, levels[levels.len() - 1].inner);
        let step = self.nested(|this| {
            this.block(&inner.body)?;
            this.finish_running(inner, running)
        })?;
        let step = self.merge_exponents(step);
        let (before, step) = self.follow_in_leaps(outer, inner, running, step);
        once.extend(before);
        Ok(step)
    }

    fn fill(&mut self, levels: &[Level], ring: &[Resident], step: &str, slot: IntText) -> Result<(), ScheduleError> {
        self.coordinates(levels, IntText::name(step));
        for resident in ring {
            self.copy(resident, Some(slot.clone()));
        }
        Ok(())
    }

    /// Takes a step of the joined loop apart into the coordinates of its levels.
    pub fn coordinates(&mut self, levels: &[Level], step: IntText) {
        let mut rest = match &self.program.split {
            Some(split) if split.axis == levels[0].inner.axis => IntText::name(&split.first).plus(step),
            _ => step,
        };
        for (at, level) in levels.iter().enumerate().rev() {
            if at == 0 {
                let stmt = self.coordinate(level, rest.clone());
                self.out.push(stmt);
                break;
            }
            let divisor = self.step_divisor(level.inner.axis);
            if divisor == Divisor::Const(1) {
                let stmt = self.coordinate(level, IntText::Const(0));
                self.out.push(stmt);
                continue;
            }
            let stmt = self.coordinate(level, IntText::Remainder(Box::new(rest.clone()), divisor.clone()));
            self.out.push(stmt);
            rest = IntText::Quotient(Box::new(rest), divisor);
        }
    }

    /// The number of steps of a whole axis, as something to divide by.
    fn step_divisor(&self, axis: AxisId) -> Divisor {
        let block = self.schedule.blocks[axis.index()].filter(|_| is_tiled(self.nest, axis)).unwrap_or(1);
        match schedule::known_extent(self.nest, axis) {
            Some(size) => Divisor::Const((size + i64::from(block) - 1) / i64::from(block)),
            None if is_tiled(self.nest, axis) => Divisor::Param(blocks_name(self.names.axis(axis))),
            None => {
                let dims = extent_dims(&self.nest.axis(axis).extent);
                Divisor::Param(divisor_name(self.names.dims(), &dims))
            }
        }
    }

    /// The tensor operands of the dots that stand in the loop's own body.
    pub fn operands_of(&self, inner: &Loop) -> Vec<(Resident, Dtype)> {
        let mut operands: Vec<(Resident, Dtype)> = Vec::new();
        for stmt in &inner.body.stmts {
            let NestStmt::Value(id) = stmt else { continue };
            let Some(dot) = self.facts.dot(*id) else { continue };
            for (source, other) in [(&dot.a, dot.m), (&dot.b, dot.n)] {
                if let OperandSource::Tensor { load, major, .. } = source {
                    let key = self.resident_key(self.first_like(*load), *major, dot.k, other);
                    if !operands.iter().any(|(known, _)| known.matches(&key)) {
                        operands.push((key, dot.dtype));
                    }
                }
            }
        }
        operands
    }

    /// Whether a loop variable changes what the operand holds.
    pub fn moves(&self, resident: &Resident, axes: &[AxisId]) -> bool {
        let Op::Load { index, .. } = &self.nest.value(resident.load).op else { return true };
        axes.iter().any(|axis| {
            resident.rows == *axis || resident.cols == *axis || index.iter().any(|int| depends_on(int, *axis))
        })
    }

    /// The first load in program order that reads the same elements: two dots share one copy.
    pub fn first_like(&self, load: ValueId) -> ValueId {
        let wanted = self.nest.value(load);
        self.facts
            .operand_loads
            .iter()
            .copied()
            .find(|other| {
                let other = self.nest.value(*other);
                other.op == wanted.op && other.ty == wanted.ty
            })
            .unwrap_or(load)
    }
}

pub fn less(name: &str, limit: &str) -> IntText {
    IntText::Less(Box::new(IntText::name(name)), Box::new(IntText::name(limit)))
}

/// The loop and the loops that each hold nothing else: they run as one, where the inner ones have all their steps each time.
pub fn nest_of(outer: &Loop) -> Vec<&Loop> {
    let mut levels = vec![outer];
    let mut current = outer;
    while let [NestStmt::Loop(inner)] = &current.body.stmts[..] {
        let passes_through = inner.carried.len() == current.carried.len()
            && inner
                .carried
                .iter()
                .zip(&current.carried)
                .all(|(inner, outer)| inner.init == outer.head && inner.result == outer.next);
        let whole = inner.from.is_none() && inner.until.is_none();
        if !passes_through || !whole {
            break;
        }
        levels.push(inner);
        current = inner;
    }
    levels
}

#[cfg(test)]
mod tests;
