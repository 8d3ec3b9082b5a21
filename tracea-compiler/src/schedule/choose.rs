//! The compiler's own schedule, from the roles that axes play in the nest's dots and tensors.
//!
//! A starting point, which is then taken back to what there is [`super::room`] for.

use super::target::{Pipeline, Target};
use super::{Schedule, known_extent};
use crate::lower::analysis::{Facts, OperandSource, axes_in, is_tiled, untransposed};
use crate::lower::columns;
use crate::lower::results::turned;
use crate::nest::{AxisId, AxisKind, Dtype, Int, Nest, Op, Stmt, TensorId, ValueId};

/// What an axis does in the nest's dots.
#[derive(Clone, Copy, Default)]
pub(super) struct Roles {
    pub m: bool,
    pub n: bool,
    pub k: bool,
    /// A dot over it multiplies in tf32, which wants shorter steps.
    pub wide: bool,
    /// Elements of the 128 bytes that a warpgroup's product reads along it, of the narrowest type.
    pub panel: u32,
    /// Some tensor holds it contiguously.
    pub contiguous: bool,
    /// Some result does.
    pub written: bool,
}

pub fn start(nest: &Nest, facts: &Facts, target: &'static Target) -> Schedule {
    let roles = roles(nest, facts);
    let mut schedule = Schedule {
        target,
        blocks: vec![None; nest.axes.len()],
        warps: match target.pipeline {
            Pipeline::CommitGroups => warps(nest, facts),
            Pipeline::WarpRoles => (8, 1),
        },
        stages: if is_exact(facts) { 3 } else { 4 },
        raster: None,
        resident: 1,
        cluster: None,
        swapped: false,
        skewed: false,
        whole: None,
        in_turn: false,
        pingpong: false,
        why: String::new(),
    };
    for (index, axis) in nest.axes.iter().enumerate() {
        let id = AxisId(index as u32);
        schedule.blocks[index] = match axis.kind {
            AxisKind::Each => None,
            AxisKind::Whole => known_extent(nest, id).map(|size| whole_block(size, roles[index], &schedule)),
            AxisKind::Tiled => Some(block(nest, facts, id, &roles, target)),
        };
    }
    if facts.dots.is_empty() {
        give_all_threads_elements(nest, facts, &mut schedule);
        schedule.stages = 1;
        schedule.raster = Some(1);
        schedule.why = "rows to warps, wide reads along contiguous axes".into();
    } else {
        schedule.why = "the largest blocks whose accumulators fit the registers".into();
    }
    schedule
}

/// Lays whole axes out anew for the schedule's warps.
pub fn fit_whole_axes(nest: &Nest, facts: &Facts, schedule: &mut Schedule) {
    let roles = roles(nest, facts);
    for (index, axis) in nest.axes.iter().enumerate() {
        if axis.kind == AxisKind::Whole {
            let known = known_extent(nest, AxisId(index as u32));
            schedule.blocks[index] = known.map(|size| whole_block(size, roles[index], schedule));
        }
    }
}

