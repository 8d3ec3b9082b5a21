//! One dataflow pass that places every block-wide barrier.
//!
//! A buffer's bytes are *dirty* once a thread's own writes are done (plain stores, or async copies after their wait) and
//! *busy* once a thread reads them; only a barrier makes a dirty buffer readable by others, or a busy one writable.
//! Loops are walked until the state at their head no longer changes.

use super::shared::SharedId;
use super::{Operand, Program, Stmt};
use std::collections::BTreeSet;

#[derive(Clone, Default, PartialEq)]
struct State {
    in_flight: BTreeSet<SharedId>,
    dirty: BTreeSet<SharedId>,
    busy: BTreeSet<SharedId>,
}

impl State {
    fn join(&mut self, other: &State) {
        self.in_flight.extend(&other.in_flight);
        self.dirty.extend(&other.dirty);
        self.busy.extend(&other.busy);
    }
    fn barrier(&mut self) {
        self.dirty.clear();
        self.busy.clear();
    }
}

/// Inserts [`Stmt::Barrier`] wherever a block-wide order is needed.
pub fn place(program: &mut Program) {
    let body = std::mem::take(&mut program.body);
    let mut state = State::default();
    let placed = walk(program, &body, &mut state);
    program.body = placed;
}

fn walk(program: &Program, body: &[Stmt], state: &mut State) -> Vec<Stmt> {
    let mut out = Vec::new();
    for stmt in body {
        match stmt {
            Stmt::For { var, from, until, step, unroll, body } => {
                let mut head = state.clone();
                let mut placed;
                loop {
                    let mut tail = head.clone();
                    placed = walk(program, body, &mut tail);
                    let mut joined = head.clone();
                    joined.join(&tail);
                    if joined == head {
                        break;
                    }
                    head = joined;
                }
                // The body may run no time at all: what held before may hold after.
                let mut tail = head.clone();
                walk(program, &placed, &mut tail);
                state.join(&tail);
                out.push(Stmt::For {
                    var: var.clone(),
                    from: from.clone(),
                    until: until.clone(),
                    step: *step,
                    unroll: *unroll,
                    body: placed,
                });
            }
            Stmt::If { condition, body } => {
                // Before the condition rather than under it, so that what follows need not repeat it.
                if body.iter().any(|inner| needs_barrier(program, inner, state)) {
                    out.push(Stmt::Barrier);
                    state.barrier();
                }
                let mut inner = state.clone();
                let placed = walk(program, body, &mut inner);
                state.join(&inner);
                out.push(Stmt::If { condition: condition.clone(), body: placed });
            }
            _ => {
                if needs_barrier(program, stmt, state) {
                    out.push(Stmt::Barrier);
                    state.barrier();
                }
                step(stmt, state);
                out.push(stmt.clone());
            }
        }
    }
    out
}

fn meets(program: &Program, set: &BTreeSet<SharedId>, id: SharedId) -> bool {
    set.iter().any(|other| *other == id || program.shared(*other).overlaps(program.shared(id)))
}

fn needs_barrier(program: &Program, stmt: &Stmt, state: &State) -> bool {
    match stmt {
        // The slot that a copy fills was read before the ring's last barrier, unless reads are still busy.
        Stmt::Copy(copy) => meets(program, &state.busy, copy.shared) || overlaps_dirty(program, state, copy.shared),
        Stmt::Stage { shared, .. } | Stmt::Store { staging: Some(shared), .. } => {
            meets(program, &state.busy, *shared) || meets(program, &state.dirty, *shared)
        }
        Stmt::Dot(dot) => [&dot.a, &dot.b].into_iter().any(|operand| match operand {
            Operand::Shared { shared, .. } => meets(program, &state.dirty, *shared),
            Operand::Registers { .. } => false,
        }),
        _ => false,
    }
}

/// Another buffer's unread writes on the same bytes.
fn overlaps_dirty(program: &Program, state: &State, id: SharedId) -> bool {
    state.dirty.iter().any(|other| *other != id && program.shared(*other).overlaps(program.shared(id)))
}

fn step(stmt: &Stmt, state: &mut State) {
    match stmt {
        Stmt::Copy(copy) => {
            state.in_flight.insert(copy.shared);
        }
        Stmt::Wait(_) => {
            let landed = std::mem::take(&mut state.in_flight);
            state.dirty.extend(landed);
        }
        Stmt::Barrier => state.barrier(),
        Stmt::Stage { shared, .. } => {
            state.dirty.insert(*shared);
        }
        // The staged store has its own barrier between writing and reading; its last act is a read.
        Stmt::Store { staging: Some(shared), .. } => {
            state.barrier();
            state.busy.insert(*shared);
        }
        Stmt::Dot(dot) => {
            for operand in [&dot.a, &dot.b] {
                if let Operand::Shared { shared, .. } = operand {
                    state.busy.insert(*shared);
                }
            }
        }
        _ => {}
    }
}
