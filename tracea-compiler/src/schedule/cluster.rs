//! Clusters: pairs of blocks that take neighbouring tiles along one axis of the grid, and fetch for each other what these share.
//!
//! ```text
//! for (i, j) in (M, N)        blocks of a pair along i:  a[(i, k)] differs, each fetches its own
//!     for k in K                                         b[(j, k)] is the same, each fetches one half, for both
//!         acc += dot(a[(i, k)], b[(j, k)].t())
//! ```
//! So half as many bytes of that tile come from L2. Blocks of a pair walk their loops together: all tiles must take as many steps.

use super::spec::ScheduleOption;
use super::target::Pipeline;
use super::{Schedule, ScheduleError, known_extent};
use crate::lower::analysis::{DotFact, Facts, OperandSource, depends_on, steps_are_alike};
use crate::nest::{AxisId, AxisKind, Int, Nest, Op, ValueId};

/// Blocks of a cluster.
pub const BLOCKS: u32 = 2;

/// Rows over which the swizzle of 128 bytes repeats: boxes begin at a multiple of them.
const SWIZZLED_ROWS: u32 = 8;

/// As its option is written: blocks along a product's rows and columns.
pub fn shape(facts: &Facts, axis: AxisId) -> String {
    match facts.dots.iter().any(|dot| dot.m == axis) {
        true => format!("({BLOCKS}, 1)"),
        false => format!("(1, {BLOCKS})"),
    }
}

/// The axis that the option asks for; none where it asks for single blocks.
pub fn pinned(
    nest: &Nest,
    facts: &Facts,
    schedule: &Schedule,
    option: &ScheduleOption,
) -> Result<Option<AxisId>, ScheduleError> {
    let along = |side: fn(&DotFact) -> AxisId| {
        let axis = candidates(nest, facts).find(|axis| facts.dots.iter().any(|dot| side(dot) == *axis));
        axis.ok_or_else(|| about("the grid has no blocks along that side of a product -- say cluster = 2"))
    };
    match option.values[..] {
        [1] | [1, 1] => Ok(None),
        _ if schedule.target.pipeline == Pipeline::CommitGroups => {
            Err(about(format!("{} has no clusters -- leave the option out", schedule.target.name)))
        }
        [BLOCKS] => widest(nest, facts, schedule).map(Some).ok_or_else(|| {
            about("no operand of a product is the same for neighbouring blocks -- leave the option out")
        }),
        [BLOCKS, 1] => along(|dot| dot.m).map(Some),
        [1, BLOCKS] => along(|dot| dot.n).map(Some),
        _ => {
            Err(about("a cluster has 2 blocks -- say cluster = 2, or along which side of a product: (2, 1) or (1, 2)"))
        }
    }
}

/// The axis along which blocks share the most.
pub fn widest(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Option<AxisId> {
    let shared = candidates(nest, facts).map(|axis| (axis, shared_bytes(nest, facts, schedule, axis)));
    shared
        .filter(|(_, bytes)| *bytes > 0)
        .reduce(|most, next| if next.1 > most.1 { next } else { most })
        .map(|(axis, _)| axis)
}

/// Axes of the grid along which the rows or columns of products lie.
pub fn candidates(nest: &Nest, facts: &Facts) -> impl Iterator<Item = AxisId> {
    let of_product = |axis: &AxisId| facts.dots.iter().any(|dot| dot.m == *axis || dot.n == *axis);
    nest.grid.iter().copied().filter(move |axis| nest.axis(*axis).kind == AxisKind::Tiled && of_product(axis))
}

/// Of the tiles that come in each step, what is the same for neighbours along the axis.
fn shared_bytes(nest: &Nest, facts: &Facts, schedule: &Schedule, axis: AxisId) -> u32 {
    let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let dots = facts.dots.iter().filter(|dot| !dot.loops.is_empty());
    let operands = dots.flat_map(|dot| [(&dot.a, dot, dot.m), (&dot.b, dot, dot.n)]);
    operands
        .map(|(source, dot, other)| match source {
            OperandSource::Tensor { load, .. } if is_shared(nest, *load, axis) && is_cut(block(other)) => {
                block(other) * block(dot.k) * dot.dtype.bytes()
            }
            _ => 0,
        })
        .sum()
}

/// Whether so many rows make a part for each block, which begins where the swizzle repeats. Panels of as many columns, between which tiles of other operands are
/// cut, are that too.
pub fn is_cut(rows: u32) -> bool {
    rows.is_multiple_of(SWIZZLED_ROWS * BLOCKS)
}

/// Whether neighbours along the axis load the same tile, whose rows lie along one axis of a tensor: so that each can fetch a part of it.
pub fn is_shared(nest: &Nest, load: ValueId, axis: AxisId) -> bool {
    match &nest.value(load).op {
        Op::Load { index, .. } => !index.iter().any(|int| depends_on(int, axis) || walks(nest, int)),
        _ => false,
    }
}

/// Whether it is part of where a tile lies along several axes of a tensor at once.
fn walks(nest: &Nest, int: &Int) -> bool {
    int.any(&|part| matches!(part, Int::FlatCoord(axis, _) if nest.axis(*axis).kind == AxisKind::Tiled))
}

/// What no pair of blocks could carry out.
pub fn check(nest: &Nest, schedule: &Schedule) -> Result<(), ScheduleError> {
    let Some(axis) = schedule.cluster else { return Ok(()) };
    let name = &nest.axis(axis).name;
    if !steps_are_alike(&nest.body) {
        return Err(about(
            "blocks of a cluster walk loops together, and one here has bounds of its own -- leave the option out",
        ));
    }
    // Code for a size that is known checks no edges that its own blocks do not have.
    let blocks = known_extent(nest, axis)
        .map(|size| (size as u64).div_ceil(u64::from(schedule.blocks[axis.index()].unwrap_or(1))));
    match blocks {
        Some(blocks) if blocks % u64::from(BLOCKS) != 0 => {
            Err(about(format!("`{name}` has {blocks} blocks, which make no pairs -- leave the option out")))
        }
        _ => Ok(()),
    }
}

/// The complaint about pairs along the axis that would have nothing to do with each other.
pub fn nothing_shared(nest: &Nest, axis: AxisId) -> ScheduleError {
    let name = &nest.axis(axis).name;
    about(format!(
        "TMA fetches no operand of a product that is the same for neighbouring blocks along `{name}` -- leave the option out"
    ))
}

fn about(message: impl Into<String>) -> ScheduleError {
    ScheduleError::about("cluster", message)
}
