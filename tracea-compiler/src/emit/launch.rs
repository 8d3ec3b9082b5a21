//! [`Program`] → launch plan: the numbers and recipes that the runtime interprets.

use crate::lower::{Lowered, extent_dims};
use crate::nest::{AxisKind, TensorId};
use crate::plan::{GridAxis, Kept, Split, Variant};
use crate::program::{Program, Rejoin};

/// The plan of a lowered kernel beside its source.
pub fn launch_plan(lowered: &Lowered, source: String) -> Variant {
    let Lowered { nest, program, .. } = lowered;
    let grid = program
        .grid
        .iter()
        .map(|grid| {
            let axis = nest.axis(grid.axis);
            let block = if axis.kind == AxisKind::Each { 1 } else { grid.block };
            GridAxis { dims: extent_dims(&axis.extent), block }
        })
        .collect();
    Variant {
        target: program.target.clone(),
        schedule: program.schedule.clone(),
        why: lowered.schedule.why.clone(),
        source,
        entry: program.entry.clone(),
        threads: program.threads + program.producer.as_ref().map_or(0, |producer| producer.threads),
        persistent: program.units.are_shared_out(),
        by_tma: program.by_tma,
        awaits: program.producer.is_some(),
        cluster: program.cluster.map_or(1, |cluster| cluster.blocks),
        paired: program.cluster.and_then(|cluster| program.grid.iter().position(|grid| grid.axis == cluster.axis)),
        shared_bytes: program.shared_bytes,
        split: program.split.as_ref().map(|split| Split {
            part_bytes: 4 * split.floats,
            most_parts: split.most_parts,
            over: match split.whole {
                Some(_) => Vec::new(),
                None => vec![GridAxis {
                    dims: extent_dims(&nest.axis(split.axis).extent),
                    block: program.block(split.axis).unwrap_or(1),
                }],
            },
            some_whole: split.whole.is_some(),
            shares: split.shares,
            weighted: split.ways.iter().any(|way| matches!(way, Rejoin::Relative { .. })),
        }),
        kept: program.kept.as_ref().map(|rows| Kept {
            columns: GridAxis {
                dims: extent_dims(&nest.axis(rows.axis).extent),
                block: program.block(rows.axis).unwrap_or(1),
            },
            block_bytes: rows.tiles.iter().map(|tile| program.kept_bytes(tile)).sum(),
            most_blocks: rows.most_blocks,
        }),
        grid,
        cost: lowered.cost.clone(),
        args: program.params.iter().map(|param| param.arg.clone()).collect(),
        aligned: program.aligned.iter().map(|tensor| tensor.index()).collect(),
        columns: program.columns.clone(),
        positive: program.positive.clone(),
        relaid: program.relaid.clone(),
        precomputed: nest.tensors.iter().any(|tensor| tensor.precomputed),
        merged: program.merged.clone(),
        joined: program.joined.clone(),
        skewed: alike(program).iter().map(|tensor| tensor.index()).collect(),
        longest: program
            .whole
            .as_ref()
            .map(|whole| GridAxis { dims: extent_dims(&nest.axis(whole.axis).extent), block: whole.longest }),
        windows: program.windows.clone(),
        whole_vectors: program.whole_vectors,
        max_registers: register_limit(program),
        promised_sass: program.promised_sass.clone(),
    }
}

/// Tensors whose rows must begin equally far past a chunk.
fn alike(program: &Program) -> &[TensorId] {
    match (&program.skew, &program.whole) {
        (Some(skew), _) => &skew.tensors,
        (_, Some(whole)) => &whole.tensors,
        _ => &[],
    }
}

/// What the register file holds for one block of these threads; a warp takes registers by eights a thread.
fn register_limit(program: &Program) -> u32 {
    let threads = program.threads + program.producer.as_ref().map_or(0, |producer| producer.threads);
    // Roles move registers among themselves, so that what they ask for together must fit.
    let resident = if program.producer.is_some() { program.resident } else { 1 };
    match 65536 / resident / threads.max(1) {
        256.. => 255,
        share => share / 8 * 8,
    }
}
