//! One dataflow pass that places every barrier among threads and every fence between the proxies.
//!
//! A buffer's bytes are *dirty* once a thread's own writes are done (plain stores, or async copies after their wait) and
//! *busy* once a thread reads them; only a barrier makes a dirty buffer readable by others, or a busy one writable. What threads
//! write is *unfenced* until a fence; only then may the tensor cores or TMA read it (PTX ISA, "Async proxy").
//!
//! ```text
//! stage a                    stage a
//! dot a      by wgmma   →    fence      the writers', before the barrier that publishes
//!                            barrier
//!                            dot a
//! ```
//! A ring's slot is published by its full barrier, at which a producer arrives when its cp.async have landed, without waiting for
//! them: there the fence is the readers', after their wait, unless TMA fills the ring. A slot that threads have read, be it one tile of
//! several, is free for TMA when all of a warp have, whose first lane says so, and after a fence, while a product that reads beside them runs.
//!
//! Loops are walked until the state at their head no longer changes.

use super::effects::{Effect, effects};
use super::shared::SharedId;
use super::{ConditionId, Program, Scope, Stmt, StoreWay, Turn};
use std::collections::{BTreeMap, BTreeSet};

/// Inserts [`Stmt::Barrier`] and [`Stmt::Fence`] wherever they are needed.
pub fn place(program: &mut Program) {
    let body = std::mem::take(&mut program.body);
    let mut readers = Readers::default();
    find_readers(&body, None, &mut readers);
    program.body = Pass { program, readers }.walk(&body, &mut State::default());
}

#[derive(Default)]
struct Readers {
    /// Buffers that the asynchronous proxy reads, always or under a condition.
    asynchronous: BTreeMap<SharedId, BTreeSet<Option<ConditionId>>>,
    /// Those that threads read.
    threads: BTreeSet<SharedId>,
}

fn find_readers(body: &[Stmt], under: Option<ConditionId>, readers: &mut Readers) {
    for stmt in body {
        for effect in effects(stmt) {
            match effect {
                Effect::AsyncRead(id) => {
                    readers.asynchronous.entry(id).or_default().insert(under);
                }
                Effect::Read(id) => {
                    readers.threads.insert(id);
                }
                _ => {}
            }
        }
        match stmt {
            Stmt::Where { condition, body, otherwise } => {
                find_readers(body, Some(*condition), readers);
                find_readers(otherwise, None, readers);
            }
            _ => stmt.bodies().into_iter().for_each(|body| find_readers(body, under, readers)),
        }
    }
}

#[derive(Clone, Default, PartialEq)]
struct State {
    in_flight: BTreeSet<SharedId>,
    dirty: BTreeSet<SharedId>,
    busy: BTreeSet<SharedId>,
    /// By the condition under which the asynchronous proxy will read it.
    unfenced: BTreeSet<(SharedId, Option<ConditionId>)>,
    /// Slots of rings that threads have read since the last fence.
    read: BTreeSet<SharedId>,
}

impl State {
    fn join(&mut self, other: &State) {
        self.in_flight.extend(&other.in_flight);
        self.dirty.extend(&other.dirty);
        self.busy.extend(&other.busy);
        self.unfenced.extend(&other.unfenced);
        self.read.extend(&other.read);
    }
}

struct Pass<'p> {
    program: &'p Program,
    readers: Readers,
}

