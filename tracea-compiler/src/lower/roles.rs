//! Warp roles: what a producer fills, and when consumers may read it.
//!
//! ```text
//! for k { acc += dot(a[(i, k)], b[(k, j)]) }
//! ```
//! becomes two programs that share rings of `stages` slots,
//! ```text
//! producer                                   consumers
//! for step {                                 for step {
//!     acquire slot (wait until empty)            wait until the slot is full
//!     copy a and b into the slot                 dot from the slot
//!     publish (full once they land)              release the slot (empty)
//! }                                          }
//! ```
//! The nest is walked once for each role. Buffers that the same dots read first and last share a ring, so that GEMM's A and B
//! wait once; attention's K and V stay apart, so that V may still be on its way while K is multiplied. Counters run on across
//! everything that a ring is used for, so that no loop has to drain one.

use super::Lowering;
use super::analysis::{OperandSource, inner_sum};
use super::loops::{Level, Resident};
use super::rings::{Count, Group, Site, SiteKey};
use crate::nest::{AxisId, Block, Dtype, Loop, Op, Stmt as NestStmt, ValueId};
use crate::program::{BulkCopy, BulkForm, IntText, Premise, Ring, RingId, Stmt, VarId};
use crate::schedule::ScheduleError;

/// Whose statements a walk over the nest writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Every thread does everything.
    All,
    Consumer,
    Producer,
}

/// Operands that the same dots read first and last.
struct Together {
    operands: Vec<(Resident, Dtype)>,
    first: ValueId,
    last: ValueId,
}

