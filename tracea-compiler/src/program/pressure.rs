//! How many registers a thread's values take at once: an estimate for choosing block sizes, not a promise.
//!
//! Counted are the variables that live at a statement and the fragments that a product reads ahead. A loop keeps what it
//! reads and writes of the outside alive throughout.

use super::layout::{LayoutId, LayoutKind};
use super::{Access, Domain, Dot, Expr, Kept, MathUnit, Operand, ParamType, Program, Scalar, Stmt, StoreWay, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// Registers a thread, at the fullest place.
pub fn peak(program: &Program) -> u32 {
    at_most(program, PANEL_REGISTERS)
}

/// The same of some statements by themselves.
pub fn peak_within(program: &Program, stmts: &[Stmt]) -> u32 {
    peak_of(program, stmts, PANEL_REGISTERS)
}

fn at_most(program: &Program, beside_panels: u32) -> u32 {
    peak_of(program, &program.body, beside_panels)
}

fn peak_of(program: &Program, stmts: &[Stmt], beside_panels: u32) -> u32 {
    let mut values = Values { program, beside_panels, parts: BTreeMap::new() };
    values.find_parts(stmts, None);
    let mut peak = 0;
    values.live_before(stmts, BTreeSet::new(), &mut peak);
    peak + addresses(program, stmts, false)
}

/// Whether the blocks that are to share a multiprocessor find room beside each other. The assembler wants a product's registers
/// within what every thread has at launch, before the roles move theirs.
pub fn fits(program: &Program) -> bool {
    let threads = program.threads + program.producer.as_ref().map_or(0, |producer| producer.threads);
    at_most(program, 0) + CONSUMER_REGISTERS <= at_launch(threads, program.resident)
}

/// What each of a block's threads has at launch, where so many blocks share a multiprocessor.
pub fn at_launch(threads: u32, resident: u32) -> u32 {
    REGISTERS / resident / threads / 8 * 8
}

/// What taking in a panel needs besides its registers and the tile's: a turn of the ring, or addresses where threads read it, and
/// halves as they are unpacked. Beside a tile that leaves room for another block's, the consumer's own registers serve.
const PANEL_REGISTERS: u32 = 32;

/// What a consumer needs besides its values: it copies nothing, so that is little.
pub const CONSUMER_REGISTERS: u32 = 30;
/// Registers that a thread needs besides its values: as many as it may need, and as it usually does.
const OTHER_REGISTERS: u32 = 48;
const USUAL_REGISTERS: u32 = 16;
/// And as it usually does where its elements of a slice lie across chunks of memory.
const OF_SLICES_ACROSS: u32 = 8;
/// Where a thread holds elements of one row, it needs fewer: all lie at constants from one place.
const OTHERS_OF_A_ROW: u32 = 32;
/// No thread is held to fewer.
const LEAST_REGISTERS: u32 = 80;
/// The same of wide blocks, of which half as many threads would run otherwise.
const OTHERS_OF_A_WIDE_ROW: u32 = 28;
const LEAST_OF_A_WIDE_ROW: u32 = 64;
/// What makes a block wide.
const WIDE: u32 = 512;
/// What a thread can have.
pub const MOST_REGISTERS: u32 = 255;
/// What a multiprocessor has.
const REGISTERS: u32 = 65536;
const THREADS: u32 = 2048;
const BLOCKS: u32 = 32;

/// Whether a block walks a row with many threads.
pub fn is_wide_row(program: &Program) -> bool {
    program.skew.is_some() && program.threads >= WIDE
}

/// Blocks that a multiprocessor must have registers for: the assembler takes no more a thread than that leaves.
pub fn resident(program: &Program) -> u32 {
    match program.skew {
        Some(_) if is_wide_row(program) => blocks_beside(program, OTHERS_OF_A_WIDE_ROW, LEAST_OF_A_WIDE_ROW),
        Some(_) => blocks_beside(program, OTHERS_OF_A_ROW, LEAST_REGISTERS),
        None => blocks_beside(program, OTHER_REGISTERS, LEAST_REGISTERS),
    }
}

/// Blocks that a multiprocessor will hold, by what their values ask for.
pub fn likely_resident(program: &Program) -> u32 {
    let across = program.skew.is_some() && loads_slices(program, &program.body);
    blocks_beside(program, USUAL_REGISTERS + if across { OF_SLICES_ACROSS } else { 0 }, 32)
}

fn loads_slices(program: &Program, stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| match stmt {
        Stmt::Load { target, .. } => matches!(program.var(*target).domain, Domain::Cols(_)),
        _ => stmt.bodies().into_iter().any(|body| loads_slices(program, body)),
    })
}