/// The same for one warpgroup, with as many rows as it multiplies: where a whole axis of rows has none for two.
pub fn for_one_warpgroup(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Schedule {
    const ROWS: u32 = 64;
    let mut one = Schedule { warps: (4, 1), ..schedule.clone() };
    for dot in &facts.dots {
        if nest.axis(dot.m).kind == AxisKind::Tiled {
            one.blocks[dot.m.index()] = Some(ROWS);
        }
    }
    fit_whole_axes(nest, facts, &mut one);
    one
}

/// Tiles of a few constant columns get more rows, and slices that are no tile's side more elements, until every thread has some.
fn give_all_threads_elements(nest: &Nest, facts: &Facts, schedule: &mut Schedule) {
    const ELEMENTS: u32 = 4;
    let shapes = || facts.order.iter().map(|id| &nest.value(*id).ty.axes);
    let is_side = |axis: AxisId| shapes().any(|axes| axes.len() > 1 && axes.contains(&axis));
    for axes in shapes() {
        let blocks = axes.iter().filter_map(|axis| schedule.blocks[axis.index()]);
        let elements = blocks.product::<u32>().max(1);
        let tiled = axes.iter().find(|axis| nest.axis(**axis).kind == AxisKind::Tiled);
        if let Some(axis) = tiled.filter(|axis| axes.len() > 1 || !is_side(**axis))
            && elements < schedule.threads()
        {
            let more = ELEMENTS * schedule.threads() / elements;
            schedule.blocks[axis.index()] = schedule.blocks[axis.index()].map(|block| more * block);
        }
    }
}

pub(super) fn roles(nest: &Nest, facts: &Facts) -> Vec<Roles> {
    let mut roles = vec![Roles::default(); nest.axes.len()];
    for dot in &facts.dots {
        roles[dot.m.index()].m = true;
        roles[dot.n.index()].n = true;
        roles[dot.k.index()].k = true;
        let over = &mut roles[dot.k.index()];
        over.wide |= dot.dtype == Dtype::Tf32;
        over.panel = over.panel.max(super::panel(dot.dtype));
    }
    // Where tiles have two axes, a vector beside them says nothing about the order of threads.
    let planar = facts.order.iter().any(|id| nest.value(*id).ty.axes.len() > 1);
    let mut last = |index: &[Int], written: bool| {
        if let Some(axis) = columns::side_by_side(nest, index)
            && (!planar || index.iter().filter(|int| spans(nest, int)).count() > 1)
        {
            let role = &mut roles[axis.index()];
            role.contiguous = true;
            role.written |= written;
        }
    };
    for id in &facts.order {
        if let Op::Load { index, .. } = &nest.value(*id).op {
            last(index, false);
        }
    }
    each_store(&nest.body.stmts, &mut |_, index, _| last(index, true));
    roles
}

fn spans(nest: &Nest, int: &Int) -> bool {
    let mut tiled = false;
    axes_in(int, &mut |axis| tiled |= is_tiled(nest, axis));
    tiled
}

fn each_store(stmts: &[Stmt], each: &mut impl FnMut(TensorId, &[Int], ValueId)) {
    for stmt in stmts {
        match stmt {
            Stmt::Store { tensor, index, value, .. } => each(*tensor, index, *value),
            Stmt::Loop(inner) => each_store(&inner.body.stmts, each),
            Stmt::Value(_) => {}
        }
    }
}

/// A dot whose left operand was computed by another dot: its rows must stay within one warp.
pub fn has_chain(nest: &Nest, facts: &Facts) -> bool {
    facts.dots.iter().any(|dot| match &dot.a {
        OperandSource::Computed { value } => {
            let axes = &nest.value(untransposed(nest, *value)).ty.axes;
            facts.dots.iter().any(|other| axes[..] == [other.m, other.n])
        }
        OperandSource::Tensor { .. } => false,
    })
}

fn warps(nest: &Nest, facts: &Facts) -> (u32, u32) {
    if facts.dots.is_empty() {
        if loops_over_columns(nest, &roles(nest, facts)) { (4, 1) } else { (8, 1) }
    } else if is_exact(facts) {
        (4, 2)
    } else if has_chain(nest, facts) {
        (warps_along_rows(nest, facts), 1)
    } else {
        (2, 2)
    }
}

/// Whether products are multiply-adds of f32: each step of theirs takes long, so that few slots suffice.
fn is_exact(facts: &Facts) -> bool {
    facts.dots.iter().any(|dot| dot.dtype == Dtype::F32)
}

/// Eight, or fewer where whole axes are rows of a product and have none for them all.
fn warps_along_rows(nest: &Nest, facts: &Facts) -> u32 {
    const ROWS: u32 = 16;
    let whole = facts.dots.iter().filter(|dot| nest.axis(dot.m).kind == AxisKind::Whole);
    let sizes: Vec<u32> =
        whole.filter_map(|dot| known_extent(nest, dot.m)).map(|size| size.clamp(1, 1 << 20) as u32).collect();
    let wastes = |warps: u32| {
        sizes.iter().any(|size| size.next_multiple_of(ROWS * warps) > size.next_multiple_of(ROWS * warps / 2))
    };
    if wastes(8) { 4 } else { 8 }
}

fn whole_block(size: i64, role: Roles, schedule: &Schedule) -> u32 {
    let size = size.clamp(1, 1 << 20) as u32;
    let (warps_m, warps_n) = schedule.warps;
    let step = match (schedule.target.pipeline, role) {
        (_, Roles { m: false, n: false, k: false, .. }) => return size.next_power_of_two(),
        (Pipeline::WarpRoles, Roles { m: false, n: false, .. }) => role.panel,
        (Pipeline::WarpRoles, _) => 64,
        (Pipeline::CommitGroups, Roles { m: true, .. }) => 16 * warps_m.max(warps_n),
        (Pipeline::CommitGroups, Roles { n: true, .. }) => 8 * warps_n.max(2),
        (Pipeline::CommitGroups, _) => 16,
    };
    size.next_multiple_of(step)
}

/// A dot's axis where warpgroups multiply.
fn warpgroup_block(role: Roles, known: Option<u32>) -> u32 {
    let wanted = match (role.m, role.n, role.k) {
        (true, ..) => 128,
        (_, true, false) => 256,
        (_, true, true) => 128,
        _ => role.panel,
    };
    if role.m { wanted } else { known.map_or(wanted, |size| wanted.min(size.next_multiple_of(64))) }
}

fn block(nest: &Nest, facts: &Facts, axis: AxisId, roles: &[Roles], target: &Target) -> u32 {
    let role = roles[axis.index()];
    let known = known_extent(nest, axis).map(|size| size.clamp(1, 1 << 20) as u32);
    if (role.m || role.n || role.k) && target.pipeline == Pipeline::WarpRoles {
        return warpgroup_block(role, known);
    }
    if role.m || role.n || role.k {
        let wanted = match (role.m, role.n, role.k) {
            (true, ..) | (_, true, false) => 128,
            (_, true, true) => 64,
            _ if role.wide => 16,
            _ => 32,
        };
        let least = if role.m { 128 } else { 16 };
        return known.map_or(wanted, |size| wanted.min(size.next_power_of_two().max(least)));
    }
    if !facts.dots.is_empty() {
        return 64;
    }
    let on_grid = nest.grid.contains(&axis);
    let tiled = nest.axes.iter().filter(|axis| axis.kind != AxisKind::Each).count();
    let contiguous = nest.axes.iter().zip(roles).filter(|(a, r)| a.kind != AxisKind::Each && r.contiguous).count();
    let wanted = match (tiled, role.contiguous, on_grid) {
        (1, ..) => 2048,
        // Pairs of what slices hold: each element that is read serves as many pairs as a thread has rows or columns.
        (_, false, true) if contiguous == 0 => 32,
        (_, false, false) if contiguous == 0 => 128,
        // Two contiguous axes change places somewhere. 128 bytes or more on both sides, and longer where partly written lines
        // would be read back; 16 KiB a block, so that the blocks of an SM keep 40 KiB of reads under way while others write.
        // What is only copied has nothing to hold in registers, and wants few ends of rows that begin anywhere: long ones where it reads.
        (_, true, true) if contiguous > 1 => {
            let long = if turns_copies(nest, facts) { !role.written } else { role.written };
            if long && results_are_halves(nest) { 128 } else { 64 }
        }
        // 256 bytes of a row, whose ends lie in few sectors that neighbours read too; 8 KiB of halves, 16 KiB of words a step: few
        // columns make many blocks, which need few parts each to fill the device.
        (_, true, true) | (_, false, false) if walks_down_rows(nest, roles) => match reads_halves(nest, facts) {
            true if role.contiguous => 128,
            true => 32,
            false => 64,
        },
        (_, true, true) => 256,
        // A warp a row, 16 elements a thread: registers for many warps, and no barrier in a reduction.
        (_, true, false) => 512,
        // Rows that share slices go two to a warp.
        (_, false, true) if loops_over_columns(nest, roles) => {
            if reads_slices(nest, facts) {
                8
            } else {
                4
            }
        }
        (_, false, true) => 16,
        // What all rows add up to, of which blocks have some each.
        (_, false, false) if nest.grid.iter().all(|axis| nest.axis(*axis).kind == AxisKind::Each) => 8,
        (_, false, false) => 16,
    };
    match known {
        Some(size) if role.contiguous => wanted.min(size.next_power_of_two().max(if tiled == 1 { 256 } else { 32 })),
        _ => wanted,
    }
}

/// Whether all results are what was loaded, along another axis.
fn turns_copies(nest: &Nest, facts: &Facts) -> bool {
    let mut copies = true;
    each_store(&nest.body.stmts, &mut |tensor, index, value| {
        copies &= turned::copied(nest, facts, tensor, index, value).is_some();
    });
    copies
}

/// Whether all results have elements of 16 bits or fewer.
fn results_are_halves(nest: &Nest) -> bool {
    let mut halves = true;
    each_store(&nest.body.stmts, &mut |tensor, _, _| halves &= nest.tensor(tensor).dtype.bytes() <= 2);
    halves
}

/// Whether all that is read has elements of 16 bits or fewer.
fn reads_halves(nest: &Nest, facts: &Facts) -> bool {
    facts.order.iter().all(|id| match nest.value(*id).op {
        Op::Load { tensor, .. } => nest.tensor(tensor).dtype.bytes() <= 2,
        _ => true,
    })
}

/// Whether a loop goes down the rows of what the grid's columns hold.
fn walks_down_rows(nest: &Nest, roles: &[Roles]) -> bool {
    let axes = || nest.axes.iter().zip(roles).enumerate().filter(|(_, (axis, _))| axis.kind == AxisKind::Tiled);
    let on_grid = |index: usize| nest.grid.contains(&AxisId(index as u32));
    axes().any(|(index, (_, role))| !on_grid(index) && !role.contiguous)
        && axes().all(|(index, (_, role))| on_grid(index) == role.contiguous)
}

/// Whether rows are walked through, block of columns by block of columns.
pub(super) fn loops_over_columns(nest: &Nest, roles: &[Roles]) -> bool {
    let tiled = |index: usize| nest.axes[index].kind == AxisKind::Tiled && !nest.grid.contains(&AxisId(index as u32));
    (0..nest.axes.len()).any(|index| tiled(index) && roles[index].contiguous)
}

/// Whether a loop reads a slice along its own axis.
fn reads_slices(nest: &Nest, facts: &Facts) -> bool {
    facts.order.iter().any(|id| {
        let value = nest.value(*id);
        matches!((&value.op, &value.ty.axes[..]), (Op::Load { .. }, [axis]) if !nest.grid.contains(axis))
    })
}

#[cfg(test)]
mod tests {
    use crate::program::Program;
    use crate::program::pressure::peak;
    use crate::schedule::room::registers;
    use crate::schedule::target::SM_80;
    use crate::testing::program;
    use proc_macro2::TokenStream;
    use quote::quote;

    fn block(program: &Program, name: &str) -> u32 {
        let axis = program.names.axes.iter().position(|axis| axis == name).expect("an axis");
        program.blocks.iter().find(|(id, _)| id.index() == axis).expect("a block").1
    }

    fn gemm(rows: TokenStream, columns: TokenStream, epilogue: TokenStream) -> Program {
        // `Const<48>` in a type is `Const::<48>` in a loop.
        let range = |dim: &TokenStream| -> TokenStream { dim.to_string().replace('<', "::<").parse().expect("a dim") };
        let dims = [&rows, &columns].into_iter().filter(|dim| dim.to_string().len() == 1);
        let (row_range, column_range) = (range(&rows), range(&columns));
        program(quote! {
            fn f<#(#dims: Dim,)* K: Dim>(
                a: &Tensor<f16, (#rows, K)>, b: &Tensor<f16, (K, #columns)>, r: &Tensor<f32, (#rows, #columns)>, c: &mut Tensor<f32, (#rows, #columns)>,
            ) {
                tile!(for (i, j) in (#row_range, #column_range) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(k, j)]); });
                    c[(i, j)] = #epilogue;
                });
            }
        })
    }

    #[test]
    fn the_choice_fits_every_device_that_runs_the_code() {
        let program = gemm(quote!(M), quote!(N), quote!(acc + r[(i, j)]));
        assert!(program.shared_bytes <= SM_80.shared_preferred);
        assert!(peak(&program) <= registers(&SM_80));
    }

    #[test]
    fn a_transpose_writes_longer_rows_than_it_reads_unless_it_only_copies() {
        let blocks = |dtype: TokenStream, factor: TokenStream| {
            let program = program(quote! {
                fn f<M: Dim, N: Dim>(x: &Tensor<#dtype, (M, N)>, y: &mut Tensor<#dtype, (N, M)>) {
                    tile!(for (i, j) in (M, N) { y[(j, i)] = x[(i, j)].t() #factor; });
                }
            });
            (block(&program, "i"), block(&program, "j"))
        };
        assert_eq!(blocks(quote!(f16), quote!(+ 1.0)), (128, 64));
        assert_eq!(blocks(quote!(f32), quote!(+ 1.0)), (64, 64));
        assert_eq!(blocks(quote!(f16), quote!()), (64, 128));
        assert_eq!(blocks(quote!(f32), quote!()), (64, 64));
    }

    #[test]
    fn known_columns_are_not_exceeded() {
        assert_eq!(block(&gemm(quote!(M), quote!(Const<48>), quote!(acc)), "j"), 64);
        assert_eq!(block(&gemm(quote!(M), quote!(Const<8>), quote!(acc)), "j"), 16);
    }

    #[test]
    fn whole_axes_are_padded_to_what_warps_share() {
        let program = program(quote! {
            fn state<T: Dim, N: Dim>(k: &Tensor<f16, (T, Const<80>)>, v: &Tensor<f16, (T, N)>, s: &mut Tensor<f32, (Const<80>, N)>) {
                tile!(for e in N {
                    let mut acc = zeros::<f32>((.., e));
                    tile!(for t in T { acc += dot(k[(t, ..)].t(), v[(t, e)]); });
                    s[(.., e)] = acc;
                });
            }
        });
        assert_eq!(program.layouts[0].rows, 96);
    }

    /// Forces between bodies: what is read of each serves several pairs of a thread.
    #[test]
    fn threads_hold_many_pairs_of_slices() {
        let program = program(quote! {
            fn pull<N: Dim>(at: &Tensor<f32, (N, Const<3>)>, mass: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
                tile!(for i in N {
                    let mut sum = zeros::<f32>(i);
                    tile!(for j in N { sum += ((at[(j, 0)] - at[(i, 0)]) * mass[j]).sum(j); });
                    y[i] = sum;
                });
            }
        });
        assert_eq!((block(&program, "i"), block(&program, "j"), program.threads), (32, 128, 256));
    }

    #[test]
    fn a_whole_axis_of_rows_has_rows_for_all_warps() {
        let warps = |size: TokenStream| {
            let program = program(quote! {
                fn state<S: Dim>(k: &Tensor<f16, (S, Const<#size>)>, v: &Tensor<f16, (S, Const<64>)>, y: &mut Tensor<f32, (S, Const<64>)>) {
                    tile!(for e in Const::<64> {
                        let mut state = zeros::<f32>((.., e));
                        tile!(for i in S {
                            y[(i, e)] = dot(k[(i, ..)], state.to::<f16>());
                            state += dot(k[(i, ..)].t(), v[(i, e)]);
                        });
                    });
                }
            });
            program.threads / 32
        };
        assert_eq!(warps(quote!(64)), 4);
        assert_eq!(warps(quote!(128)), 8);
    }

    #[test]
    fn rows_of_a_chain_stay_within_a_warp() {
        let program = program(quote! {
            fn mlp<M: Dim, F: Dim>(
                x: &Tensor<f16, (M, Const<64>)>, up: &Tensor<f16, (F, Const<64>)>, down: &Tensor<f16, (F, Const<64>)>,
                y: &mut Tensor<f32, (M, Const<64>)>,
            ) {
                tile!(for i in M {
                    let mut acc = zeros::<f32>((i, ..));
                    tile!(for f in F { acc += dot(dot(x[(i, ..)], up[(f, ..)].t()).to::<f16>(), down[(f, ..)]); });
                    y[(i, ..)] = acc;
                });
            }
        });
        assert!(program.schedule.contains("warps = (8, 1)"), "{}", program.schedule);
    }
}
