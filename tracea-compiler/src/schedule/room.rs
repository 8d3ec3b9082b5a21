//! What a schedule may take of registers and shared memory, and how one that takes more is taken back: more warps or narrower columns
//! for fewer registers, fewer stages and then smaller loop blocks for less shared memory.

use super::Schedule;
use super::choose::has_chain;
use super::target::{Pipeline, Target};
use crate::lower::analysis::{Facts, OperandSource};
use crate::nest::{AxisId, AxisKind, Dtype, Nest};
use crate::program::{Program, pressure};

/// What a thread's values may take of its registers; addresses and loop counters need the rest. Consumers of a ring copy
/// nothing, so they need fewer of those, and their fragments stay in shared memory.
pub fn registers(target: &Target) -> u32 {
    match target.pipeline {
        Pipeline::CommitGroups => 196,
        Pipeline::WarpRoles => 190,
    }
}

/// What the assembler was seen to want for the way out of panels where each warpgroup has several blocks of a tile's rows.
pub const BESIDE_TALL_TILES: u32 = 16;

/// What a consumer needs beside its values where the assembler has no room to move them.
const OTHERS: u32 = 22;

/// The same for what became of the schedule: more where TMA alone brings operands.
pub fn registers_for(schedule: &Schedule, program: &Program) -> u32 {
    let given_up = if program.by_tma { given_up_by_a_producer(schedule, program) } else { None };
    given_up.unwrap_or(registers_of(schedule))
}

/// Whether tiles want the registers that a producer copies with, of products that stand for themselves: their operands come by TMA, or by another
/// schedule.
pub fn leaves_none_for_copies(nest: &Nest, facts: &Facts, schedule: &Schedule, program: &Program) -> bool {
    let simple = program.windows.is_empty() && program.columns.is_empty() && !has_chain(nest, facts);
    let tiles = pressure::peak(program);
    simple
        && tiles > registers_of(schedule)
        && given_up_by_a_producer(schedule, program).is_some_and(|most| tiles <= most)
}

/// What a thread's values may take of its registers where its block's producer copies nothing and gives up some of its own.
fn given_up_by_a_producer(schedule: &Schedule, program: &Program) -> Option<u32> {
    let consumer = schedule.role_registers_by_tma(pressure::peak(program)).consumer;
    (consumer > schedule.role_registers().consumer).then_some(consumer - pressure::CONSUMER_REGISTERS)
}

/// The same for as many consumers as the schedule has.
pub fn registers_of(schedule: &Schedule) -> u32 {
    let most = registers(schedule.target);
    match schedule.target.pipeline {
        // Their tiles are next to all that they hold.
        Pipeline::WarpRoles if schedule.pingpong => schedule.role_registers().consumer - OTHERS,
        Pipeline::WarpRoles if schedule.resident == 1 => most.min(schedule.role_registers().consumer - OTHERS),
        _ => most,
    }
}

/// Takes registers off every thread: more warps, then narrower column blocks, then shorter steps; false where nothing is left.
pub fn lighten(nest: &Nest, facts: &Facts, schedule: &mut Schedule) -> bool {
    if facts.dots.is_empty() {
        return halve_widest(nest, schedule);
    }
    let columns = facts
        .dots
        .iter()
        .map(|dot| dot.n)
        .filter(|n| facts.dots.iter().all(|other| other.m != *n))
        .filter(|n| nest.axis(*n).kind == AxisKind::Tiled && schedule.blocks[n.index()].unwrap_or(0) > 32)
        .max_by_key(|n| schedule.blocks[n.index()]);
    if schedule.target.pipeline == Pipeline::WarpRoles {
        // Panels hold 64 columns.
        return match columns.filter(|n| schedule.blocks[n.index()].unwrap_or(0) > 64) {
            Some(n) => {
                schedule.blocks[n.index()] = schedule.blocks[n.index()].map(|block| (block / 2).next_multiple_of(64));
                true
            }
            None => rows_are_columns(facts) && halve_rows(nest, facts, schedule),
        };
    }
    let (m, n) = schedule.warps;
    let rows_for = |warps: u32| facts.dots.iter().all(|dot| schedule.blocks[dot.m.index()].unwrap_or(0) >= 16 * warps);
    let columns_for = |warps: u32| {
        let divides = |block: u32| block.is_multiple_of(8 * warps);
        facts.dots.iter().all(|dot| dot.dtype == Dtype::F32 || schedule.blocks[dot.n.index()].is_some_and(divides))
    };
    // More warps keep the tile, and with it the operands' reuse.
    match columns {
        _ if n > 1 && m * n < 8 && columns_for(2 * n) => schedule.warps.1 *= 2,
        Some(n) => schedule.blocks[n.index()] = schedule.blocks[n.index()].map(|block| block / 2),
        None if n == 1 && m < 8 && rows_for(2 * m) => schedule.warps.0 *= 2,
        None if n > 1 && m * n < 16 && columns_for(2 * n) => schedule.warps.1 *= 2,
        None if rows_are_columns(facts) => return halve_rows(nest, facts, schedule),
        None => return halve_steps(nest, facts, schedule),
    }
    true
}