fn blocks_beside(program: &Program, others: u32, least: u32) -> u32 {
    let registers = (peak(program) + others).next_multiple_of(8).max(least);
    (REGISTERS / registers).min(THREADS).checked_div(program.threads).unwrap_or(1).clamp(1, BLOCKS)
}

/// What copies ahead of their use keep from step to step.
const KEPT_ADDRESSES: u32 = 6;
/// What a tile's way through shared memory keeps from step to step.
const STAGED_ADDRESSES: u32 = 24;

/// Addresses that loads and stores in loops keep from step to step.
fn addresses(program: &Program, stmts: &[Stmt], in_loop: bool) -> u32 {
    stmts
        .iter()
        .map(|stmt| match stmt {
            Stmt::For { body, .. } | Stmt::ForUnits(body) => addresses(program, body, true),
            // By straight-line code.
            Stmt::ByParts { .. } => 0,
            // Two rows a thread, from one panel to the next.
            Stmt::Panels { .. } => 0,
            Stmt::Load { target, source, .. } if in_loop => row_addresses(program, *target, source),
            Stmt::Keep { kept: Kept::Early { .. }, .. } => 0,
            Stmt::Keep { .. } if in_loop => KEPT_ADDRESSES,
            Stmt::Stage { .. } | Stmt::Store { way: StoreWay::Staged(_), .. } if in_loop => STAGED_ADDRESSES,
            _ => stmt.bodies().into_iter().map(|body| addresses(program, body, in_loop)).sum(),
        })
        .sum()
}

/// Of rows that are held, also how far they are along the axes that a place may leave.
fn row_addresses(program: &Program, target: VarId, source: &Access) -> u32 {
    let along = source.held.as_ref().map_or(0, |_| source.inside.len() as u32);
    match program.var(target).domain {
        Domain::Tile(id) => (2 + along) * program.layout(id).row_size(),
        _ => 0,
    }
}

/// Elements of half a word that come one by one, where rows are not aligned, are words until they are all there.
fn apart(program: &Program, target: VarId) -> u32 {
    let var = program.var(target);
    match (var.domain, var.ty) {
        (Domain::Tile(id), Scalar::F16 | Scalar::Bf16) => program.layout(id).size() / 2,
        _ => 0,
    }
}

/// Words of a slice while it is put together from chunks that its vectors lie across: of narrow elements those that it has, some at a time;
/// elements of a word each come with as many behind them.
fn across_chunks(program: &Program, id: LayoutId, source: &Access) -> u32 {
    let name = &program.names.tensors[source.tensor.index()];
    let bytes = program.params.iter().find(|param| param.name == *name).map_or(4, |param| match param.ty {
        ParamType::Pointer { dtype, .. } => dtype.bytes(),
        _ => 4,
    });
    let slots = program.layout(id).col_size();
    if bytes < 4 { slots * bytes / 4 } else { 2 * slots }
}

struct Values<'p> {
    program: &'p Program,
    beside_panels: u32,
    /// Of tiles that pass panel by panel, into how many parts they are cut: one lives at a time.
    parts: BTreeMap<VarId, u32>,
}

