//! Element-wise work and reductions.

use super::{LANES, START, TURN, instructions_of, over};
use crate::lower::analysis::Facts;
use crate::lower::{columns, extent_dims, nest_of, shares};
use crate::nest::{AxisId, Block, Int, Loop, Nest, Op, Stmt, TensorId, Value, ValueId};
use crate::plan::{Cost, GridAxis, StepCost};
use crate::program::layout::Layout;
use crate::program::{Program, pressure};
use crate::schedule::{Schedule, variants};

/// Cycles between two instructions of a warp that runs alone: most wait for the one before.
const ALONE: u32 = 3;
/// Elements of a slice that a thread has at least, for its columns of a tile.
const OF_A_VECTOR: u32 = 8;
/// Of an element of a slice that lies across chunks of memory: its way through shared memory. Fitted to norms of 4097 to 24000 columns on an H200:
/// a layer norm of 3000 x 6144 takes 26.2 µs by rows in registers, and 22.1 where aligned slices come straight to theirs.
const KEPT_SLICE: u32 = 5;
/// Instructions of a thread beside those for elements: where its rows begin, its part in reductions.
const ONCE: u32 = 200;
/// A tile's way from memory, where nothing has brought it before.
const MEMORY: u32 = 800;
/// A reduction that warps pass to each other in each step.
const EXCHANGE: u32 = 450;
/// What a row that a block takes in turn takes beside its vectors: all of the block's threads wait for its reductions. Measured on an H200: a
/// layer norm of 8192 columns, two vectors a thread, takes 3400 cycles a row.
const IN_TURN: u32 = 1400;

/// Element-wise work and reductions: instructions for each element of each tile, edges that are masked off included.
pub fn of(nest: &Nest, facts: &Facts, schedule: &Schedule, program: &Program) -> Cost {
    // What a block keeps of rows that it takes in turn leaves no shared memory for another block, and is there when a row's turn comes.
    let (once, waiting, resident) = match schedule.in_turn {
        true => (0, IN_TURN, 1),
        false => (START, 0, pressure::likely_resident(program)),
    };
    let mut cost = Cost { once, resident, ..Cost::default() };
    let rows = Rows { nest, facts, schedule, program };
    if rows.come_first() {
        cost.once += MEMORY;
    }
    add_block(&rows, &nest.body, &mut Vec::new(), &mut cost);
    cost.steps.push(StepCost { latency: waiting, work: waiting + schedule.threads() * ONCE / LANES, over: Vec::new() });
    cost
}

struct Rows<'a> {
    nest: &'a Nest,
    facts: &'a Facts,
    schedule: &'a Schedule,
    program: &'a Program,
}

impl Rows<'_> {
    /// Whether threads wait for a whole row before the last of several passes; in an only pass they wait for it all along.
    fn come_first(&self) -> bool {
        self.program.kept.as_ref().is_some_and(|kept| kept.tiles.iter().any(|tile| !tile.once))
    }

    /// What a thread waits for in a step of the innermost of these loops, or outside of loops, beside its own instructions.
    fn waits(&self, loops: &[&Loop], block: &Block) -> u32 {
        // What comes some steps ahead of its use is there when it is read.
        if self.program.shared.iter().any(|shared| shared.private && shared.stages > 1) {
            return 0;
        }
        let values = block.stmts.iter().filter_map(|stmt| match stmt {
            Stmt::Value(id) => Some((*id, self.nest.value(*id))),
            _ => None,
        });
        let loaded = values.clone().filter(|(_, value)| matches!(value.op, Op::Load { .. }));
        let Some(inner) = loops.last() else { return if loaded.count() > 0 { MEMORY / 2 } else { 0 } };
        let arriving = loaded.map(|(_, value)| match value.ty.axes.len() {
            0 => 0,
            // Slices are in L2: other rows have had them.
            1 => MEMORY / 2,
            _ if self.come_first() => 0,
            _ => MEMORY,
        });
        let outer = loops.iter().find(|outer| nest_of(outer).last().is_some_and(|last| std::ptr::eq(*last, *inner)));
        let shares = outer.map(|outer| shares::find(self.nest, self.facts, outer, inner)).unwrap_or_default();
        let own = |id: ValueId| shares.iter().any(|share| share.reduction == id);
        let between_warps = |value: &Value| match value.op {
            Op::Reduce(_, of, along) => self.warps_along(of, along) > 1,
            _ => false,
        };
        let exchanged = values.filter(|(id, value)| between_warps(value) && !own(*id)).count() as u32;
        TURN + arriving.max().unwrap_or(0) + EXCHANGE * exchanged
    }

    /// Warps that have different elements of what is reduced along the axis.
    fn warps_along(&self, value: ValueId, along: AxisId) -> u32 {
        let (rows, columns) = self.schedule.warps;
        match self.nest.value(value).ty.axes[..] {
            [_, last] if last == along => columns,
            [..] => rows,
        }
    }
}

