//! What a block costs, in clock cycles of one multiprocessor: an analytic model, for ranking schedules of one kernel.
//!
//! A step of a loop takes as long as the slower of its products and its operands' way from L2. Products run at the tensor
//! cores' dense rate, operands arrive at a multiprocessor's share of L2's bandwidth. The launcher multiplies by the steps and by
//! the waves that the grid takes, so that a tile that is too wide for the problem, or too few of them, shows.

use super::Schedule;
use super::target::Pipeline;
use crate::lower::analysis::{Facts, OperandSource};
use crate::lower::extent_dims;
use crate::nest::{AxisId, AxisKind, Block, Nest, Op, Stmt};
use crate::plan::{Cost, GridAxis, StepCost};
use crate::program::{Program, pressure};

/// Bytes a cycle that reach one multiprocessor while all of them read.
const L2_BYTES: u32 = 48;
/// Starting a block: barriers, the first tile's latency.
const START: u32 = 1500;
/// Between two steps of a block on its own: a wait for the slot, the first product's way through the tensor cores.
const TURN: u32 = 100;
/// From one tile's last product to the next one's first, beside the accumulators that are packed for the way out, so many a cycle.
const BETWEEN_TILES: u32 = 600;
const PACKED_ELEMENTS: u32 = 32;
/// Bytes a cycle on an accumulator's way out.
const STORE_BYTES: u32 = 16;

/// Lanes that a multiprocessor serves in a cycle.
const LANES: u32 = 128;
/// Cycles between two instructions of a warp that runs alone: most wait for the one before.
const ALONE: u32 = 3;
/// A tile's way from memory, where nothing has brought it before.
const MEMORY: u32 = 800;

pub fn of(nest: &Nest, facts: &Facts, schedule: &Schedule, program: &Program) -> Cost {
    match facts.dots.is_empty() {
        true => of_rows(nest, schedule, program),
        false => of_dots(nest, facts, schedule),
    }
}

fn of_dots(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Cost {
    // Operations a cycle, dense; mma.sync reaches about five eighths of wgmma on the same cores.
    let rate = match schedule.target.pipeline {
        Pipeline::WarpRoles => 4096,
        Pipeline::CommitGroups => 2560,
    };
    let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let mut cost = Cost { once: 0, resident: schedule.resident, steps: Vec::new() };
    for dot in &facts.dots {
        let multiply = 2 * block(dot.m) * block(dot.n) / rate * block(dot.k) * dot.dtype.bytes() / 2;
        let read: u32 = [(&dot.a, dot.m), (&dot.b, dot.n)]
            .into_iter()
            .filter(|(source, _)| matches!(source, OperandSource::Tensor { .. }))
            .map(|(_, other)| block(other) * block(dot.k) * dot.dtype.bytes() / L2_BYTES)
            .sum();
        let cycles = multiply.max(read).max(1);
        let latency = cycles + if schedule.target.pipeline == Pipeline::WarpRoles { TURN } else { 0 };
        cost.steps.push(StepCost { latency, work: cycles, over: over(nest, schedule, &dot.loops) });
        let tile = block(dot.m) * block(dot.n);
        cost.once = cost.once.max(match schedule.target.pipeline {
            // Operands of the next tile come meanwhile, and TMA writes on while it is multiplied.
            Pipeline::WarpRoles => BETWEEN_TILES + tile / PACKED_ELEMENTS,
            Pipeline::CommitGroups => START + tile * 2 / STORE_BYTES,
        });
    }
    cost
}

/// Element-wise work and reductions: instructions for each element of each tile, edges that are masked off included.
fn of_rows(nest: &Nest, schedule: &Schedule, program: &Program) -> Cost {
    let mut cost = Cost { once: START, resident: pressure::likely_resident(program), steps: Vec::new() };
    add_block(nest, schedule, &nest.body, &mut Vec::new(), &mut cost);
    cost
}

fn add_block(nest: &Nest, schedule: &Schedule, body: &Block, loops: &mut Vec<AxisId>, cost: &mut Cost) {
    let (mut instructions, mut loads) = (0u32, false);
    for stmt in &body.stmts {
        match stmt {
            Stmt::Value(id) => {
                let value = nest.value(*id);
                let mut elements: u32 = value.ty.axes.iter().filter_map(|axis| schedule.blocks[axis.index()]).product();
                if let [axis] = value.ty.axes[..]
                    && !nest.grid.contains(&axis)
                {
                    // Each row of warps holds the slice that its rows share.
                    elements *= schedule.warps.0;
                }
                instructions = instructions.saturating_add(elements.saturating_mul(instructions_of(&value.op)));
                loads |= matches!(value.op, Op::Load { .. });
            }
            Stmt::Loop(inner) => {
                loops.push(inner.axis);
                add_block(nest, schedule, &inner.body, loops, cost);
                loops.pop();
            }
            Stmt::Store { .. } => {}
        }
    }
    if instructions > 0 {
        let each = instructions / schedule.threads();
        let latency = each.saturating_mul(ALONE) + if loads { MEMORY / 2 } else { 0 };
        cost.steps.push(StepCost { latency, work: instructions / LANES, over: over(nest, schedule, loops) });
    }
}

fn instructions_of(op: &Op) -> u32 {
    match op {
        Op::Unary(..) => 3,
        Op::Call(..) => 12,
        Op::Binary(..) | Op::Compare(..) | Op::Select(..) | Op::Cast(_) | Op::Load { .. } => 1,
        // A comparison to the running value and its share of the shuffles.
        Op::Reduce(..) => 2,
        _ => 0,
    }
}

fn over(nest: &Nest, schedule: &Schedule, loops: &[AxisId]) -> Vec<GridAxis> {
    let blocks = |axis: &AxisId| {
        let each = nest.axis(*axis).kind == AxisKind::Each;
        let block = if each { 1 } else { schedule.blocks[axis.index()].unwrap_or(1) };
        GridAxis { dims: extent_dims(&nest.axis(*axis).extent), block }
    };
    loops.iter().map(blocks).collect()
}