impl Values<'_> {
    /// Inside of what takes so many registers of a tile at a time.
    fn find_parts(&mut self, stmts: &[Stmt], at_a_time: Option<u32>) {
        // The last part may be smaller than others.
        let parts_of = |var: VarId| match (self.program.var(var).domain, at_a_time) {
            (Domain::Tile(layout), Some(registers)) => Some((self.program.layout(layout).size() / registers).max(1)),
            // A warp's columns are each in as many of its registers.
            (Domain::Cols(layout), Some(registers)) => {
                let layout = self.program.layout(layout);
                let panels = matches!(layout.kind, LayoutKind::Mma16816 { .. });
                panels.then(|| (layout.size() / registers).max(1))
            }
            _ => None,
        };
        for stmt in stmts {
            match stmt {
                Stmt::Declare(var) => self.parts.extend(parts_of(*var).map(|parts| (*var, parts))),
                // What a slot brings stays as it came until it is used: halves by pairs.
                Stmt::ReadPanel { target, shared, .. } => {
                    let wide = self.program.var(*target).ty == Scalar::Float;
                    let halves = wide && self.program.shared(*shared).dtype.bytes() == 2;
                    let pairs = if halves { 2 } else { 1 };
                    self.parts.extend(parts_of(*target).map(|parts| (*target, pairs * parts)));
                }
                Stmt::Panels { registers, body, .. } => self.find_parts(body, Some(*registers)),
                Stmt::ByParts { layout, body } => self.find_parts(body, Some(self.program.layout(*layout).vec())),
                _ => stmt.bodies().into_iter().for_each(|body| self.find_parts(body, at_a_time)),
            }
        }
    }

    /// Walks backwards from what is live after the statements to what is live before them.
    fn live_before(&self, stmts: &[Stmt], mut live: BTreeSet<VarId>, peak: &mut u32) -> BTreeSet<VarId> {
        for stmt in stmts.iter().rev() {
            match stmt {
                Stmt::For { body, .. } | Stmt::ForUnits(body) => {
                    let mut around = live.clone();
                    loop {
                        let before = self.live_before(body, around.clone(), peak);
                        let joined: BTreeSet<VarId> = around.union(&before).copied().collect();
                        if joined == around {
                            break;
                        }
                        around = joined;
                    }
                    live = around;
                }
                Stmt::If { .. } | Stmt::ByColumns { .. } | Stmt::Where { .. } => {
                    let after = live.clone();
                    for body in stmt.bodies() {
                        live.extend(self.live_before(body, after.clone(), peak));
                    }
                }
                // Straight-line code: of what comes from before, a panel's registers are free once they are read.
                Stmt::Panels { body, .. } | Stmt::ByParts { body, .. } => live = self.live_before(body, live, peak),
                _ => self.step_back(stmt, &mut live, peak),
            }
        }
        live
    }

    fn step_back(&self, stmt: &Stmt, live: &mut BTreeSet<VarId>, peak: &mut u32) {
        let (reads, writes) = (reads(stmt), writes(stmt));
        let mut during = live.clone();
        during.extend(reads.iter().copied());
        // An element-wise loop needs no more than the larger of what it reads last and what it writes.
        if matches!(stmt, Stmt::Map { .. })
            && let Some(target) = writes
            && reads.iter().any(|var| !live.contains(var) && self.size(*var) >= self.size(target))
        {
            during.remove(&target);
        }
        let fragments = match stmt {
            Stmt::Dot(dot) => fragments(self.program, dot),
            // Read where it is wanted, when all else of the panel has been worked out.
            Stmt::ReadPanel { shared, .. } if self.program.shared(*shared).is_warpgroups_own() => 0,
            Stmt::ReadPanel { .. } => self.beside_panels,
            Stmt::Load { kept: Some(Kept::Early { .. }), .. } => 0,
            Stmt::Load { target, .. } if self.parts.contains_key(target) => self.beside_panels,
            Stmt::Load { target, source, .. } => match self.program.var(*target).domain {
                Domain::Cols(id) if self.program.skew.is_some() => {
                    across_chunks(self.program, id, source).saturating_sub(self.size(*target))
                }
                _ => row_addresses(self.program, *target, source) + apart(self.program, *target),
            },
            // Where registers are few, the assembler reads fewer of other parts at a time.
            Stmt::DealParts { .. } => 0,
            _ => 0,
        };
        let held: u32 = match stmt {
            Stmt::Dot(_) | Stmt::DotWait { .. } => during.iter().map(|var| self.held(*var)).sum(),
            _ => during.iter().map(|var| self.size(*var)).sum(),
        };
        *peak = (*peak).max(held + fragments);
        if let Stmt::Declare(var) | Stmt::DeclareOperand(var) = stmt {
            live.remove(var);
        } else if let (
            Stmt::Map { unless_all: None, .. }
            | Stmt::Load { .. }
            | Stmt::ReadPanel { .. }
            | Stmt::ReadTile { .. }
            | Stmt::Reduce { .. }
            | Stmt::Pack { .. },
            Some(var),
        ) = (stmt, writes)
        {
            live.remove(&var);
        }
        live.extend(reads);
    }

    /// While a product is under way: what was loaded before it is all there.
    fn held(&self, id: VarId) -> u32 {
        let var = self.program.var(id);
        match (var.domain, var.ty) {
            (Domain::Cols(layout), Scalar::Float | Scalar::Int) => self.program.layout(layout).col_size(),
            _ => self.size(id),
        }
    }

    fn size(&self, id: VarId) -> u32 {
        let var = self.program.var(id);
        let layout = |id| self.program.layout(id);
        let slots = match var.domain {
            Domain::Tile(layout_id) => layout(layout_id).size().div_ceil(*self.parts.get(&id).unwrap_or(&1)),
            Domain::Rows(id) => layout(id).row_size(),
            // Of a column slice, values are read where their elements are, some at a time; halves of it come together.
            Domain::Cols(id_of) if self.parts.contains_key(&id) => layout(id_of).col_size().div_ceil(self.parts[&id]),
            Domain::Cols(id) => match (layout(id).kind, layout(id).col_size()) {
                (LayoutKind::Blocked { .. }, slots) => slots.min(8).max(slots / 2),
                (LayoutKind::WholeRows { .. }, slots) => slots.min(8),
                (LayoutKind::Mma16816 { .. }, slots @ ..=16) => slots,
                (LayoutKind::Mma16816 { .. }, slots) => (slots / 2).max(16),
            },
            Domain::Once => 1,
        };
        match var.ty {
            Scalar::F16 | Scalar::Bf16 => slots.div_ceil(2),
            _ => slots,
        }
    }
}

