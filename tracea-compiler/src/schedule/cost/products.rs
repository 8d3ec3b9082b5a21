//! Products: a step takes as long as the slower of its products and its operands' way from L2.

use super::{LANES, START, TURN, around, instructions_of, over, results};
use crate::lower::analysis::{DotFact, Facts, OperandSource, inner_sum, mentions};
use crate::lower::{columns, precomputed};
use crate::nest::{AxisId, Block, DimId, Dtype, Extent, Nest, Op, Stmt, TensorId, Value, ValueId};
use crate::plan::{self, Cost, Fetch, GridAxis, StepCost};
use crate::program::{Major, Program, Short, pressure};
use crate::schedule::target::Pipeline;
use crate::schedule::{Schedule, WARPGROUP, choose, cluster, panel};

/// Bytes a cycle that reach one multiprocessor while all of them read.
const L2_BYTES: u32 = 70;
/// Bytes a cycle that shared memory moves beside products: what TMA writes of their operands, and what each warpgroup reads. Measured on an
/// H200: 1084 cycles for 128 terms of a tile of 128 × 128, of which 64 KiB come and two warpgroups read 96; 350 for 64 terms of 64 × 128,
/// of which 24 KiB come and one reads them.
const SHARED_BYTES: u32 = 144;
/// The same of rings of so many steps, where a late one holds nobody up. Measured on an H200: 300 x 8192 x 8192 takes 56.4 µs by tiles of 152 x 128 the other
/// way round, five steps, and 58.3 by 104 x 192 of three warpgroups; 264 x 4096 x 11008 41.1 by 144 x 128 and 42.5 by 144 x 192, 300 x 4096 x 11008 42.1 by
/// 80 x 128, seven steps, 43.5 by 152 x 128 and 45.7 by 104 x 192.
const SHARED_BYTES_OF_MANY_STEPS: u32 = 151;
const MANY_STEPS: u32 = 5;
/// The same of three warpgroups, two of which read while one waits. Measured on an H100: 300 x 5120 x 13824 takes 74.4 µs by tiles of 80 x 192 the other way
/// round, 550 cycles a step, of which 34 KiB come and three warpgroups read 54; 96 and 112 rows take as long as their products.
const SHARED_BYTES_OF_THREE: u32 = 187;
/// The same of warpgroups in turn, whose rings fill up from one tile to the next, where a block has a next one. Measured on an H100: 4096³ with ReLU takes
/// 214 µs by 128 x 128 in turn, and 184 by 128 x 256 together; 300 x 5120 x 13824, one tile a block, 78.7 by 128 x 128 in turn as by 128 x 128 together.
const SHARED_BYTES_IN_TURN: u32 = 155;
/// Between two steps, of a pair of blocks of several warpgroups. Measured on an H100 by pairs of 128 x 256 and by single blocks: 4096³ takes 180.1 µs by both,
/// 8192³ 1440 and 1470, 4096 x 28672 x 4096, of which single blocks cut what is left over, 1280 and 1255; a 3 × 3 convolution of 128 images of 14²
/// from 512 channels to 512 155 and 151.
const TURN_OF_A_PAIR: u32 = 92;
/// And so much of what a step is shorter than those, while rows are all that comes. Measured on an H100 over 40 drawn products: where pairs and single
/// blocks have as much to do, pairs take 1.02 of the other time by 160 columns or rows, 1.01 by 192, 1.00 by 208 and 256.
const STEP_OF_A_PAIR: u32 = 832;
const OF_SHORTER_STEPS: u32 = 8;
/// So much more of a pair of products the other way round, whose blocks share the smaller of their tiles. Measured on an H200 by pairs of 256 x 128 and by
/// single blocks: 4096³ takes 193.6 and 191.3 µs, 193.1 and 190.7 (`nn`), 1024 x 8192 x 4096 with ReLU 95.5 and 93.6.
const TURNED_PAIR: u32 = 18;
/// Neither is seen of rings of so many steps. Measured on an H200 by tiles of 104 x 128, single and in pairs: 200 x 8192 x 8192 takes 43.2 and 42.3 µs, 400 x
/// 4096 x 4096 23.9 and 23.3; by 144 to 176 columns, five steps, products that run on spare nothing.
const DEEP_RING: u32 = 6;
/// Between two steps of a ring that is just so deep. Fitted to 188 products by every schedule on an H200, of which tiles of 96 to 112 x 128 would look
/// too fast beside others without it, now that deep rings spare shared memory.
const TURN_OF_A_DEEP_RING: u32 = 25;
/// And of a pair whose rings are deeper. Fitted to an H200's times by 80 x 128, single and in pairs: 136 x 7168 x 7168 (`tn`) takes 31.6 and 32.8 µs.
const TURN_OF_A_DEEP_PAIR: u32 = 6;
/// Between two steps of a ring of two, which waits for all of one while the other is multiplied, and until a tile's first ones are there. Measured on an H200
/// by steps of 128 terms and pairs that take 64: 4096³ takes 195.0 and 191.7 µs, 4096 x 28672 x 4096 1416 and 1395, 8192 x 4096 x 8192 697 and 693,
/// 4096 x 4096 x 14336 601 and 603, 16384³ 12577 and 12587, 8192 x 8192 x 28672 5531 and 5596.
const TURN_OF_TWO_STEPS: u32 = 160;
const FIRST_OF_TWO_STEPS: u32 = 2100;
/// The same of f32 as tf32, 64 terms and 32: 4096³ takes 342 and 335 µs, 348 and 346 (`nn`), 4096 x 4096 x 14336 1291 and 1328, 1309 and 1352 (`nn`), 8192³ 3051
/// and 3091, 3084 and 3158 (`nn`).
const TURN_OF_TWO_STEPS_OF_TF32: u32 = 84;
const FIRST_OF_TWO_STEPS_OF_TF32: u32 = 8000;
/// Between two steps of a pair of one warpgroup each, with such rings. Measured on an H200 by tiles of 64 x 128, single and in pairs: 384 x 2560 x 6144 takes
/// 22.4 and 24.0 µs, 200 x 12288 x 4096 42.3 and 44.9, 120 x 8192 x 8192, whose weights single blocks read again, 41.8 and 36.8.
const TURN_OF_A_SMALL_PAIR: u32 = 40;
/// The same of warpgroups in turn, and from one's tile to the other's. Measured on an H200 by tiles of 128 x 192 and of 128 x 128, sums of f16: 4096 x 3840
/// x 1280 takes 55.8 and 60.4 µs, 4096 x 4096 x 1024 52.9 and 49.7, 25216 x 1536 x 384 43.8 and 46.3, 2048 x 2048 x 256 9.6 and 8.7; by 128 x 192 and by
/// pairs of 128 x 256 4096 x 6144 x 4096 293 and 295, 8192³ 1633 and 1617.
const BY_TURNS: u32 = 75;
const BETWEEN_TURNS: u32 = 500;
/// The same of each product of a chain, where one warpgroup does all of it: nothing else is multiplied until its result is there. Measured on an H100:
/// the gradients of 4096 queries and 1536 keys of 64 take 57 µs by steps of five products, 0.89 µs a step, of which products take 0.36; sm_80's code takes 37.
const OF_A_CHAIN: u32 = 220;
/// What a step takes longer where fewer panels than so many of each operand fit a ring, unless these are multiplied for so many cycles. Measured on an
/// H100: two products side by side by 176 rows, three steps of 64 terms under way, 2048 x 8192 x 2048 and 8192 x 28672 x 8192, take 5 % longer than
/// without this; by 192 rows 4096 x 14336 x 4096, 16384 x 8192 x 4096, 8192 x 8192 x 2048 and 8192 x 28672 x 8192 do not, beside tiles of 128 x 128,
/// nor does one by 192 rows and columns of three warpgroups.
const SHALLOW: u32 = 70;
const DEEP_PANELS: u32 = 4;
const DEEP_CYCLES: u32 = 4500;
/// From one tile's last product to the next one's first, beside the accumulators that are packed for the way out, so many a cycle; and how many
/// are turned on it, of a product the other way round. Measured on an H200: 4096³ takes 191.7 µs by tiles of 256 columns, four each, and 191.3 by as many
/// rows, 2048 x 4096 x 2048 47.7 and 47.5, 2048³ 26.8 and 27.1; 4096³ by 208 columns and by as many rows 197.4 and 199.3.
pub const BETWEEN_TILES: u32 = 600;
pub const PACKED_ELEMENTS: u32 = 16;
const TURNED_ELEMENTS: u32 = 96;
/// Until TMA has read the last panel out of a slot that the ring lends. Measured on an H100 by tiles of 256 x 160 and by 128 x 192 in turn: 4096 x 28672 x
/// 4096 takes 1376 and 1329 µs, 16384 x 1280 x 4096 (`nn`) 231 and 242, 4096 x 2560 x 5120 (`nn`) 141 and 166; by one place of
/// each warpgroup's own, for which rings leave room, the first took 1.10 of the other.
const LENT: u32 = 700;
/// Bytes a cycle on an accumulator's way out.
const STORE_BYTES: u32 = 16;