impl Lowering<'_> {
    /// Groups a loop's operands into rings, and makes their buffers or takes those of a loop before.
    fn open_site(&mut self, key: SiteKey, dots: &[ValueId], fed: Vec<(Resident, Dtype)>, axes: &[AxisId]) -> Site {
        let (mut fixed, mut moving): (Vec<Together>, Vec<Together>) = (Vec::new(), Vec::new());
        for (operand, dtype) in fed {
            let readers: Vec<ValueId> = dots.iter().copied().filter(|dot| self.reads(*dot, &operand)).collect();
            let (Some(first), Some(last)) = (readers.first().copied(), readers.last().copied()) else { continue };
            let groups = if self.moves(&operand, axes) { &mut moving } else { &mut fixed };
            match groups.iter_mut().find(|group| (group.first, group.last) == (first, last)) {
                Some(group) => group.operands.push((operand, dtype)),
                None => groups.push(Together { operands: vec![(operand, dtype)], first, last }),
            }
        }
        let stem = match key {
            SiteKey::Loop(axis) => self.names.axis(axis).to_string(),
            SiteKey::Dot(_) => "once".to_string(),
        };
        let visits = Count::visits(self.names.fresh(&format!("{stem}_visits")));
        let fixed = self.make_rings(fixed, &visits, "shared");
        // What passes by one ring alone is counted for that ring alone.
        let panels_pass = !self.epilogues.is_empty() && !self.schedule.pingpong;
        let apart = moving.len() > 1 && (panels_pass || self.may_be_shifted(dots));
        let moving = match self.ring_of_before(&moving, apart) {
            Some(before) => self.pass_by(&before, moving),
            None => {
                let counter = self.names.fresh(&format!("{stem}_turn"));
                let steps = Count::steps(counter, self.schedule.stages, "slot", "phase");
                let mut made = self.make_rings(moving, &steps, "ring");
                if apart {
                    for group in &mut made {
                        let stem = self.tensor_of(&group.operands[0]);
                        let [counter, slot, phase] =
                            ["turn", "slot", "phase"].map(|suffix| self.names.fresh(&format!("{stem}_{suffix}")));
                        group.count = Count::steps(counter, steps.stages, &slot, &phase);
                    }
                }
                self.program.counters.extend(Count::of(&made).iter().map(|count| count.counter().clone()));
                made
            }
        };
        self.program.counters.extend(Count::of(&fixed).iter().map(|count| count.counter().clone()));
        let mut site = Site { key, fixed, moving, backwards: false };
        for Group { operands, count, .. } in &mut site.moving {
            operands.iter_mut().for_each(|operand| operand.slot = Some(count.slot.clone()));
        }
        for group in site.moving.iter().chain(&site.fixed) {
            self.require_bulk(group);
        }
        site
    }

    fn make_rings(&mut self, groups: Vec<Together>, count: &Count, suffix: &str) -> Vec<Group> {
        let mut made = Vec::new();
        for Together { operands, first, last } in groups {
            let mut kept = Vec::new();
            for (mut operand, dtype) in operands {
                self.make_buffer(&mut operand, dtype, count.stages, suffix);
                kept.push(operand);
            }
            let ring = RingId(self.program.rings.len() as u32);
            let name = self.names.fresh(&format!("{}_ready", self.tensor_of(&kept[0])));
            self.promise("SYNCS");
            self.program.rings.push(Ring { name, stages: count.stages, bulk: None, joint: false });
            made.push(Group { ring, operands: kept, count: count.clone(), first, last });
        }
        made
    }

    /// The groups of a loop before whose tiles are the same in number, type and size: these may pass by its rings, one after the other.
    fn ring_of_before(&self, groups: &[Together], apart: bool) -> Option<Vec<Group>> {
        let alike = |(operand, dtype): &(Resident, Dtype), before: &Resident| {
            let block = |axis: AxisId| self.schedule.blocks[axis.index()].unwrap_or(1);
            let shared = self.program.shared(before.shared);
            let here = Resident { shared: before.shared, ..operand.clone() };
            let narrowed_by = |resident: &Resident| inner_sum(self.nest, self.facts, resident.cols);
            (shared.dtype, shared.rows, shared.cols) == (*dtype, block(operand.rows), block(operand.cols))
                && narrowed_by(operand) == narrowed_by(before)
                && self.short_along(operand) == self.short_along(before)
                && self.is_joint(&here) == self.is_joint(before)
        };
        let fits = |site: &&Site| {
            site.moving.len() == groups.len()
                && (Count::of(&site.moving).len() > 1) == apart
                && site.moving.iter().zip(groups).all(|(before, group)| {
                    before.operands.len() == group.operands.len()
                        && group.operands.iter().zip(&before.operands).all(|(operand, before)| alike(operand, before))
                        && self.bulk_premises(&self.pass(before, group)).is_some()
                            == self.program.ring(before.ring).bulk.is_some()
                })
        };
        self.sites.iter().find(fits).map(|site| site.moving.clone()).filter(|groups| !groups.is_empty())
    }

    fn pass_by(&self, before: &[Group], groups: Vec<Together>) -> Vec<Group> {
        before.iter().zip(&groups).map(|(before, group)| self.pass(before, group)).collect()
    }

    fn pass(&self, before: &Group, group: &Together) -> Group {
        let place = |(operand, before): (&(Resident, Dtype), &Resident)| Resident {
            shared: before.shared,
            ..operand.0.clone()
        };
        let operands = group.operands.iter().zip(&before.operands).map(place).collect();
        Group { ring: before.ring, operands, count: before.count.clone(), first: group.first, last: group.last }
    }

    /// The condition under which TMA fills the group's ring, also with what passes by it before.
    fn require_bulk(&mut self, group: &Group) {
        let Some(premises) = self.bulk_premises(group) else { return };
        let joint = group.operands.iter().any(|operand| self.is_joint(operand));
        let Ring { name, bulk, .. } = self.program.ring(group.ring);
        let condition = match *bulk {
            Some(condition) => {
                let all = &mut self.program.conditions[condition.0 as usize].all;
                let more: Vec<Premise> = premises.into_iter().filter(|premise| !all.contains(premise)).collect();
                all.extend(more);
                condition
            }
            None => self.program.require(&format!("{}_BULK", name.to_uppercase()), premises),
        };
        let ring = &mut self.program.rings[group.ring.0 as usize];
        (ring.bulk, ring.joint) = (Some(condition), joint);
    }

    fn tensor_of(&self, operand: &Resident) -> String {
        match &self.nest.value(operand.load).op {
            Op::Load { tensor, .. } => self.nest.tensor(*tensor).name.clone(),
            _ => "operand".into(),
        }
    }

    pub fn reads(&self, dot: ValueId, operand: &Resident) -> bool {
        let Some(fact) = self.facts.dot(dot) else { return false };
        [(&fact.a, fact.m), (&fact.b, fact.n)].into_iter().any(|(source, other)| match source {
            OperandSource::Tensor { load, major, .. } => {
                self.resident_key(self.first_like(*load), *major, fact.k, other).matches(operand)
            }
            OperandSource::Computed { .. } => false,
        })
    }

    /// The consumers' side of a loop that dots feed on.
    pub fn consume(
        &mut self,
        levels: &[Level],
        fed: Vec<(Resident, Dtype)>,
        running: &[VarId],
    ) -> Result<(), ScheduleError> {
        let axes: Vec<AxisId> = levels.iter().map(|level| level.inner.axis).collect();
        let innermost = levels[levels.len() - 1].inner;
        let dots = self.dots_in(&innermost.body);
        let mut site = self.open_site(SiteKey::Loop(axes[0]), &dots, fed, &axes);
        site.backwards = self.may_run_backwards(levels, &dots);
        self.enter(&site);
        let steps = self.total_steps(levels);
        self.open.push(site.clone());
        let mut once = Vec::new();
        let body = self.nested(|this| {
            this.out.extend(Count::of(&site.moving).iter().flat_map(Count::position));
            this.coordinates(levels, site.step(&steps));
            for group in &site.moving {
                this.operands.extend(group.operands.iter().cloned());
            }
            let step = this.product_step(levels, running, &mut once)?;
            this.out.extend(step);
            this.out.extend(Count::of(&site.moving).iter().map(Count::advance));
            Ok(())
        })?;
        self.open.pop();
        self.out.extend(once);
        let mut left = site.fixed.clone();
        if let Some(shifted) = self.shifted(&body, &site, &steps, levels) {
            self.out.extend(shifted);
            left.retain(|group| Some(&group.last) == dots.last());
        } else {
            let body = self.side_by_side(body);
            let body = self.beside_products(&body, &site).unwrap_or(body);
            let (body, after) = match self.overlapped(&body, &site, &steps) {
                Some(overlapped) => self.staggered(&site, &steps, overlapped),
                None => (body, Vec::new()),
            };
            self.out.push(step_loop(steps, body));
            self.out.extend(after);
        }
        self.out.extend(left.iter().map(|group| Stmt::Release(group.turn())));
        self.out.extend(Count::of(&site.fixed).iter().map(Count::advance));
        self.sites.push(site);
        Ok(())
    }

    fn enter(&mut self, site: &Site) {
        for group in &site.fixed {
            self.out.push(Stmt::WaitFull(group.turn()));
            let cleared = self.cleared(group);
            self.out.extend(cleared);
            self.operands.extend(group.operands.iter().cloned());
        }
    }

    fn leave(&mut self, site: &Site) {
        self.out.extend(site.fixed.iter().map(|group| Stmt::Release(group.turn())));
        self.out.extend(Count::of(&site.fixed).iter().map(Count::advance));
    }

    /// Before a dot: its operands have landed.
    pub fn await_operands(&mut self, dot: ValueId) {
        let Some(site) = self.open.last() else { return };
        let awaited = |group: &Group| [Stmt::WaitFull(group.turn())].into_iter().chain(self.cleared(group));
        let firsts: Vec<Stmt> = site.moving.iter().filter(|group| group.first == dot).flat_map(awaited).collect();
        self.out.extend(firsts);
    }

    /// What TMA brings from past a loop's end is cleared where it would be part of a sum: of the step whose turn is the next.
    pub fn cleared(&self, group: &Group) -> Option<Stmt> {
        let condition = self.program.ring(group.ring).bulk?;
        let clear = |operand: &Resident| {
            let axis = operand.rows;
            let limit = if self.limited.contains(&axis) { IntText::Limit(axis) } else { IntText::Extent(axis) };
            let rows = limit.minus(IntText::Start(axis));
            let block = IntText::Const(self.schedule.blocks[axis.index()].unwrap_or(1).into());
            let mut body = group.count.position();
            body.push(Stmt::WaitFull(group.turn()));
            body.push(Stmt::ClearRows { turn: group.turn(), shared: operand.shared, rows: rows.clone() });
            Stmt::If { condition: IntText::Less(Box::new(rows), Box::new(block)), body }
        };
        let extra = group.operands.iter().filter(|operand| self.sums_along(operand, operand.rows));
        let body: Vec<Stmt> = extra.filter(|operand| self.brings_extra_rows(operand)).map(clear).collect();
        (!body.is_empty()).then(|| Stmt::Where { condition, body, otherwise: Vec::new() })
    }

    /// After a dot: what it was the last to read may be overwritten.
    pub fn release_operands(&mut self, dot: ValueId) {
        let Some(site) = self.open.last() else { return };
        let lasts = site.moving.iter().filter(|group| group.last == dot);
        self.out.extend(lasts.map(|group| Stmt::Release(group.turn())));
    }

    /// A dot outside of every feeding loop waits for its operands itself.
    pub fn consume_once(&mut self, dot: ValueId, missing: Vec<(Resident, Dtype)>) -> Site {
        let site = self.open_site(SiteKey::Dot(dot), &[dot], missing, &[]);
        self.enter(&site);
        self.sites.push(site.clone());
        site
    }

    /// Its operands are given back, by blocks that leave the tile to another one before they come to the dot too.
    pub fn leave_once(&mut self, site: &Site) {
        self.leave(site);
        let turns = site.fixed.iter().map(Group::turn);
        let passed = turns.flat_map(|turn| [Stmt::WaitFull(turn.clone()), Stmt::Release(turn)]);
        let unread: Vec<Stmt> = passed.chain(Count::of(&site.fixed).iter().map(Count::advance)).collect();
        if let Some(leaving) = self.leaving() {
            leaving.extend(unread);
        }
    }

    /// The producer's side of a block: loops and copies, nothing else.
    pub fn produce(&mut self, block: &Block) -> Result<(), ScheduleError> {
        for stmt in &block.stmts {
            match stmt {
                NestStmt::Value(id) => {
                    if let Some(site) = self.sites.iter().find(|site| site.key == SiteKey::Dot(*id)).cloned() {
                        self.line(self.nest.value(*id).line);
                        self.fill_fixed(&site);
                    }
                }
                NestStmt::Loop(inner) if self.feeds(inner) => {
                    self.line(inner.line);
                    self.produce_loop(inner)?;
                }
                NestStmt::Store { tensor, value, .. } => self.fill_panels(*tensor, *value),
                NestStmt::Loop(_) => {}
            }
        }
        Ok(())
    }

    /// Whether any dot inside takes an operand from a ring.
    fn feeds(&self, outer: &Loop) -> bool {
        self.sites.iter().any(|site| site.key == SiteKey::Loop(outer.axis))
            || outer.body.stmts.iter().any(|stmt| match stmt {
                NestStmt::Value(id) => self.sites.iter().any(|site| site.key == SiteKey::Dot(*id)),
                NestStmt::Loop(inner) => self.feeds(inner),
                NestStmt::Store { .. } => false,
            })
    }

    fn produce_loop(&mut self, outer: &Loop) -> Result<(), ScheduleError> {
        let site = self.sites.iter().find(|site| site.key == SiteKey::Loop(outer.axis)).cloned();
        let levels = match site {
            Some(_) => super::loops::nest_of(outer),
            None => vec![outer],
        };
        let bounded: Vec<Level> = levels.iter().map(|level| self.bounds_of(level)).collect();
        match site {
            Some(site) => {
                self.fill_fixed(&site);
                let steps = self.total_steps(&bounded);
                let innermost = bounded[bounded.len() - 1].inner;
                let axes: Vec<AxisId> = levels.iter().map(|level| level.axis).collect();
                let bulk: Vec<_> = site.moving.iter().map(|group| self.bulk_copies(group, &axes)).collect();
                let body = self.nested(|this| {
                    this.out.extend(Count::of(&site.moving).iter().flat_map(Count::position));
                    this.coordinates(&bounded, site.step(&steps));
                    for (group, copies) in site.moving.iter().zip(bulk) {
                        this.fill_group(group, copies);
                    }
                    this.out.extend(Count::of(&site.moving).iter().map(Count::advance));
                    this.produce(&innermost.body)
                })?;
                self.out.push(step_loop(steps, body));
            }
            None => {
                self.share_plain(outer);
                let body = self.nested(|this| this.produce(&outer.body))?;
                self.plain_loop(&bounded[0], body);
            }
        }
        for level in &levels {
            self.shifted.remove(&level.axis);
            self.off_vectors.remove(&level.axis);
            self.limited.remove(&level.axis);
        }
        Ok(())
    }

    fn fill_fixed(&mut self, site: &Site) {
        for group in &site.fixed {
            let copies = self.bulk_copies(group, &[]);
            self.fill_group(group, copies);
        }
        self.out.extend(Count::of(&site.fixed).iter().map(Count::advance));
    }

    fn fill_group(&mut self, group: &Group, bulk: Vec<BulkCopy>) {
        let turn = group.turn();
        self.out.push(Stmt::Acquire(turn.clone()));
        let outer = std::mem::take(&mut self.out);
        let promised = self.program.promised_sass.clone();
        let mut copies = Vec::new();
        for operand in &group.operands {
            self.copy(operand, operand.slot.clone());
            if let Some(Stmt::Copy(copy)) = self.out.last() {
                copies.push(copy.source.clone());
            }
        }
        self.out.push(Stmt::Publish { turn: turn.clone(), copies });
        let by_threads = std::mem::replace(&mut self.out, outer);
        let Some(condition) = self.program.ring(turn.ring).bulk else { return self.out.extend(by_threads) };
        // Code for tensors that TMA can fetch holds nothing of the other way.
        self.program.promised_sass = promised;
        self.promise("UTMALDG");
        if bulk.iter().any(|copy| copy.part.is_some()) {
            self.promise(".MULTICAST");
        }
        if bulk.iter().any(|copy| matches!(copy.form, BulkForm::Window { .. })) {
            self.promise(".IM2COL");
        }
        let body = vec![Stmt::Bulk { turn, copies: bulk, waits: false }];
        self.out.push(Stmt::Where { condition, body, otherwise: by_threads });
    }

    /// Rows past a loop's end that still lie in the tensor do no harm where they are no part of a sum, or meet zeros there.
    pub fn ignores_extra_rows(&self, operand: &Resident) -> bool {
        self.facts.dots.iter().filter(|dot| self.reads(dot.value, operand)).all(|dot| {
            dot.k != operand.rows
                || matches!(dot.a, OperandSource::Computed { .. })
                || matches!(dot.b, OperandSource::Computed { .. })
        })
    }

    pub fn sums_along(&self, operand: &Resident, axis: AxisId) -> bool {
        self.facts.dots.iter().any(|dot| dot.k == axis && self.reads(dot.value, operand))
    }

    pub fn dots_in(&self, block: &Block) -> Vec<ValueId> {
        block
            .stmts
            .iter()
            .filter_map(|stmt| match stmt {
                NestStmt::Value(id) => self.facts.dot(*id).map(|_| *id),
                _ => None,
            })
            .collect()
    }

    pub fn total_steps(&mut self, levels: &[Level]) -> String {
        let total = levels[1..].iter().fold(levels[0].steps.clone(), |product, level| {
            IntText::Mul(Box::new(product), Box::new(level.steps.clone()))
        });
        let steps = self.names.fresh("steps");
        if self.is_split(levels[0].inner.axis) {
            let all = self.names.fresh("all_steps");
            self.out.push(Stmt::Let { name: all.clone(), value: total });
            let value = self.share_of(IntText::name(all));
            self.out.push(Stmt::Let { name: steps.clone(), value });
        } else {
            self.out.push(Stmt::Let { name: steps.clone(), value: total });
        }
        steps
    }
}