/// Two steps of A and B fragments.
fn fragments(program: &Program, dot: &Dot) -> u32 {
    let Domain::Tile(id) = program.var(dot.target).domain else { return 0 };
    let layout = program.layout(id);
    match (dot.unit, layout.kind) {
        (MathUnit::Mma, LayoutKind::Mma16816 { warps_m, warps_n }) => {
            let (rows, cols) = (layout.rows / warps_m / 16, layout.cols / warps_n / 8);
            let left = if matches!(dot.a, Operand::Registers { .. }) { rows * dot.k / 4 } else { 8 * rows };
            // Long rows of fragments are read piece by piece.
            (left + 4 * cols).min(64)
        }
        (MathUnit::Wgmma, _) => match dot.a {
            Operand::Registers { .. } => dot.k / 4,
            Operand::Fragments { .. } => dot.k / 2,
            Operand::Shared { .. } | Operand::Packed { .. } => 0,
        },
        _ => 4 * (layout.row_size() + layout.col_size()),
    }
}

/// The variable that a statement gives a value, but for dots and those inside of it.
pub fn writes(stmt: &Stmt) -> Option<VarId> {
    match stmt {
        Stmt::Map { target, .. }
        | Stmt::Load { target, .. }
        | Stmt::ReadPanel { target, .. }
        | Stmt::ReadTile { target, .. } => Some(*target),
        Stmt::Reduce { target, .. } | Stmt::Exchange { target, .. } | Stmt::Pack { operand: target, .. } => {
            Some(*target)
        }
        _ => None,
    }
}