pub fn of(nest: &Nest, facts: &Facts, schedule: &Schedule, program: &Program) -> Cost {
    let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let resident = match schedule.target.pipeline {
        Pipeline::WarpRoles => schedule.resident,
        Pipeline::CommitGroups => pressure::likely_resident(program),
    };
    let multiplied = |dot: &DotFact| {
        let operations = [dot.m, dot.n, dot.k].into_iter().fold(2, |all, axis| all * u64::from(block(axis)));
        (operations / rate(schedule.target.pipeline, dot.dtype)) as u32
    };
    let mut cost = Cost { resident, ..Cost::default() };
    let (mut written, mut spared) = (Vec::new(), Vec::new());
    let chained = choose::has_chain(nest, facts);
    let mut together = Together::default();
    for (at, dot) in facts.dots.iter().enumerate() {
        // One warpgroup reads them while nobody multiplies.
        let multiply = match schedule.threads() {
            WARPGROUP => multiplied(dot) + fragments(schedule, dot),
            _ => multiplied(dot).max(fragments(schedule, dot)),
        };
        let known = is_read_before(nest, facts, program, at);
        let moved = shared_traffic(nest, schedule, dot, known, &mut written);
        let shared = match schedule.target.pipeline {
            Pipeline::WarpRoles => moved / shared_bytes(schedule),
            Pipeline::CommitGroups => 0,
        };
        let read: u32 = [(&dot.a, dot.m), (&dot.b, dot.n)]
            .into_iter()
            .skip(usize::from(known))
            .filter_map(|(source, other)| match source {
                OperandSource::Tensor { load, .. } => Some((*load, other)),
                OperandSource::Computed { .. } => None,
            })
            .map(|(load, other)| {
                let is_shared = schedule.cluster.is_some_and(|axis| cluster::is_shared(nest, load, axis));
                let fetching = if is_shared { cluster::BLOCKS } else { 1 };
                tile_bytes(schedule, dot, other) / fetching / L2_BYTES
            })
            .sum();
        // What the same instructions multiply takes as long as the slowest of all that it takes.
        let before = if known { together } else { Together::default() };
        together = before.and(multiply, read, shared);
        let cycles = (together.cycles() - before.cycles()).max(1);
        if schedule.pingpong && !chained {
            cost.alone += (moved / shared_bytes_together(schedule)).saturating_sub(cycles);
        }
        // Without any row of the first operand.
        let rows = tile_bytes(schedule, dot, dot.m);
        let without = [read.saturating_sub(rows / L2_BYTES), shared.saturating_sub(rows / shared_bytes(schedule))];
        spared.push(cycles.saturating_sub(without.into_iter().fold(multiply.max(1), u32::max)));
        let (deep, alone) = (schedule.stages >= DEEP_RING, schedule.tile_threads() <= WARPGROUP);
        let turn = match schedule.target.pipeline {
            Pipeline::CommitGroups => 0,
            // Short steps of a pair are as long as it takes the blocks to hear of each other.
            Pipeline::WarpRoles if schedule.cluster.is_some() && schedule.threads() > WARPGROUP && !deep => {
                let by_rows = facts.dots.len() == 1 && program.windows.is_empty();
                let shorter = if by_rows { STEP_OF_A_PAIR.saturating_sub(cycles) } else { 0 };
                let turned = if schedule.swapped { TURNED_PAIR } else { 0 };
                TURN_OF_A_PAIR + turned + shorter / OF_SHORTER_STEPS
            }
            Pipeline::WarpRoles if schedule.pingpong => BY_TURNS,
            Pipeline::WarpRoles if has_two_steps(schedule, chained) => of_two_steps(dot).0,
            Pipeline::WarpRoles if chained && alone => OF_A_CHAIN,
            Pipeline::WarpRoles if !alone && schedule.stages == DEEP_RING => TURN_OF_A_DEEP_RING,
            Pipeline::WarpRoles if !alone && deep && schedule.cluster.is_some() => TURN_OF_A_DEEP_PAIR,
            Pipeline::WarpRoles if !alone && deep => 0,
            Pipeline::WarpRoles if schedule.cluster.is_some() && alone && deep => TURN_OF_A_SMALL_PAIR,
            Pipeline::WarpRoles if schedule.cluster.is_none() && alone && schedule.holds_slots_longer() => 0,
            Pipeline::WarpRoles => TURN,
        };
        let panels = schedule.stages * block(dot.k) / panel(dot.dtype);
        // Of three warpgroups, two multiply while one waits.
        let waited_for = chained || schedule.threads() <= 2 * WARPGROUP;
        let of_step = facts.dots.iter().filter(|other| other.loops == dot.loops).map(multiplied).sum::<u32>();
        let few = panels < DEEP_PANELS && schedule.stages * of_step < DEEP_CYCLES;
        let shallow = schedule.target.pipeline == Pipeline::WarpRoles && waited_for && few;
        let turn = turn + if shallow { SHALLOW } else { 0 };
        // What a step multiplies side by side waits once.
        let waits = chained || facts.dots[..at].iter().all(|other| other.loops != dot.loops);
        let latency = cycles + if waits { turn } else { 0 };
        cost.steps.push(StepCost { latency, work: cycles, over: over(nest, schedule, &dot.loops) });
        let tile = block(dot.m) * block(dot.n);
        // Where warpgroups take turns, one's tile is on its way out while the other's is multiplied, but for the last.
        cost.ending = if schedule.pingpong { tile / PACKED_ELEMENTS + results::by_one(nest, schedule, dot) } else { 0 };
        cost.once = cost.once.max(match schedule.target.pipeline {
            // Operands of the next tile come meanwhile, and TMA writes on while it is multiplied.
            Pipeline::WarpRoles if schedule.pingpong => BETWEEN_TURNS,
            Pipeline::WarpRoles => {
                let turned = if schedule.swapped { tile / TURNED_ELEMENTS } else { 0 };
                let lent = if program.shared.iter().any(|shared| shared.lent.is_some()) { LENT } else { 0 };
                let first = if has_two_steps(schedule, chained) { of_two_steps(dot).1 } else { 0 };
                BETWEEN_TILES
                    + first
                    + tile / PACKED_ELEMENTS
                    + turned
                    + lent
                    + results::after_products(nest, schedule, dot)
            }
            Pipeline::CommitGroups => START + tile * 2 / STORE_BYTES,
        });
    }
    if chained {
        cost.steps.extend(beside_products(nest, facts, schedule));
    }
    cost.steps.extend(facts.dots.iter().filter_map(|dot| before_product(nest, schedule, dot)));
    cost.steps.extend(around::sums(nest, facts, schedule, program));
    around::stores(nest, schedule, &nest.body, &mut Vec::new(), &mut cost.steps);
    cost.once += around::scattered(nest, schedule);
    // Of what comes between two tiles, half is in the way of a block beside this one.
    cost.steps.push(StepCost { latency: 0, work: cost.once / 2, over: Vec::new() });
    cost.fetches = fetches(nest, facts, schedule, program, &spared);
    cost
}