fn rows_of_threads(nest: &Nest, schedule: &Schedule) -> u32 {
    let rows = || nest.grid.iter().filter_map(|axis| schedule.blocks[axis.index()]).product();
    if schedule.whole.is_some() { rows() } else { schedule.warps.0 }
}

fn add_block<'n>(rows: &Rows<'n>, body: &'n Block, loops: &mut Vec<&'n Loop>, cost: &mut Cost) {
    let Rows { nest, schedule, .. } = *rows;
    // Of rows that are taken whole, threads work on the vectors that there are; in turn, on those up to the next look for the row's end.
    let in_turn = rows.program.layouts.iter().find_map(Layout::columns_at_once);
    let columns = |axis| in_turn.unwrap_or_else(|| variants::columns_of_a_vector(schedule, axis));
    let vectors = schedule.whole.map(|axis| (axis, columns(axis)));
    let (mut instructions, mut of_a_vector, mut loads) = (0u32, 0u32, false);
    for stmt in &body.stmts {
        match stmt {
            Stmt::Value(id) => {
                let value = nest.value(*id);
                let vector = vectors.filter(|(whole, _)| value.ty.axes.contains(whole));
                let block = |axis: &AxisId| match vector {
                    Some((whole, columns)) if whole == *axis => Some(columns),
                    _ => schedule.blocks[axis.index()],
                };
                let mut elements: u32 = value.ty.axes.iter().filter_map(block).product();
                if let [axis] = value.ty.axes[..] {
                    if nest.grid.contains(&axis) {
                        // Each row of threads holds a slice's columns, or a thread its rows.
                        elements = elements.max(schedule.threads() * OF_A_VECTOR.min(elements));
                    } else {
                        // Each row of threads holds the slice that its rows share; of rows taken whole, each has one to itself.
                        elements *= rows_of_threads(nest, schedule);
                    }
                }
                let across = schedule.skewed && value.ty.axes.len() == 1;
                let each = match value.op {
                    Op::Load { .. } if across => KEPT_SLICE,
                    Op::Load { tensor, ref index } if value.ty.axes.len() > 1 => {
                        lines_of(nest, schedule, tensor, index)
                    }
                    ref op => instructions_of(op),
                };
                let sum = if vector.is_some() { &mut of_a_vector } else { &mut instructions };
                *sum = sum.saturating_add(elements.saturating_mul(each));
                loads |= matches!(value.op, Op::Load { .. });
            }
            Stmt::Loop(inner) => {
                loops.push(inner);
                add_block(rows, &inner.body, loops, cost);
                loops.pop();
            }
            Stmt::Store { .. } => {}
        }
    }
    let alone = |instructions: u32| (instructions / schedule.threads()).saturating_mul(ALONE);
    if let (Some((axis, block)), 1..) = (vectors, of_a_vector) {
        let over = vec![GridAxis { dims: extent_dims(&nest.axis(axis).extent), block }];
        cost.steps.push(StepCost { latency: alone(of_a_vector), work: of_a_vector / LANES, over });
    }
    if instructions > 0 || loads {
        let latency = alone(instructions) + rows.waits(loops, body);
        let axes: Vec<AxisId> = loops.iter().map(|inner| inner.axis).collect();
        cost.steps.push(StepCost { latency, work: instructions / LANES, over: over(nest, schedule, &axes) });
    }
}