/// The variables that a statement reads, but for those inside of it.
pub fn reads(stmt: &Stmt) -> BTreeSet<VarId> {
    let mut vars = BTreeSet::new();
    match stmt {
        Stmt::Map { target, value, unless_all } => {
            in_expr(value, &mut vars);
            if unless_all.is_some() {
                vars.insert(*target);
            }
        }
        Stmt::MaskEdge { target, .. } => {
            vars.insert(*target);
        }
        Stmt::Vote { condition, .. } => in_expr(condition, &mut vars),
        Stmt::Store { value, .. }
        | Stmt::Reduce { value, .. }
        | Stmt::Exchange { value, .. }
        | Stmt::Stage { value, .. }
        | Stmt::Pack { value, .. }
        | Stmt::WritePanel { value, .. } => {
            vars.insert(*value);
        }
        Stmt::Fold { value, target, .. } => {
            vars.extend([*value, *target]);
        }
        Stmt::Spread { target, .. } => {
            vars.insert(*target);
        }
        Stmt::DealParts { values, .. } => vars.extend(values.iter().map(|left| left.var)),
        Stmt::Dot(dot) => {
            vars.extend(dot.targets());
            for operand in dot.operands() {
                match operand {
                    Operand::Registers { value, .. } | Operand::Packed { operand: value } => vars.extend([*value]),
                    Operand::Shared { .. } | Operand::Fragments { .. } => {}
                }
            }
        }
        _ => {}
    }
    vars
}

/// Whether the statement, or any inside of it, reads the variable or gives it a value.
pub fn mentions(stmt: &Stmt, var: VarId) -> bool {
    reads(stmt).contains(&var)
        || writes(stmt) == Some(var)
        || stmt.bodies().into_iter().flatten().any(|inner| mentions(inner, var))
}

fn in_expr(expr: &Expr, vars: &mut BTreeSet<VarId>) {
    if let Expr::Var(var) = expr {
        vars.insert(*var);
    }
    expr.parts().into_iter().for_each(|part| in_expr(part, vars));
}

#[cfg(test)]
mod tests {
    use super::peak;
    use crate::lower::lower_portfolio;
    use crate::schedule::Schedule;
    use crate::schedule::target::SM_80;
    use crate::testing::{self, gemm, program};
    use quote::quote;