fn has_two_steps(schedule: &Schedule, chained: bool) -> bool {
    schedule.stages == 2 && !chained
}

/// Cycles between two steps of a ring that has no more, and before the first of a tile.
fn of_two_steps(dot: &DotFact) -> (u32, u32) {
    match dot.dtype {
        Dtype::Tf32 => (TURN_OF_TWO_STEPS_OF_TF32, FIRST_OF_TWO_STEPS_OF_TF32),
        _ => (TURN_OF_TWO_STEPS, FIRST_OF_TWO_STEPS),
    }
}

/// Bytes a cycle that shared memory moves beside the schedule's products.
fn shared_bytes(schedule: &Schedule) -> u32 {
    if schedule.pingpong { SHARED_BYTES_IN_TURN } else { shared_bytes_together(schedule) }
}

/// The same while no turns are taken.
fn shared_bytes_together(schedule: &Schedule) -> u32 {
    match schedule.threads() {
        threads if threads > 2 * WARPGROUP => SHARED_BYTES_OF_THREE,
        _ if schedule.stages >= MANY_STEPS => SHARED_BYTES_OF_MANY_STEPS,
        _ => SHARED_BYTES,
    }
}

/// Cycles of products that the same instructions multiply: of tensor cores, of their operands' way from L2, and of shared memory.
#[derive(Clone, Copy, Default)]
struct Together {
    multiply: u32,
    read: u32,
    shared: u32,
}