impl Pass<'_> {
    fn walk(&self, body: &[Stmt], state: &mut State) -> Vec<Stmt> {
        let mut out = Vec::new();
        for stmt in body {
            // Before a condition rather than under it, and once before all panels, so that what follows need not repeat it.
            let scope = match stmt {
                Stmt::If { .. } | Stmt::ByColumns { .. } | Stmt::ByParts { .. } | Stmt::Where { .. } => {
                    self.scope_inside(stmt, state)
                }
                Stmt::Panels { .. } => self.scope_inside(stmt, state).filter(|scope| *scope == Scope::Tile),
                _ => self.scope_before(stmt, state),
            };
            if let Some(scope) = scope {
                self.barrier(scope, state, &mut out);
            }
            // What is read beside a product is fenced while that runs.
            let frees = match stmt {
                Stmt::DotWait { .. } => !state.read.is_empty(),
                Stmt::Release(turn) => turn.buffers.iter().any(|buffer| state.read.contains(buffer)),
                _ => false,
            };
            if frees || self.reads_unfenced(stmt, state) {
                out.push(Stmt::Fence);
                self.step(&Stmt::Fence, state);
            }
            let placed = match stmt {
                Stmt::For { var, from, until, step, unroll, body } => Stmt::For {
                    var: var.clone(),
                    from: from.clone(),
                    until: until.clone(),
                    step: step.clone(),
                    unroll: *unroll,
                    body: self.walk_loop(body, state),
                },
                Stmt::ForUnits(body) => Stmt::ForUnits(self.walk_loop(body, state)),
                Stmt::Panels { count, beside, registers, body, dealt } => {
                    let body = self.walk_loop(body, state);
                    Stmt::Panels { count: *count, beside: *beside, registers: *registers, body, dealt: *dealt }
                }
                // What leaves does not come back.
                Stmt::JoinParts { values, relative, leaving } => {
                    let leaving = self.walk(leaving, &mut state.clone());
                    Stmt::JoinParts { values: values.clone(), relative: relative.clone(), leaving }
                }
                Stmt::If { condition, body } => {
                    Stmt::If { condition: condition.clone(), body: self.walk_branch(body, state) }
                }
                Stmt::ByColumns { columns, axis, layout, body } => {
                    let body = self.walk_branch(body, state);
                    Stmt::ByColumns { columns: columns.clone(), axis: *axis, layout: *layout, body }
                }
                Stmt::ByParts { layout, body } => {
                    Stmt::ByParts { layout: *layout, body: self.walk_branch(body, state) }
                }
                Stmt::Where { condition, body, otherwise } => self.walk_ways(*condition, body, otherwise, state),
                _ => {
                    self.step(stmt, state);
                    stmt.clone()
                }
            };
            if let Stmt::Release(turn) = stmt
                && turn.buffers.iter().any(|buffer| self.readers.threads.contains(buffer))
            {
                out.push(Stmt::Barrier(Scope::Warp));
            }
            out.push(placed);
            if let Stmt::WaitFull(turn) = stmt
                && self.is_read_asynchronously(turn)
            {
                out.push(self.fence_unless_bulk(turn));
            }
        }
        out
    }

    fn walk_branch(&self, body: &[Stmt], state: &mut State) -> Vec<Stmt> {
        let mut inside = state.clone();
        let body = self.walk(body, &mut inside);
        state.join(&inside);
        body
    }

    /// The body may run no time at all: what held before may hold after.
    fn walk_loop(&self, body: &[Stmt], state: &mut State) -> Vec<Stmt> {
        loop {
            let mut tail = state.clone();
            let placed = self.walk(body, &mut tail);
            tail.join(state);
            if tail == *state {
                return placed;
            }
            *state = tail;
        }
    }

    fn walk_ways(&self, condition: ConditionId, body: &[Stmt], otherwise: &[Stmt], state: &mut State) -> Stmt {
        let mut other = state.clone();
        let body = self.walk(body, state);
        let otherwise = self.walk(otherwise, &mut other);
        // Where the condition does not hold, no reader under it is left to fence for.
        other.unfenced.retain(|(_, under)| *under != Some(condition));
        state.join(&other);
        Stmt::Where { condition, body, otherwise }
    }

    /// A fence for what the barrier publishes, and the barrier.
    fn barrier(&self, scope: Scope, state: &mut State, out: &mut Vec<Stmt>) {
        let published: BTreeSet<_> = state
            .unfenced
            .iter()
            .copied()
            .filter(|(id, _)| state.dirty.contains(id) && self.orders(scope, *id))
            .collect();
        let readers: BTreeSet<Option<ConditionId>> = published.iter().map(|(_, under)| *under).collect();
        match readers.contains(&None) {
            true => out.push(Stmt::Fence),
            false => out.extend(readers.into_iter().flatten().map(|condition| {
                let (body, otherwise) = (vec![Stmt::Fence], Vec::new());
                Stmt::Where { condition, body, otherwise }
            })),
        }
        out.push(Stmt::Barrier(scope));
        state.unfenced.retain(|entry| !published.contains(entry));
        self.cross(scope, state);
    }

    fn cross(&self, scope: Scope, state: &mut State) {
        state.dirty.retain(|id| !self.orders(scope, *id));
        state.busy.retain(|id| !self.orders(scope, *id));
    }

    /// What a barrier inside of another statement has published is fenced by those who read it.
    fn reads_unfenced(&self, stmt: &Stmt, state: &State) -> bool {
        effects(stmt).into_iter().any(|effect| match effect {
            Effect::AsyncRead(id) => state.unfenced.iter().any(|(unfenced, _)| *unfenced == id),
            _ => false,
        })
    }

    /// Whether a barrier of this scope puts all accesses to the buffer in order.
    fn orders(&self, scope: Scope, id: SharedId) -> bool {
        match scope {
            Scope::Warp => false,
            Scope::Warpgroup => self.program.shared(id).is_warpgroups_own(),
            Scope::Tile => true,
        }
    }

    /// Whether the tensor cores read of what passes.
    fn is_read_asynchronously(&self, turn: &Turn) -> bool {
        turn.buffers.iter().any(|buffer| self.readers.asynchronous.contains_key(buffer))
    }

    fn fence_unless_bulk(&self, turn: &Turn) -> Stmt {
        match self.program.ring(turn.ring).bulk {
            Some(condition) => Stmt::Where { condition, body: Vec::new(), otherwise: vec![Stmt::Fence] },
            None => Stmt::Fence,
        }
    }

    fn scope_inside(&self, stmt: &Stmt, state: &State) -> Option<Scope> {
        let inside = stmt.bodies().into_iter().flatten();
        inside.filter_map(|stmt| self.scope_before(stmt, state).max(self.scope_inside(stmt, state))).max()
    }

    /// The barrier that the statement's own accesses wait for.
    fn scope_before(&self, stmt: &Stmt, state: &State) -> Option<Scope> {
        let (busy, dirty) = (|id| self.conflict(&state.busy, id), |id| self.conflict(&state.dirty, id));
        let scope = |effect| match effect {
            // The slot that a copy fills was read before the ring's last barrier, unless reads are still busy.
            Effect::Copy(id) => busy(id).max(self.conflict_with_others(&state.dirty, id)),
            Effect::Write(id) => busy(id).max(dirty(id)),
            Effect::Fill(id) => busy(id),
            Effect::Read(id) | Effect::AsyncRead(id) => dirty(id),
            Effect::Private(_) => None,
        };
        effects(stmt).into_iter().filter_map(scope).max()
    }

    /// Whom a barrier must hold up before the buffer's bytes are accessed, where they belong to one of the set.
    fn conflict(&self, set: &BTreeSet<SharedId>, id: SharedId) -> Option<Scope> {
        let scope = || if self.program.shared(id).is_warpgroups_own() { Scope::Warpgroup } else { Scope::Tile };
        let own = set.contains(&id).then(scope);
        own.max(self.conflict_with_others(set, id))
    }

    fn conflict_with_others(&self, set: &BTreeSet<SharedId>, id: SharedId) -> Option<Scope> {
        let shared = |id: SharedId| self.program.shared(id);
        // A ring's barriers say when its slots are lent.
        let lends = |to: SharedId, host: SharedId| shared(to).lent.is_some() && shared(to).host == Some(host);
        let meets = |other: &&SharedId| **other != id && !lends(**other, id) && !lends(id, **other);
        let overlaps = |other: &SharedId| shared(*other).overlaps(shared(id));
        set.iter().filter(meets).any(overlaps).then_some(Scope::Tile)
    }

    fn step(&self, stmt: &Stmt, state: &mut State) {
        match stmt {
            Stmt::Wait(_) | Stmt::WaitKept { .. } => {
                let landed = std::mem::take(&mut state.in_flight);
                state.dirty.extend(landed);
            }
            Stmt::Barrier(scope) => self.cross(*scope, state),
            Stmt::Fence => {
                state.unfenced.clear();
                state.read.clear();
            }
            // It has a barrier of its own between writing and reading.
            Stmt::Store { way: StoreWay::Staged(shared), .. } => {
                self.cross(Scope::Tile, state);
                state.busy.insert(*shared);
            }
            _ => effects(stmt).into_iter().for_each(|effect| self.apply(effect, state)),
        }
    }

    fn apply(&self, effect: Effect, state: &mut State) {
        match effect {
            Effect::Copy(id) => {
                state.in_flight.insert(id);
            }
            Effect::Write(id) => {
                state.dirty.insert(id);
                let readers = self.readers.asynchronous.get(&id).into_iter().flatten();
                state.unfenced.extend(readers.map(|under| (id, *under)));
            }
            Effect::Read(id) => {
                state.busy.insert(id);
                if self.program.shared(id).fed {
                    state.read.insert(id);
                }
            }
            Effect::AsyncRead(id) => {
                state.busy.insert(id);
            }
            Effect::Fill(_) | Effect::Private(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