    #[test]
    fn accumulators_and_fragments_count() {
        let small = peak(&program(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 3, warps = (2, 2)))));
        let large = peak(&program(gemm(quote!(sm_80, i = 128, j = 128, k = 32, stages = 3, warps = (2, 2)))));
        assert!((32..=96).contains(&small), "{small}");
        assert!((128..=196).contains(&large), "{large}");
    }

    #[test]
    fn more_warps_hold_less_each() {
        let of = |schedule| peak(&program(gemm(schedule)));
        let four = of(quote!(sm_80, i = 128, j = 128, k = 32, stages = 3, warps = (2, 2)));
        let eight = of(quote!(sm_80, i = 128, j = 128, k = 32, stages = 3, warps = (2, 4)));
        assert!(eight < four);
    }

    #[test]
    fn what_a_loop_reads_of_the_outside_lives_throughout() {
        let of = |body| {
            peak(&program(quote! {
                #[schedule(sm_80, i = 256, warps = (1, 1))]
                fn sums<R: Dim, N: Dim>(x: &Tensor<f32, (R, N)>, y: &mut Tensor<f32, (N,)>) { tile!(for i in N { #body }); }
            }))
        };
        let alone = of(quote! {
            let mut total = zeros::<f32>(i);
            tile!(for r in each(R) { total += x[(r, i)].exp(); });
            y[i] = total;
        });
        let with_first = of(quote! {
            let first = x[(0, i)];
            let mut total = zeros::<f32>(i);
            tile!(for r in each(R) { total += (x[(r, i)] - first).exp(); });
            y[i] = total;
        });
        assert_eq!(with_first, alone + 8);
    }

    #[test]
    fn slices_across_chunks_leave_room_for_fewer_blocks() {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, gain: &Tensor<f16, (N,)>, y: &mut Tensor<f16, (M, N)>) {
                tile!(for i in M {
                    let mut squares = zeros::<f32>(i);
                    tile!(for j in N {
                        let value = x[(i, j)].to::<f32>();
                        squares += (value * value).row_sum();
                    });
                    let rate = squares.rsqrt();
                    tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() * rate * gain[j].to::<f32>()).to(); });
                });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_80).expect("a portfolio");
        let resident = |columns: u32| {
            let walked = |schedule: &Schedule| {
                schedule.skewed
                    && schedule.whole.is_none()
                    && schedule.threads() == 256
                    && schedule.blocks.contains(&Some(columns))
            };
            portfolio.iter().find(|lowered| walked(&lowered.schedule)).map(|lowered| lowered.cost.resident)
        };
        // Of such kernels, the assembler's code takes 63 and 95 registers.
        assert_eq!([4096, 8192].map(resident), [Some(4), Some(2)]);
    }

    #[test]
    fn a_slice_that_waits_for_a_product_is_held_in_full() {
        let of = |distance: proc_macro2::TokenStream| {
            peak(&program(quote! {
                #[schedule(sm_90a, i = 128, j = 256, stages = 3, consumers = 2)]
                fn density<M: Dim, N: Dim>(
                    x: &Tensor<f16, (M, Const<64>)>, w: &Tensor<f16, (N, Const<64>)>, ww: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (M,)>,
                ) {
                    tile!(for i in M {
                        let mut sum = zeros::<f32>(i);
                        tile!(for j in N { sum += #distance.exp().row_sum(); });
                        y[i] = sum;
                    });
                }
            }))
        };
        let (before, after) = (
            of(quote!((ww[j] - dot(x[(i, ..)], w[(j, ..)].t())))),
            of(quote!((dot(x[(i, ..)], w[(j, ..)].t()) - ww[j]))),
        );
        // Of 64 numbers, which are otherwise read where they are needed.
        assert_eq!(before, after + 32);
    }

    #[test]
    fn a_tile_that_passes_by_panels_takes_one_of_them() {
        let of = |end: proc_macro2::TokenStream| {
            peak(&program(quote! {
                #[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 3, consumers = 2)]
                fn f<M: Dim, N: Dim, K: Dim>(
                    a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, r: &Tensor<f16, (M, N)>, c: &mut Tensor<f16, (M, N)>,
                ) {
                    tile!(for (i, j) in (M, N) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in K { acc += dot(a[(i, k)], b[(k, j)]); });
                        c[(i, j)] = #end;
                    });
                }
            }))
        };
        let (plain, residual) = (of(quote!(acc.to())), of(quote!((acc + r[(i, j)].to::<f32>()).to())));
        // Of 128 registers of accumulators, a quarter, and those are halves.
        assert_eq!(residual, plain + 16 + super::PANEL_REGISTERS);
    }

    #[test]
    fn halves_take_half_a_register_once_they_are_there() {
        let of = |dtype: proc_macro2::TokenStream| {
            peak(&program(quote! {
                #[schedule(sm_80, i = 512, warps = (1, 1))]
                fn copied<N: Dim>(
                    x: &Tensor<#dtype, (N,)>, y: &Tensor<#dtype, (N,)>, z: &mut Tensor<#dtype, (N,)>, is_first: i32,
                ) {
                    tile!(for i in N { z[i] = is_first.eq(1).select(x[i], y[i]); });
                }
            }))
        };
        let addresses = 2;
        assert_eq!(of(quote!(f32)) - addresses, 16 + 16);
        assert_eq!(of(quote!(f16)) - addresses, 8 + 16);
    }
}
