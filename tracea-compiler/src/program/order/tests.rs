use super::place;
use crate::nest::{AxisId, Dtype, Int, TensorId};
use crate::program::layout::{Layout, LayoutId, LayoutKind};
use crate::program::shared::{Shared, SharedId};
use crate::program::{
    Access, AccessForm, BulkStore, ConditionId, Copy, Domain, Dot, IntText, Major, MathUnit, Operand, PanelSide,
    Premise, Program, Ring, RingId, Scalar, Scope, Stmt, StoreWay, Turn, Var, VarId,
};
use crate::testing::{gemm, program};
use quote::quote;

const A: SharedId = SharedId(0);
const B: SharedId = SharedId(1);
const PANELS: SharedId = SharedId(2);
const ACC: VarId = VarId(0);
const BY_TMA: ConditionId = ConditionId(0);

fn access() -> Access {
    let form = AccessForm::Contiguous { rows: Some(AxisId(0)), cols: AxisId(1) };
    let index = vec![Int::Axis(AxisId(0)), Int::Axis(AxisId(1))];
    Access {
        tensor: TensorId(0),
        index,
        form,
        limits: Vec::new(),
        inside: Vec::new(),
        whole_cols: false,
        alike: 1,
        held: None,
    }
}
fn copy(shared: SharedId) -> Stmt {
    Stmt::Copy(Copy { shared, slot: None, source: access(), parts: None })
}
fn product(a: SharedId, b: SharedId, unit: MathUnit) -> Stmt {
    let operand = |shared| Operand::Shared { shared, slot: None, major: Major::K };
    Stmt::Dot(Dot { target: ACC, overwrite: false, k: 16, a: operand(a), b: operand(b), unit, beside: None })
}
fn dot(a: SharedId, b: SharedId) -> Stmt {
    product(a, b, MathUnit::Mma)
}
fn wgdot(a: SharedId, b: SharedId) -> Stmt {
    product(a, b, MathUnit::Wgmma)
}
fn stage(shared: SharedId) -> Stmt {
    Stmt::Stage { value: ACC, shared }
}
fn store(shared: SharedId) -> Stmt {
    Stmt::Store { value: ACC, target: access(), way: StoreWay::Staged(shared) }
}
fn repeat(body: Vec<Stmt>) -> Stmt {
    let var = "step".to_string();
    Stmt::For { var, from: IntText::Const(0), until: IntText::Const(4), step: IntText::Const(1), unroll: false, body }
}
fn when(body: Vec<Stmt>) -> Stmt {
    Stmt::If { condition: IntText::name("more"), body }
}
fn by_tma(body: Vec<Stmt>, otherwise: Vec<Stmt>) -> Stmt {
    Stmt::Where { condition: BY_TMA, body, otherwise }
}
fn turn() -> Turn {
    let (slot, phase) = (IntText::Const(0), IntText::Const(0));
    Turn { ring: RingId(0), slot, phase, buffers: vec![A, B] }
}
fn wait_full() -> Stmt {
    Stmt::WaitFull(turn())
}
fn release() -> Stmt {
    Stmt::Release(turn())
}
fn read_panel() -> Stmt {
    Stmt::ReadPanel { target: ACC, shared: A, slot: IntText::Const(0), side: PanelSide::Rows }
}
fn write_panel() -> Stmt {
    Stmt::WritePanel { value: ACC, staging: PANELS, side: PanelSide::Rows }
}
fn send_panel() -> Stmt {
    Stmt::SendPanel {
        staging: PANELS,
        store: BulkStore { map: "map".into(), at: Vec::new(), row_at: 0, last: None },
        side: PanelSide::Rows,
    }
}
fn store_panel() -> Stmt {
    Stmt::StorePanel { staging: PANELS, target: access(), side: PanelSide::Rows, at_a_time: 1 }
}

/// The statements by one word each, with barriers and fences where the pass puts them; `a` and `b` begin at these
/// offsets, and warpgroups' panels lie behind them.
fn placed(offsets: [u32; 2], body: Vec<Stmt>) -> String {
    with_ring(offsets, None, body)
}