impl Together {
    fn and(self, multiply: u32, read: u32, shared: u32) -> Together {
        Together { multiply: self.multiply + multiply, read: self.read + read, shared: self.shared + shared }
    }

    fn cycles(self) -> u32 {
        self.multiply.max(self.read).max(self.shared)
    }
}

/// Whether the dot's first operand is multiplied by the same instructions for a product before.
fn is_read_before(nest: &Nest, facts: &Facts, program: &Program, at: usize) -> bool {
    let op = |source: &OperandSource| match source {
        OperandSource::Tensor { load, .. } => Some(&nest.value(*load).op),
        OperandSource::Computed { .. } => None,
    };
    let own = op(&facts.dots[at].a);
    let joined = program.shared.iter().any(|shared| shared.behind.is_some());
    joined && own.is_some() && facts.dots[..at].iter().any(|before| op(&before.a) == own)
}

/// Bytes that a step of a product moves through shared memory: operands that come in it, unless another product has counted the same, and what
/// warpgroups read: their rows of A, unless the same instructions multiply them for a product before, and all of B for each 64 of these.
fn shared_traffic<'n>(
    nest: &'n Nest,
    schedule: &Schedule,
    dot: &DotFact,
    known: bool,
    written: &mut Vec<&'n Op>,
) -> u32 {
    const ROWS: u32 = 64;
    let blocks_of_rows = schedule.blocks[dot.m.index()].unwrap_or(1).div_ceil(ROWS);
    let operands = [(&dot.a, dot.m, u32::from(!known)), (&dot.b, dot.n, blocks_of_rows)];
    let of = |(source, other, readers): (&OperandSource, AxisId, u32)| {
        let OperandSource::Tensor { load, .. } = source else { return 0 };
        let op = &nest.value(*load).op;
        let Op::Load { index, .. } = op else { return 0 };
        let moves = index.iter().any(|int| dot.loops.iter().any(|axis| mentions(int, *axis)));
        let comes = moves && !written.contains(&op);
        if comes {
            written.push(op);
        }
        tile_bytes(schedule, dot, other) * (readers + u32::from(comes))
    };
    operands.into_iter().map(of).sum()
}

