//! What loops around products do between one of them and the next.

use super::products::{BETWEEN_TILES, PACKED_ELEMENTS, values_in};
use super::{LANES, instructions_of, over};
use crate::lower::analysis::{Facts, depends_on};
use crate::nest::{AxisId, Block, Nest, Op, Stmt, Value};
use crate::plan::StepCost;
use crate::program::{self, Kept, Program};
use crate::schedule::Schedule;

/// What a loop around sums makes of each, with what it loads for that along their rows or columns, while no product runs: a thread has two rows, and
/// many columns. Measured on an H100, 1024 x 2048 by 32 groups of 32 terms, each scaled by a number a column: a group takes 2500 cycles by tiles of
/// 128 x 128, and 1300 by 144 x 128 the other way round. Where columns come while products run, 192 x 3072 by 64 such groups takes 34.4 µs by 64 x 128,
/// and 35.7 by 96 x 128 the other way round.
pub fn sums(nest: &Nest, facts: &Facts, schedule: &Schedule, program: &Program) -> Vec<StepCost> {
    const WAIT: u32 = 600;
    const CYCLES_OF_A_COLUMN: u32 = 45;
    const CYCLES_OF_AN_EARLY_COLUMN: u32 = 12;
    const THREADS_OF_A_ROW: u32 = 4;
    let block = |axis: &AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let (mut steps, mut seen) = (Vec::new(), Vec::new());
    for dot in &facts.dots {
        let Some((_, around)) = dot.loops.split_last() else { continue };
        for (at, axis) in around.iter().enumerate() {
            if seen.contains(axis) {
                continue;
            }
            seen.push(*axis);
            let values: Vec<&Value> = values_in(&nest.body, *axis).into_iter().map(|id| nest.value(id)).collect();
            let loads = |along: AxisId| {
                let of = |value: &&&Value| matches!(value.op, Op::Load { .. }) && value.ty.axes[..] == [along];
                values.iter().filter(of).count() as u32
            };
            let (rows, columns) = (loads(dot.m), loads(dot.n));
            if rows + columns == 0 {
                continue;
            }
            let elements =
                |value: &&Value| value.ty.axes.iter().map(block).product::<u32>() * instructions_of(&value.op);
            let instructions: u32 = values.iter().filter(|value| value.ty.axes.len() > 1).map(elements).sum();
            let own_columns = block(&dot.n) / (THREADS_OF_A_ROW * schedule.warps.1);
            let early = early_columns(&program.body, false).min(columns);
            let cycles = CYCLES_OF_A_COLUMN * (columns - early) + CYCLES_OF_AN_EARLY_COLUMN * early;
            let work = instructions / LANES + cycles * own_columns;
            steps.push(StepCost { latency: WAIT + work, work, over: over(nest, schedule, &around[..=at]) });
        }
    }
    steps
}

/// Slices of columns that loops around sums read from where they came early.
fn early_columns(stmts: &[program::Stmt], in_loop: bool) -> u32 {
    let of = |stmt: &program::Stmt| match stmt {
        program::Stmt::Load { kept: Some(Kept::Early { .. }), .. } => u32::from(in_loop),
        _ => {
            let in_loop = in_loop || matches!(stmt, program::Stmt::For { .. });
            stmt.bodies().into_iter().map(|body| early_columns(body, in_loop)).sum::<u32>()
        }
    };
    stmts.iter().map(of).sum()
}

/// Tiles that leave at a step of a loop, before its next product. Measured on an H100: 1024 x 2048 from a sum of 64 terms, that a loop over columns
/// multiplies and stores, takes 25.8 µs by steps of 64 columns, and 20.4 by 128.
pub fn stores(nest: &Nest, schedule: &Schedule, block: &Block, loops: &mut Vec<AxisId>, steps: &mut Vec<StepCost>) {
    let elements = |axis: &AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    for stmt in &block.stmts {
        match stmt {
            Stmt::Store { value, .. } if !loops.is_empty() && nest.value(*value).ty.axes.len() > 1 => {
                let tile: u32 = nest.value(*value).ty.axes.iter().map(elements).product();
                let latency = BETWEEN_TILES + tile / PACKED_ELEMENTS;
                steps.push(StepCost { latency, work: latency / 2, over: over(nest, schedule, loops) });
            }
            Stmt::Loop(inner) => {
                loops.push(inner.axis);
                stores(nest, schedule, &inner.body, loops, steps);
                loops.pop();
            }
            Stmt::Store { .. } | Stmt::Value(_) => {}
        }
    }
}

