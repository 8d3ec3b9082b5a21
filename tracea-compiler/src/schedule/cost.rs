//! What a block costs, in clock cycles of one multiprocessor: an analytic model, for ranking schedules of one kernel.
//!
//! A step of a loop takes as long as the slower of its products and its operands' way from L2. Products run at the tensor
//! cores' dense rate, operands arrive at a multiprocessor's share of L2's bandwidth. The launcher multiplies by the steps and by
//! the waves that the grid takes, so that a tile that is too wide for the problem, or too few of them, shows.

use super::Schedule;
use super::target::Pipeline;
use crate::lower::analysis::{Facts, OperandSource};
use crate::lower::extent_dims;
use crate::nest::{AxisId, AxisKind, Nest};
use crate::plan::{Cost, GridAxis, StepCost};

/// Bytes a cycle that reach one multiprocessor while all of them read.
const L2_BYTES: u32 = 48;
/// Starting a block: barriers, the first tile's latency.
const START: u32 = 1500;
/// Bytes a cycle on an accumulator's way out.
const STORE_BYTES: u32 = 16;

pub fn of(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Cost {
    // Operations a cycle, dense; mma.sync reaches about five eighths of wgmma on the same cores.
    let rate = match schedule.target.pipeline {
        Pipeline::WarpRoles => 4096,
        Pipeline::CommitGroups => 2560,
    };
    let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let mut cost = Cost { once: START, steps: Vec::new() };
    for dot in &facts.dots {
        let multiply = 2 * block(dot.m) * block(dot.n) / rate * block(dot.k) * dot.dtype.bytes() / 2;
        let read: u32 = [(&dot.a, dot.m), (&dot.b, dot.n)]
            .into_iter()
            .filter(|(source, _)| matches!(source, OperandSource::Tensor { .. }))
            .map(|(_, other)| block(other) * block(dot.k) * dot.dtype.bytes() / L2_BYTES)
            .sum();
        let over = dot
            .loops
            .iter()
            .map(|axis| {
                let each = nest.axis(*axis).kind == AxisKind::Each;
                GridAxis { dims: extent_dims(&nest.axis(*axis).extent), block: if each { 1 } else { block(*axis) } }
            })
            .collect();
        cost.steps.push(StepCost { cycles: multiply.max(read).max(1), over });
        cost.once = cost.once.max(START + block(dot.m) * block(dot.n) * 2 / STORE_BYTES);
    }
    cost
}