/// The same, where a ring fills `a` and `b`, by TMA under this condition.
fn with_ring(offsets: [u32; 2], bulk: Option<ConditionId>, body: Vec<Stmt>) -> String {
    let mut program = program(gemm(quote!(sm_80, i = 16, j = 16, k = 16, stages = 2, warps = (1, 1))));
    let kind = LayoutKind::Mma16816 { warps_m: 1, warps_n: 1 };
    let (row_axis, col_axis) = (Some(AxisId(0)), AxisId(1));
    program.layouts = vec![Layout { name: "Tile".into(), kind, row_axis, col_axis, rows: 16, cols: 16 }];
    program.vars = vec![Var { name: "acc".into(), ty: Scalar::Float, domain: Domain::Tile(LayoutId(0)) }];
    program.shared = offsets
        .into_iter()
        .chain([8192])
        .zip(["a", "b", "panels"])
        .map(|(offset, name)| Shared {
            sent: name == "panels",
            fed: name != "panels",
            private: false,
            offset,
            ..Shared::new(name.into(), Dtype::F16, (16, 16), 1)
        })
        .collect();
    program.rings = vec![Ring { name: "ready".into(), stages: 1, bulk, joint: false }];
    program.require("BY_TMA", vec![Premise::Aligned(TensorId(0))]);
    program.body = body;
    place(&mut program);
    words(&program, &program.body)
}