pub fn step_loop(steps: String, body: Vec<Stmt>) -> Stmt {
    Stmt::For {
        var: "step".into(),
        from: IntText::Const(0),
        until: IntText::Name(steps),
        step: IntText::Const(1),
        unroll: false,
        body,
    }
}

#[cfg(test)]
mod tests {
    use crate::program::{Program, Stmt};
    use crate::testing::{flat, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn product(a: TokenStream, b: TokenStream) -> Program {
        program(quote! {
            #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4)]
            fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, c: &mut Tensor<f32, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(#a, #b); });
                    c[(i, j)] = acc;
                });
            }
        })
    }

    /// The condition under which one thread makes all copies.
    fn alone(program: &Program) -> Option<&str> {
        let alone = program.producer.as_ref().expect("warp roles").alone?;
        Some(&program.condition(alone.condition).name)
    }

    #[test]
    fn one_thread_copies_where_tma_fills_every_ring() {
        assert_eq!(alone(&product(quote!(a[(i, k)]), quote!(b[(k, j)]))), Some("A_READY_BULK"));
        // Every other row is no box.
        assert_eq!(alone(&product(quote!(a[(i * 2, k)]), quote!(b[(k, j)]))), None);
    }

    #[test]
    fn a_producer_of_nothing_does_nothing() {
        let program = product(quote!(a[(i, k)].exp()), quote!(b[(k, j)].exp()));
        assert!(program.rings.is_empty());
        assert_eq!(alone(&program), None);
        assert!(program.producer.expect("warp roles").body.is_empty());
    }

    #[test]
    fn buffers_of_one_ring_wait_together() {
        let program = product(quote!(a[(i, k)]), quote!(b[(k, j)]));
        let waited: Vec<_> = flat(&program.body)
            .into_iter()
            .filter_map(|stmt| if let Stmt::WaitFull(turn) = stmt { Some(turn.buffers.clone()) } else { None })
            .map(|buffers| buffers.iter().map(|id| program.shared(*id).name.clone()).collect::<Vec<_>>())
            .collect();
        assert_eq!(waited, [["a_ring", "b_ring"]]);
    }
}