/// Cycles a step until threads have read the left operand's fragments, one after the other: of tf32 that lies across the sum. Measured on an H200:
/// 16 x 4096 x 4096 (nn) takes 28.5 µs by whole tiles of 32 x 64 the other way round, 64 steps of 64 terms; on an H100 192 x 3072 x 2048 (nn) takes
/// 24.6 µs by tiles of 128 x 64, 64 steps of 32 terms, and 20.0 by two warpgroups and 192 x 128.
fn fragments(schedule: &Schedule, dot: &DotFact) -> u32 {
    const TERMS: u32 = 8;
    const CYCLES: u32 = 70;
    let across = matches!(dot.a, OperandSource::Tensor { major: Major::Mn, .. });
    let by_threads = schedule.target.pipeline == Pipeline::WarpRoles && dot.dtype == Dtype::Tf32 && across;
    let terms = schedule.blocks[dot.k.index()].unwrap_or(1);
    if by_threads { terms / TERMS * CYCLES } else { 0 }
}

/// The dim that boxes of the operand are no taller than: how many bytes they bring is known at launch.
fn short(nest: &Nest, program: &Program, tensor: TensorId, rows: AxisId) -> Option<DimId> {
    let Extent::Dim(dim) = nest.axis(rows).extent else { return None };
    let clips = |short: &Short| short.tensor == tensor && short.dim == dim;
    program.short.iter().any(clips).then_some(dim)
}

/// Of an operand's tile of the product: its rows or columns, and a step's terms of each.
fn tile_bytes(schedule: &Schedule, dot: &DotFact, other: AxisId) -> u32 {
    let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    block(other) * block(dot.k) * dot.dtype.bytes()
}

