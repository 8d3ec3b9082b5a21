//! One dataflow pass that places every block-wide barrier.
//!
//! A buffer's bytes are *dirty* once a thread's own writes are done (plain stores, or async copies after their wait) and
//! *busy* once a thread reads them; only a barrier makes a dirty buffer readable by others, or a busy one writable.
//! Loops are walked until the state at their head no longer changes.

use super::shared::SharedId;
use super::{Operand, Program, Stmt, StoreWay};
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
                    step: step.clone(),
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
        Stmt::Stage { shared, .. } | Stmt::Store { way: StoreWay::Staged(shared), .. } => {
            meets(program, &state.busy, *shared) || meets(program, &state.dirty, *shared)
        }
        // Warpgroups wait for their own panels by themselves.
        Stmt::Store { way: StoreWay::Panels { staging, .. }, .. } => {
            overlaps_other(program, &state.busy, *staging) || overlaps_other(program, &state.dirty, *staging)
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
    overlaps_other(program, &state.dirty, id)
}

fn overlaps_other(program: &Program, set: &BTreeSet<SharedId>, id: SharedId) -> bool {
    set.iter().any(|other| *other != id && program.shared(*other).overlaps(program.shared(id)))
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
        Stmt::Store { way: StoreWay::Staged(shared), .. } => {
            state.barrier();
            state.busy.insert(*shared);
        }
        Stmt::Store { way: StoreWay::Panels { staging, .. }, .. } => {
            state.busy.insert(*staging);
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

#[cfg(test)]
mod tests {
    use super::place;
    use crate::nest::{AxisId, Dtype, Int, TensorId};
    use crate::program::layout::{Layout, LayoutId, LayoutKind};
    use crate::program::shared::{Shared, SharedId};
    use crate::program::{
        Access, AccessForm, Copy, Domain, Dot, IntText, Major, MathUnit, Operand, Program, Scalar, Stmt, StoreWay, Var,
        VarId,
    };
    use crate::testing::{gemm, program};
    use quote::quote;

    const A: SharedId = SharedId(0);
    const B: SharedId = SharedId(1);
    const ACC: VarId = VarId(0);

    fn access() -> Access {
        let form = AccessForm::Contiguous { rows: Some(AxisId(0)), cols: AxisId(1) };
        let index = vec![Int::Axis(AxisId(0)), Int::Axis(AxisId(1))];
        Access { tensor: TensorId(0), index, form, limits: Vec::new(), inside: Vec::new() }
    }
    fn copy(shared: SharedId) -> Stmt {
        Stmt::Copy(Copy { shared, slot: None, source: access() })
    }
    fn dot(a: SharedId, b: SharedId) -> Stmt {
        let operand = |shared| Operand::Shared { shared, slot: None, major: Major::K };
        Stmt::Dot(Dot { target: ACC, overwrite: false, k: 16, a: operand(a), b: operand(b), unit: MathUnit::Mma })
    }
    fn stage(shared: SharedId) -> Stmt {
        Stmt::Stage { value: ACC, shared }
    }
    fn store(shared: SharedId) -> Stmt {
        Stmt::Store { value: ACC, target: access(), way: StoreWay::Staged(shared) }
    }
    fn repeat(body: Vec<Stmt>) -> Stmt {
        let var = "step".to_string();
        Stmt::For {
            var,
            from: IntText::Const(0),
            until: IntText::Const(4),
            step: IntText::Const(1),
            unroll: false,
            body,
        }
    }
    fn when(body: Vec<Stmt>) -> Stmt {
        Stmt::If { condition: IntText::name("more"), body }
    }

    /// The statements by one word each, with the barriers where the pass puts them; buffers begin at these offsets.
    fn placed(offsets: [u32; 2], body: Vec<Stmt>) -> String {
        let mut program = program(gemm(quote!(sm_80, i = 16, j = 16, k = 16, stages = 2, warps = (1, 1))));
        let kind = LayoutKind::Mma16816 { warps_m: 1, warps_n: 1 };
        let (row_axis, col_axis) = (Some(AxisId(0)), AxisId(1));
        program.layouts = vec![Layout { name: "Tile".into(), kind, row_axis, col_axis, rows: 16, cols: 16 }];
        program.vars = vec![Var { name: "acc".into(), ty: Scalar::Float, domain: Domain::Tile(LayoutId(0)) }];
        program.shared = offsets
            .into_iter()
            .zip(["a", "b"])
            .map(|(offset, name)| Shared {
                name: name.into(),
                dtype: Dtype::F16,
                rows: 16,
                cols: 16,
                stages: 1,
                panels: false,
                fed: false,
                sent: false,
                private: false,
                offset,
            })
            .collect();
        program.body = body;
        place(&mut program);
        words(&program, &program.body)
    }

    fn words(program: &Program, stmts: &[Stmt]) -> String {
        let word = |stmt: &Stmt| match stmt {
            Stmt::Copy(copy) => format!("copy {}", program.shared(copy.shared).name),
            Stmt::Wait(_) => "wait".into(),
            Stmt::Barrier => "BARRIER".into(),
            Stmt::Dot(_) => "dot".into(),
            Stmt::Stage { shared, .. } => format!("stage {}", program.shared(*shared).name),
            Stmt::Store { .. } => "store".into(),
            Stmt::For { body, .. } => format!("for [{}]", words(program, body)),
            Stmt::If { body, .. } => format!("if [{}]", words(program, body)),
            _ => "other".into(),
        };
        stmts.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    const APART: [u32; 2] = [0, 4096];
    const SAME: [u32; 2] = [0, 0];

    #[test]
    fn copies_meet_a_barrier_between_wait_and_use() {
        let body = vec![copy(A), copy(B), Stmt::Wait(0), dot(A, B)];
        assert_eq!(placed(APART, body), "copy a, copy b, wait, BARRIER, dot");
    }

    #[test]
    fn a_ring_needs_one_barrier_a_step() {
        let step = vec![Stmt::Wait(0), when(vec![copy(A), copy(B)]), dot(A, B)];
        let body = vec![copy(A), copy(B), repeat(step)];
        assert_eq!(placed(APART, body), "copy a, copy b, for [wait, BARRIER, if [copy a, copy b], dot]");
    }

    #[test]
    fn reading_twice_needs_no_second_barrier() {
        let body = vec![copy(A), copy(B), Stmt::Wait(0), dot(A, B), dot(A, B)];
        assert_eq!(placed(APART, body), "copy a, copy b, wait, BARRIER, dot, dot");
    }

    #[test]
    fn copies_alone_need_none() {
        assert_eq!(placed(APART, vec![copy(A), Stmt::Wait(0), copy(B), Stmt::Wait(0)]), "copy a, wait, copy b, wait");
    }

    #[test]
    fn staging_in_a_loop_waits_for_the_last_reader() {
        let body = vec![repeat(vec![stage(A), dot(A, A)])];
        assert_eq!(placed(APART, body), "for [BARRIER, stage a, BARRIER, dot]");
    }

    #[test]
    fn a_buffer_on_the_bytes_of_another_waits_for_its_readers() {
        let body = |offsets| placed(offsets, vec![copy(A), Stmt::Wait(0), dot(A, A), store(B)]);
        assert_eq!(body(SAME), "copy a, wait, BARRIER, dot, BARRIER, store");
        assert_eq!(body(APART), "copy a, wait, BARRIER, dot, store");
    }

    #[test]
    fn stores_through_one_buffer_wait_for_each_other() {
        assert_eq!(placed(APART, vec![store(A), store(A)]), "store, BARRIER, store");
        assert_eq!(placed(APART, vec![store(A), store(B)]), "store, store");
    }

    #[test]
    fn the_barrier_stands_before_the_condition() {
        let body = vec![copy(A), Stmt::Wait(0), dot(A, A), when(vec![copy(A)])];
        assert_eq!(placed(APART, body), "copy a, wait, BARRIER, dot, BARRIER, if [copy a]");
    }

    #[test]
    fn what_a_branch_wrote_may_be_unread_after_it() {
        let body = vec![when(vec![stage(A)]), dot(A, A)];
        assert_eq!(placed(APART, body), "if [stage a], BARRIER, dot");
    }

    #[test]
    fn what_a_loop_read_last_may_be_read_still_after_it() {
        let body = vec![copy(A), Stmt::Wait(0), repeat(vec![dot(A, A)]), copy(A)];
        assert_eq!(placed(APART, body), "copy a, wait, for [BARRIER, dot], BARRIER, copy a");
    }

    #[test]
    fn the_second_round_of_an_inner_loop_is_seen() {
        // The first copy of each outer round overwrites what the inner loop of the last one read.
        let inner = repeat(vec![Stmt::Wait(0), dot(A, B)]);
        let body = vec![repeat(vec![copy(A), copy(B), inner])];
        assert_eq!(placed(APART, body), "for [BARRIER, copy a, copy b, for [wait, BARRIER, dot]]");
    }

    #[test]
    fn placing_again_changes_nothing() {
        let mut once = program(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 3, warps = (2, 2))));
        let before = once.clone();
        place(&mut once);
        assert_eq!(once, before);
    }
}
