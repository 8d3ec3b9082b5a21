//! What a block costs, in clock cycles of one multiprocessor: an analytic model, for ranking schedules of one kernel.
//!
//! A step of a loop takes as long as the slower of its products and its operands' way from L2. Products run at the tensor
//! cores' dense rate, operands arrive at a multiprocessor's share of L2's bandwidth. The launcher multiplies by the steps and by
//! the waves that the grid takes, so that a tile that is too wide for the problem, or too few of them, shows.

mod around;
mod products;
mod results;
mod rows;

use super::Schedule;
use crate::lower::analysis::{Facts, longer_along};
use crate::lower::{extent_dims, spans};
use crate::nest::{AxisId, AxisKind, Nest, Op};
use crate::plan::{Cost, GridAxis, Growing};
use crate::program::Program;

/// Starting a block: barriers, the first tile's latency.
const START: u32 = 1500;
/// Between two steps of a block on its own: unless products run on meanwhile, a wait for the slot and the first product's way through the
/// tensor cores.
const TURN: u32 = 100;
/// Lanes that a multiprocessor serves in a cycle.
const LANES: u32 = 128;

pub fn of(nest: &Nest, facts: &Facts, schedule: &Schedule, program: &Program) -> Cost {
    let cost = match facts.dots.is_empty() {
        true => rows::of(nest, facts, schedule, program),
        false => products::of(nest, facts, schedule, program),
    };
    Cost { growing: growing(nest, schedule), ..cost }
}

/// The first loop that ends with a block of the grid.
fn growing(nest: &Nest, schedule: &Schedule) -> Option<Growing> {
    let (steps, along) = nest.grid.iter().find_map(|axis| Some((longer_along(&nest.body, *axis)?, *axis)))?;
    let mut axes = over(nest, schedule, &[steps.axis, along]).into_iter();
    Some(Growing { steps: axes.next()?, along: axes.next()? })
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
    let parts: Vec<(AxisId, AxisId, u32)> = loops
        .iter()
        .filter_map(|axis| spans::part_of_an_axis(nest, *axis).map(|(around, length)| (around, *axis, length)))
        .filter(|(around, ..)| loops.contains(around))
        .collect();
    let blocks = |axis: &AxisId| {
        let each = nest.axis(*axis).kind == AxisKind::Each;
        let block = if each { 1 } else { schedule.blocks[axis.index()].unwrap_or(1) };
        let part = parts.iter().find(|(_, inner, _)| inner == axis).map(|(.., length)| *length);
        GridAxis { dims: extent_dims(&nest.axis(*axis).extent), block: part.map_or(block, |length| block.min(length)) }
    };
    // What parts of an axis take is what that takes.
    let own = loops.iter().filter(|axis| parts.iter().all(|(around, ..)| around != *axis));
    own.map(blocks).collect()
}