/// What a step works out of a product for the next one: a warp's own instructions, one after the other, and those of the other warpgroups
/// that come between them.
fn beside_products(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Option<StepCost> {
    const OWN_PERCENT: u32 = 120;
    const BETWEEN_PERCENT: u32 = 43;
    let dot = facts.dots.iter().find(|dot| matches!(dot.a, OperandSource::Computed { .. }) && !dot.loops.is_empty())?;
    let innermost = *dot.loops.last()?;
    let block = |axis: &AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let elements = |id: &ValueId| match &nest.value(*id).op {
        Op::Load { .. } => 0,
        op => nest.value(*id).ty.axes.iter().map(block).product::<u32>() * instructions_of(op),
    };
    let instructions: u32 = values_in(&nest.body, innermost).iter().map(elements).sum();
    let each = instructions / schedule.threads();
    let latency = each * (OWN_PERCENT + BETWEEN_PERCENT * (schedule.threads() / WARPGROUP)) / 100;
    Some(StepCost { latency, work: latency, over: over(nest, schedule, &dot.loops) })
}

/// What a step computes of tensors before it multiplies that, while the tensor cores wait. Measured on an H200, 16 x 4096 x 4096 by tiles of
/// 128 × 128 and 64 terms: 4000 cycles a step where columns are scaled, 4180 where four bits are unpacked. The other way round, where threads
/// load pairs of elements, 17 700 for 128 terms.
fn before_product(nest: &Nest, schedule: &Schedule, dot: &DotFact) -> Option<StepCost> {
    const WAIT: u32 = 2500;
    const CYCLES_OF_A_LOAD: u32 = 400;
    const CYCLES_OF_AN_INSTRUCTION: u32 = 6;
    const OF_A_FRAGMENT: u32 = 2;
    const OF_A_VECTOR: u32 = 8;
    let inside = values_in(&nest.body, *dot.loops.last()?);
    let block = |axis: &AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let (mut instructions, mut loads) = (0, 0);
    for (source, in_registers) in [(&dot.a, schedule.target.pipeline == Pipeline::WarpRoles), (&dot.b, false)] {
        let OperandSource::Computed { value } = source else { continue };
        let cone = precomputed::cone(nest, *value)?;
        for id in cone.into_iter().filter(|id| inside.contains(id)) {
            let Value { op, ty, .. } = nest.value(id);
            let elements = ty.axes.iter().map(block).product::<u32>() / schedule.threads();
            instructions += elements * instructions_of(op);
            if matches!(op, Op::Load { .. }) {
                loads += elements.div_ceil(if in_registers { OF_A_FRAGMENT } else { OF_A_VECTOR });
            }
        }
    }
    let latency = WAIT + CYCLES_OF_A_LOAD * loads + CYCLES_OF_AN_INSTRUCTION * instructions;
    (loads > 0).then(|| StepCost { latency, work: latency, over: over(nest, schedule, &dot.loops) })
}

/// What the loop along the axis computes at each step.
pub fn values_in(block: &Block, axis: AxisId) -> Vec<ValueId> {
    let mut values = Vec::new();
    for stmt in &block.stmts {
        let Stmt::Loop(inner) = stmt else { continue };
        if inner.axis == axis {
            values.extend(inner.body.stmts.iter().filter_map(|stmt| match stmt {
                Stmt::Value(id) => Some(*id),
                _ => None,
            }));
        }
        values.extend(values_in(&inner.body, axis));
    }
    values
}

/// Operations that a multiprocessor's products make in a cycle, dense. `mma.sync` reaches about five eighths of `wgmma` on the same
/// cores by 16-bit operands, and 165 TFLOP/s on an H200 by tf32, whose fragments it rounds one by one.
fn rate(pipeline: Pipeline, dtype: Dtype) -> u64 {
    match (pipeline, dtype) {
        (Pipeline::WarpRoles, Dtype::Tf32) => 2048,
        (Pipeline::WarpRoles, _) => 4096,
        (Pipeline::CommitGroups, Dtype::Tf32) => 720,
        (Pipeline::CommitGroups, Dtype::F32) => 2 * LANES as u64,
        (Pipeline::CommitGroups, _) => 2560,
    }
}

/// Dots' operands that come from tensors, each as often as its place changes.
fn fetches(nest: &Nest, facts: &Facts, schedule: &Schedule, program: &Program, spared: &[u32]) -> Vec<Fetch> {
    let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let (mut fetches, mut fetched) = (Vec::new(), Vec::new());
    for (dot, spared) in facts.dots.iter().zip(spared) {
        for (source, rows) in [(&dot.a, dot.m), (&dot.b, dot.n)] {
            let OperandSource::Tensor { load, tensor, major } = source else { continue };
            let op = &nest.value(*load).op;
            let Op::Load { index, .. } = op else { continue };
            if fetched.contains(&op) {
                continue;
            }
            fetched.push(op);
            let moves = |axis: &AxisId| index.iter().any(|int| mentions(int, *axis));
            let loops = dot.loops.iter().rposition(moves).map_or(0, |innermost| innermost + 1);
            let element = nest.tensor(*tensor).dtype.bytes();
            let bytes = block(rows) * block(dot.k) * element;
            let shared = schedule.cluster.is_some_and(|axis| cluster::is_shared(nest, *load, axis));
            let blocks = if shared { cluster::BLOCKS } else { 1 };
            let over = over(nest, schedule, &dot.loops[..loops]);
            let columns = if *major == Major::K { dot.k } else { rows };
            let scattered = match columns::are_contiguous(nest, *tensor, index, columns) {
                true => 0,
                false => element,
            };
            let row_bytes = if scattered == 0 { block(columns) * element } else { element };
            let narrow = inner_sum(nest, facts, columns).filter(|_| scattered == 0);
            let panel = panel(nest.tensor(*tensor).dtype);
            let narrow = narrow.map(|dim| GridAxis { dims: vec![dim.index()], block: panel });
            let short = short(nest, program, *tensor, rows);
            let axis = |dim: DimId| GridAxis { dims: vec![dim.index()], block: block(rows) };
            // What other operands take shows in a step all the same.
            let spared = if rows == dot.m { *spared } else { 0 };
            let short = short.map(|dim| plan::Short { axis: axis(dim), spared });
            fetches.push(Fetch { tensor: tensor.index(), bytes, row_bytes, blocks, scattered, narrow, short, over });
        }
    }
    fetches
}

#[cfg(test)]
mod tests {
    use crate::lower::lower_pinned;
    use crate::schedule::target::find;
    use crate::testing::{gated, gemm, nest};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// Tensor, bytes, and the dims and blocks of the loops that move it.
    type Fetched = (usize, u32, Vec<(usize, u32)>);

    fn fetches(item: TokenStream) -> Vec<Fetched> {
        let (nest, schedules) = nest(item);
        let target = find(&schedules[0].target).expect("a known target");
        let cost = lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost;
        let over = |fetch: &super::Fetch| fetch.over.iter().map(|axis| (axis.dims[0], axis.block)).collect();
        cost.fetches.iter().map(|fetch| (fetch.tensor, fetch.bytes, over(fetch))).collect()
    }

    #[test]
    fn both_operands_of_a_product_come_in_each_step() {
        let tiles = vec![(0, 128 * 64 * 2, vec![(2, 64)]), (1, 64 * 256 * 2, vec![(2, 64)])];
        assert_eq!(fetches(gemm(quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2))), tiles);
        let tiles = vec![(0, 64 * 32 * 2, vec![(2, 32)]), (1, 32 * 64 * 2, vec![(2, 32)])];
        assert_eq!(fetches(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2)))), tiles);
    }

    #[test]
    fn what_lies_side_by_side_is_a_steps_share_of_a_row() {
        let of = |schedule| cost(gemm(schedule)).fetches.iter().map(|fetch| fetch.row_bytes).collect::<Vec<_>>();
        assert_eq!(of(quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2)), [64 * 2, 256 * 2]);
        assert_eq!(of(quote!(sm_90a, i = 64, j = 64, k = 128, stages = 4, consumers = 1)), [128 * 2, 64 * 2]);
    }

    #[test]
    fn tf32_takes_longer_by_mma_sync_than_by_wgmma() {
        let work = |schedule: TokenStream| {
            let (nest, schedules) = nest(quote! {
                #[schedule(#schedule)]
                fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
                    tile!(for (i, j) in (M, N) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in K { acc += dot(a[(i, k)].to::<tf32>(), b[(j, k)].to::<tf32>().t()); });
                        c[(i, j)] = acc;
                    });
                }
            });
            let target = find(&schedules[0].target).expect("a known target");
            lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost.steps[0].work
        };
        assert_eq!(
            work(quote!(sm_90a, i = 128, j = 256, k = 32, stages = 4, consumers = 2)),
            2 * 128 * 256 * 32 / 2048
        );
        assert_eq!(work(quote!(sm_80, i = 128, j = 128, k = 32, stages = 2, warps = (2, 2))), 2 * 128 * 128 * 32 / 720);
    }

    #[test]
    fn fragments_that_threads_read_hold_few_columns_up() {
        let of = |columns: u32| {
            let steps = work_of_dots(quote! {
                #[schedule(sm_90a, i = 64, j = #columns, k = 64, stages = 2, consumers = 1)]
                fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f32, (K, M)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
                    tile!(for (i, j) in (M, N) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in K { acc += dot(a[(k, i)].to::<tf32>().t(), b[(j, k)].to::<tf32>().t()); });
                        c[(i, j)] = acc;
                    });
                }
            });
            steps[0]
        };
        let (few, many) = (of(32), of(256));
        assert_eq!(few, 64 / 8 * 70 + 2 * 64 * 32 * 64 / 2048, "one warpgroup does either");
        assert_eq!(many, 64 / 8 * 70 + 2 * 64 * 256 * 64 / 2048);
    }

    fn cost(item: TokenStream) -> super::Cost {
        let (nest, schedules) = nest(item);
        let target = find(&schedules[0].target).expect("a known target");
        lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost
    }

    /// Cycles of a step's products, in program order.
    fn work_of_dots(item: TokenStream) -> Vec<u32> {
        cost(item).steps.iter().filter(|step| !step.over.is_empty()).map(|step| step.work).collect()
    }

    #[test]
    fn warpgroups_without_a_turn_read_as_slowly_as_any() {
        let in_turn = |columns: u32| {
            cost(gemm(quote!(sm_90a, i = 128, j = #columns, k = 64, stages = 4, consumers = 2, pingpong = true)))
        };
        // Bytes of a row; those that come, and those that one warpgroup reads for each 64 of its rows.
        let moved = |columns: u32| 128 * ((128 + columns) + (128 + 2 * columns));
        assert_eq!(in_turn(128).alone, moved(128) / super::SHARED_BYTES - moved(128) / super::SHARED_BYTES_IN_TURN);
        assert_eq!(in_turn(192).alone, 0, "as long as its products");
        let together = cost(gemm(quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)));
        assert_eq!(together.alone, 0);
    }

    #[test]
    fn shared_memory_holds_small_tiles_up() {
        let of = |schedule: TokenStream| work_of_dots(gemm(schedule));
        let tile = |rows: u32, columns: u32| 2 * rows * columns * 64 / 4096;
        assert_eq!(of(quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2)), [tile(128, 256)]);
        // Bytes of a row; those that come, and those that two warpgroups read.
        let moved = |rows: u32, columns: u32| 128 * ((rows + columns) + (rows + 2 * columns));
        for columns in [64, 128] {
            let steps = of(quote!(sm_90a, i = 128, j = #columns, k = 64, stages = 4, consumers = 2));
            assert_eq!(steps, [moved(128, columns) / super::SHARED_BYTES]);
            assert!(steps[0] > tile(128, columns));
        }
        let deep = of(quote!(sm_90a, i = 128, j = 64, k = 64, stages = 5, consumers = 2));
        assert_eq!(deep, [moved(128, 64) / super::SHARED_BYTES_OF_MANY_STEPS]);
    }

    #[test]
    fn what_two_products_read_comes_to_shared_memory_once() {
        let steps = work_of_dots(gated(quote!(sm_90a, i = 128, j = 64, k = 64, stages = 3, consumers = 2)));
        assert_eq!(steps[0], 128 * (2 * 128 + 3 * 64) / super::SHARED_BYTES);
        assert!(steps[1] < steps[0], "{steps:?}");
    }

    #[test]
    fn what_the_same_instructions_multiply_takes_as_long_as_the_slowest_of_all() {
        let of = |columns: u32| {
            let steps = work_of_dots(gated(quote!(sm_90a, i = 128, j = #columns, k = 64, stages = 3, consumers = 2)));
            steps.iter().sum::<u32>()
        };
        let multiplied = |columns: u32| 2 * 2 * 128 * columns * 64 / 4096;
        assert_eq!(of(128), multiplied(128));
        // Of 64 columns each, x comes and is read once, and either of the others comes and is read twice.
        let moved = 128 * (2 * 128 + 2 * 3 * 64) / super::SHARED_BYTES;
        assert!(of(64).abs_diff(moved) <= 1 && moved > multiplied(64), "{} {moved}", of(64));
    }

    #[test]
    fn what_no_loop_moves_comes_once_and_what_two_dots_read_comes_once() {
        let tiles = fetches(quote! {
            #[schedule(sm_90a, i = 128, j = 128, stages = 2, consumers = 2)]
            fn attention<S: Dim, T: Dim>(
                q: &Tensor<f16, (S, Const<64>)>, k: &Tensor<f16, (T, Const<64>)>, o: &mut Tensor<f16, (S, Const<64>)>,
            ) {
                tile!(for i in S {
                    let mut acc = zeros::<f32>((i, ..));
                    tile!(for j in T {
                        let keys = k[(j, ..)];
                        let s = dot(q[(i, ..)], keys.t());
                        acc += dot(s.to::<f16>(), keys);
                    });
                    o[(i, ..)] = acc.to();
                });
            }
        });
        assert_eq!(tiles, [(0, 128 * 64 * 2, vec![]), (1, 128 * 64 * 2, vec![(1, 128)])]);
    }

    #[test]
    fn a_ring_of_two_steps_waits_less_often_and_longer_for_its_first() {
        let two = cost(gemm(quote!(sm_90a, i = 128, j = 256, k = 128, stages = 2, consumers = 2)));
        let four = cost(gemm(quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2)));
        assert_eq!(two.steps[0].latency - two.steps[0].work, super::TURN_OF_TWO_STEPS);
        assert!(two.steps[0].latency < 2 * four.steps[0].latency);
        assert_eq!(two.once - four.once, super::FIRST_OF_TWO_STEPS);
    }
}