/// Results after products whose elements each have a sector of memory to themselves: their tensor is contiguous along neither axis of the tile.
/// Measured on an H200, tiles of bf16 of which 48 lie side by side: 192 x 192 from sums of 3072 terms take 68 µs, 18 000 elements for each
/// multiprocessor, and 1024 x 1024 of 2048 terms, which L2 has no room for, 2.1 ms, ten cycles for each.
pub fn scattered(nest: &Nest, schedule: &Schedule) -> u32 {
    const CYCLES: u32 = 5;
    let block = |axis: &AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let results = nest.body.stmts.iter().filter_map(|stmt| match stmt {
        Stmt::Store { index, value, .. } => {
            let axes = &nest.value(*value).ty.axes;
            let across = index.last().is_some_and(|last| !axes.iter().any(|axis| depends_on(last, *axis)));
            (axes.len() > 1 && across).then(|| axes.iter().map(block).product::<u32>())
        }
        _ => None,
    });
    results.sum::<u32>() * CYCLES
}

#[cfg(test)]
mod tests {
    use super::BETWEEN_TILES;
    use crate::lower::lower_pinned;
    use crate::plan::StepCost;
    use crate::schedule::target::find;
    use crate::testing::nest;
    use proc_macro2::TokenStream;
    use quote::quote;

    #[test]
    fn tiles_that_leave_at_each_step_are_better_few() {
        let of = |columns: u32| {
            let (nest, schedules) = nest(quote! {
                #[schedule(sm_90a, i = 128, j = #columns, stages = 3, consumers = 2)]
                fn f<M: Dim, N: Dim>(u: &Tensor<f16, (M, Const<64>)>, v: &Tensor<f16, (Const<64>, N)>, c: &mut Tensor<f16, (M, N)>) {
                    tile!(for i in M { tile!(for j in N { c[(i, j)] = dot(u[(i, ..)], v[(.., j)]).to(); }); });
                }
            });
            let target = find(&schedules[0].target).expect("a known target");
            let cost = lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost;
            cost.steps.iter().filter(|step| !step.over.is_empty()).map(|step| step.latency).sum::<u32>()
        };
        assert!(of(128) + BETWEEN_TILES <= 2 * of(64), "{} {}", of(128), of(64));
    }

    #[test]
    fn numbers_of_columns_hold_groups_of_terms_up() {
        let between = |scale: TokenStream| {
            let (nest, schedules) = nest(quote! {
                #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)]
                fn f<M: Dim, N: Dim, K: Dim, G: Dim>(
                    a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, r: &Tensor<f32, (M, G)>, s: &Tensor<f32, (N, G)>, h: &Tensor<f16, (N, G)>,
                    c: &mut Tensor<f32, (M, N)>,
                ) {
                    tile!(for (i, j) in (M, N) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for g in each(G) {
                            let mut part = zeros::<f32>((i, j));
                            tile!(for k in K.range(g * 64..g * 64 + 64) { part += dot(a[(i, k)], b[(j, k)].t()); });
                            acc += part * #scale;
                        });
                        c[(i, j)] = acc;
                    });
                }
            });
            let target = find(&schedules[0].target).expect("a known target");
            let cost = lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost;
            let of_groups = |step: &&StepCost| step.over.len() == 1 && step.over[0].dims == [3];
            cost.steps.iter().filter(of_groups).map(|step| step.latency).sum::<u32>()
        };
        let (none, rows) = (between(quote!(2.0)), between(quote!(r[(i, g)])));
        let (early, late) = (between(quote!(s[(j, g)])), between(quote!(h[(j, g)].to::<f32>())));
        assert_eq!(none, 0);
        assert!(rows >= 600 && early > rows + 32 * 10 && late > early + 32 * 30, "{rows} {early} {late}");
    }
}