fn words(program: &Program, stmts: &[Stmt]) -> String {
    let name = |id: SharedId| program.shared(id).name.clone();
    let word = |stmt: &Stmt| match stmt {
        Stmt::Copy(copy) => format!("copy {}", name(copy.shared)),
        Stmt::Wait(_) => "wait".into(),
        Stmt::Barrier(Scope::Tile) => "BARRIER".into(),
        Stmt::Barrier(Scope::Warpgroup) => "WARPGROUP".into(),
        Stmt::Barrier(Scope::Warp) => "WARP".into(),
        Stmt::Fence => "FENCE".into(),
        Stmt::WaitFull(_) => "full".into(),
        Stmt::Release(_) => "release".into(),
        Stmt::DotWait { .. } => "dot wait".into(),
        Stmt::ReadPanel { shared, .. } => format!("read {}", name(*shared)),
        Stmt::JoinParts { leaving, .. } => format!("leave [{}]", words(program, leaving)),
        Stmt::Dot(_) => "dot".into(),
        Stmt::Stage { shared, .. } => format!("stage {}", name(*shared)),
        Stmt::Store { .. } => "store".into(),
        Stmt::AwaitPanel { .. } => "await".into(),
        Stmt::WritePanel { .. } => "write".into(),
        Stmt::SendPanel { .. } => "send".into(),
        Stmt::StorePanel { .. } => "copy out".into(),
        Stmt::For { body, .. } => format!("for [{}]", words(program, body)),
        Stmt::If { body, .. } => format!("if [{}]", words(program, body)),
        Stmt::Panels { body, .. } => format!("panels [{}]", words(program, body)),
        Stmt::Where { body, otherwise, .. } => {
            format!("by TMA [{}] or else [{}]", words(program, body), words(program, otherwise))
        }
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
fn writers_fence_what_the_tensor_cores_read_by_themselves() {
    assert_eq!(placed(APART, vec![stage(A), wgdot(A, A)]), "stage a, FENCE, BARRIER, dot");
    assert_eq!(placed(APART, vec![stage(A), dot(A, A)]), "stage a, BARRIER, dot");
    let body = vec![repeat(vec![stage(A), wgdot(A, B)])];
    assert_eq!(placed(APART, body), "for [BARRIER, stage a, FENCE, BARRIER, dot]");
}

#[test]
fn one_fence_serves_all_that_was_written() {
    assert_eq!(placed(APART, vec![stage(A), stage(B), wgdot(A, B)]), "stage a, stage b, FENCE, BARRIER, dot");
    let body = vec![stage(A), wgdot(A, A), stage(B), wgdot(A, B)];
    assert_eq!(placed(APART, body), "stage a, FENCE, BARRIER, dot, stage b, FENCE, BARRIER, dot");
}

#[test]
fn a_barrier_that_publishes_for_threads_needs_no_fence() {
    let body = vec![stage(A), dot(A, A), stage(B), wgdot(B, B)];
    assert_eq!(placed(APART, body), "stage a, BARRIER, dot, stage b, FENCE, BARRIER, dot");
}

#[test]
fn a_fence_comes_late_where_a_store_held_the_barrier() {
    assert_eq!(placed(APART, vec![stage(A), store(B), wgdot(A, A)]), "stage a, store, FENCE, dot");
}

#[test]
fn a_branch_that_may_write_is_fenced_after_it() {
    let body = vec![when(vec![stage(A)]), wgdot(A, A)];
    assert_eq!(placed(APART, body), "if [stage a], FENCE, BARRIER, dot");
}

#[test]
fn readers_fence_what_a_ring_brought_by_threads() {
    let body = || vec![repeat(vec![wait_full(), wgdot(A, B)])];
    assert_eq!(with_ring(APART, None, body()), "for [full, FENCE, dot]");
    assert_eq!(with_ring(APART, Some(BY_TMA), body()), "for [full, by TMA [] or else [FENCE], dot]");
}

#[test]
fn a_ring_that_threads_read_needs_no_fence() {
    assert_eq!(with_ring(APART, None, vec![wait_full(), dot(A, B)]), "full, dot");
}

#[test]
fn a_ring_is_waited_for_in_the_loop_that_it_feeds_or_before() {
    let body = vec![wait_full(), repeat(vec![wgdot(A, B)])];
    assert_eq!(with_ring(APART, None, body), "full, FENCE, for [dot]");
}

#[test]
fn a_slot_that_threads_read_is_free_when_their_warp_has() {
    let body = || vec![wait_full(), read_panel(), release()];
    assert_eq!(with_ring(APART, Some(BY_TMA), body()), "full, read a, FENCE, WARP, release");
    let products = vec![wait_full(), wgdot(A, B), release()];
    assert_eq!(with_ring(APART, None, products), "full, FENCE, dot, release");
}

#[test]
fn fragments_are_fenced_while_their_product_runs() {
    let a = Operand::Fragments { shared: A, slot: None };
    let b = Operand::Shared { shared: B, slot: None, major: Major::K };
    let dot = Stmt::Dot(Dot { target: ACC, overwrite: false, k: 32, a, b, unit: MathUnit::Wgmma, beside: None });
    let dot_wait = Stmt::DotWait { pending: 0, results: vec![ACC] };
    let expected = "full, by TMA [] or else [FENCE], dot, FENCE, dot wait, WARP, release";
    assert_eq!(with_ring(APART, Some(BY_TMA), vec![wait_full(), dot, dot_wait, release()]), expected);
}

#[test]
fn what_leaves_does_not_come_back() {
    let leave =
        Stmt::JoinParts { values: Vec::new(), relative: Vec::new(), leaving: vec![stage(A), wait_full(), release()] };
    let expected = "leave [stage a, full, WARP, release], dot";
    assert_eq!(with_ring(APART, None, vec![leave, dot(A, A)]), expected);
}

#[test]
fn panels_are_a_warpgroups_own_affair() {
    let body = vec![write_panel(), store_panel(), write_panel()];
    assert_eq!(placed(APART, body), "write, WARPGROUP, copy out, WARPGROUP, write");
    let body = vec![stage(A), write_panel(), send_panel(), dot(A, A)];
    assert_eq!(placed(APART, body), "stage a, write, FENCE, WARPGROUP, send, BARRIER, dot");
}

#[test]
fn panels_take_turns() {
    let panel = || {
        let wait = by_tma(vec![Stmt::AwaitPanel { staging: PANELS }], Vec::new());
        let out = by_tma(vec![send_panel()], vec![store_panel()]);
        Stmt::Panels { count: 2, beside: 2, registers: 4, body: vec![wait, write_panel(), out], dealt: None }
    };
    let expected = "panels [by TMA [await] or else [], WARPGROUP, write, by TMA [FENCE] or else [], WARPGROUP, \
                    by TMA [send] or else [copy out]]";
    assert_eq!(placed(APART, vec![panel()]), expected);
    assert_eq!(placed(APART, vec![repeat(vec![panel()])]), format!("for [{expected}]"));
}

#[test]
fn all_wait_once_before_the_panels_where_those_lie_over_another_buffer() {
    let panels =
        Stmt::Panels { count: 2, beside: 2, registers: 4, body: vec![write_panel(), store_panel()], dealt: None };
    let expected = "wait, BARRIER, dot, BARRIER, panels [WARPGROUP, write, WARPGROUP, copy out]";
    let body = vec![copy(A), Stmt::Wait(0), dot(A, A), panels];
    assert_eq!(placed([8192, 0], body), format!("copy a, {expected}"));
}

#[test]
fn placing_again_changes_nothing() {
    let mut once = program(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 3, warps = (2, 2))));
    let before = once.clone();
    place(&mut once);
    assert_eq!(once, before);
}