/// Lines of memory, for one's worth of elements, that rows of a tile touch which are shorter.
fn lines_of(nest: &Nest, schedule: &Schedule, tensor: TensorId, index: &[Int]) -> u32 {
    const LINE: u32 = 128;
    let Some(columns) = columns::side_by_side(nest, index) else { return 1 };
    let row = schedule.blocks[columns.index()].unwrap_or(LINE) * nest.tensor(tensor).dtype.bytes();
    (LINE / row.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use crate::lower::lower_pinned;
    use crate::schedule::target::find;
    use crate::testing::nest;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// Cycles that a step of the first loop takes on its own, and what a block takes once.
    fn of_rows(body: TokenStream, warps: TokenStream) -> (u32, u32) {
        let (nest, schedules) = nest(quote! {
            #[schedule(sm_80, i = 1, j = 2048, warps = #warps)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, gain: &Tensor<f16, (N,)>, y: &mut Tensor<f16, (M, N)>) {
                tile!(for i in M {
                    let mut m = zeros::<f32>(i);
                    #body
                });
            }
        });
        let target = find(&schedules[0].target).expect("a known target");
        let cost = lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost;
        (cost.steps[0].latency, cost.once)
    }

    #[test]
    fn rows_that_are_kept_come_once_and_others_at_each_step() {
        let sum = quote!(tile!(for j in N { m += x[(i, j)].to::<f32>().row_sum(); }););
        let write = quote!(tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() - m).to(); }););
        let (kept, brought) = of_rows(quote!(#sum #write), quote!((1, 4)));
        let of_slices = quote!(tile!(for j in N { m += (x[(i, j)].to::<f32>() * gain[j].to::<f32>()).row_sum(); }););
        let (with_slices, _) = of_rows(quote!(#of_slices #write), quote!((1, 4)));
        assert_eq!(brought, super::START + super::MEMORY);
        assert!(kept < super::MEMORY / 2 && with_slices > super::MEMORY / 2, "{kept} {with_slices}");
    }

    #[test]
    fn warps_of_a_row_wait_for_each_other_where_a_step_reads_its_reduction() {
        let largest = quote! {
            tile!(for j in N {
                let new = m.max(x[(i, j)].to::<f32>().row_max());
                m = new * 2.0;
            });
            tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() - m).to(); });
        };
        let running = quote! {
            tile!(for j in N { m = m.max(x[(i, j)].to::<f32>().row_max()); });
            tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() - m).to(); });
        };
        let both = |warps: TokenStream| (of_rows(largest.clone(), warps.clone()).0, of_rows(running.clone(), warps).0);
        let (waits, folds) = both(quote!((1, 4)));
        assert!(waits >= folds + super::EXCHANGE, "{waits} {folds}");
        let (waits, folds) = both(quote!((1, 1)));
        assert!(waits < folds + super::EXCHANGE, "lanes of a warp need no barrier: {waits} {folds}");
    }

    /// Elements of tiles are as many by narrow tiles as by wide ones, slices and lines of memory are not.
    #[test]
    fn narrow_tiles_take_longer() {
        let work = |columns: u32| {
            let rows = 4096 / columns;
            let (nest, schedules) = nest(quote! {
                #[schedule(sm_80, i = #rows, j = #columns, warps = (8, 1))]
                fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, gain: &Tensor<f16, (N,)>, y: &mut Tensor<f16, (M, N)>) {
                    tile!(for (i, j) in (M, N) { y[(i, j)] = x[(i, j)] * gain[j] + gain[0]; });
                }
            });
            let target = find(&schedules[0].target).expect("a known target");
            let cost = lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost;
            cost.steps[0].work
        };
        assert!(work(16) > work(64), "{} {}", work(16), work(64));
        assert!(work(64) <= work(256) + work(256) / 4, "{} {}", work(64), work(256));
    }
}