/// Half as many terms a step, where fragments of an operand are computed for all of them.
fn halve_steps(nest: &Nest, facts: &Facts, schedule: &mut Schedule) -> bool {
    const LEAST_TERMS: u32 = 16;
    let is_computed = |source: &OperandSource| matches!(source, OperandSource::Computed { .. });
    let longest = facts
        .dots
        .iter()
        .filter(|dot| is_computed(&dot.a) && nest.axis(dot.k).kind == AxisKind::Tiled)
        .map(|dot| dot.k)
        .filter(|k| schedule.blocks[k.index()].is_some_and(|terms| terms >= 2 * LEAST_TERMS))
        .filter(|k| facts.dots.iter().all(|other| other.m != *k && other.n != *k))
        .max_by_key(|k| schedule.blocks[k.index()]);
    let Some(k) = longest else { return false };
    schedule.blocks[k.index()] = schedule.blocks[k.index()].map(|terms| terms / 2);
    true
}

/// Whether a product's rows are another one's columns: a thread has fewer of these where a block has fewer rows.
fn rows_are_columns(facts: &Facts) -> bool {
    facts.dots.iter().any(|dot| facts.dots.iter().any(|other| other.n == dot.m))
}

/// Half as many warps, each with as many rows.
fn halve_rows(nest: &Nest, facts: &Facts, schedule: &mut Schedule) -> bool {
    const LEAST_WARPS: u32 = 4;
    let mut rows: Vec<AxisId> = facts.dots.iter().map(|dot| dot.m).collect();
    rows.sort_unstable();
    rows.dedup();
    if schedule.warps.0 <= LEAST_WARPS || rows.iter().any(|axis| nest.axis(*axis).kind != AxisKind::Tiled) {
        return false;
    }
    schedule.warps.0 /= 2;
    for axis in rows {
        schedule.blocks[axis.index()] = schedule.blocks[axis.index()].map(|block| block / 2);
    }
    true
}

fn halve_widest(nest: &Nest, schedule: &mut Schedule) -> bool {
    let threads = schedule.threads();
    let blocks = &mut schedule.blocks;
    let total: u32 = nest.axes.iter().zip(blocks.iter()).filter_map(|(_, block)| *block).product();
    let widest = (0..blocks.len())
        .filter(|index| nest.axes[*index].kind == AxisKind::Tiled && blocks[*index].unwrap_or(0) > 1)
        .max_by_key(|index| blocks[*index]);
    match widest {
        Some(index) if total > threads => {
            blocks[index] = blocks[index].map(|block| block / 2);
            true
        }
        _ => false,
    }
}

/// Makes a schedule that asked for too much shared memory smaller; false where nothing is left to give.
pub fn shrink(nest: &Nest, facts: &Facts, schedule: &mut Schedule) -> bool {
    if schedule.stages > 2 && !facts.dots.is_empty() {
        schedule.stages -= 1;
        return true;
    }
    let least = |axis: AxisId| {
        let mut least = if schedule.target.pipeline == Pipeline::WarpRoles { 64 } else { 16 };
        for dot in &facts.dots {
            if dot.m == axis {
                least = least.max(16 * schedule.warps.0);
            }
            if dot.n == axis {
                least = least.max(8 * schedule.warps.1);
            }
        }
        least
    };
    let widest = nest
        .axes
        .iter()
        .enumerate()
        .filter(|(index, axis)| {
            axis.kind == AxisKind::Tiled
                && schedule.blocks[*index].unwrap_or(0) >= 2 * least(AxisId(*index as u32))
                && (nest.grid.iter().all(|grid| grid.index() != *index) || !facts.dots.is_empty())
        })
        // Loop blocks first: a grid block that shrinks costs reuse.
        .max_by_key(|(index, _)| (!nest.grid.contains(&AxisId(*index as u32)), schedule.blocks[*index]));
    match widest {
        Some((index, _)) => {
            schedule.blocks[index] = schedule.blocks[index].map(|block| block / 2);
            true
        }
        None => halve_rows(nest, facts, schedule),
    }
}
