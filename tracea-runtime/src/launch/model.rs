//! The compiler's model in a launch's own numbers: how long a variant takes with the copies that it needs, into how many parts its loop
//! is best cut, and whether operands that TMA cannot fetch are better copied first.

use super::alignment::{Alignments, LINE, TMA_ALIGNMENT, row_alignment_of};
use super::check::{Sizes, Tensors, is_counted};
use super::copies::{Copied, Copies};
use super::joined::joined;
use super::merged::{Gapless, Merged};
use super::params::{Shares, blocks, shared_bytes, tile_count};
use super::skew::{Skews, are_ragged, has_room};
use super::tensor_map::merges;
use crate::cuda::{Gpu, MOST_TILES, PARTS_BYTES};
use crate::plan::{Arg, Fetch, GridAxis, Growing, KernelDef, Precomputed, Split, StepCost, Variant};
use memory::{Moved, beside_memory, half_used};

/// Pieces, as large as rows are aligned, that a warpgroup's threads copy in a cycle: from 4 bytes on each by an instruction of its own, below by
/// pairs. Measured with f16 rows aligned to 2 bytes on an H200: products of 8191³ at 52 (tn) and 72 TFLOP/s (nn), for which this says 76; a 3 × 3
/// convolution of 67 channels, two blocks a multiprocessor, at 38, for which it says 39. Aligned to 8 and 16 bytes, on an H100: 1100 x 1100 x 4096
/// (nn) by two parts of tiles of 192 x 128 takes 61 µs, for 32 steps of 3584 pieces.
const fn copied_pieces(alignment: u32) -> u64 {
    if alignment < 4 { 2 } else { 1 }
}
/// Cycles, as fractions, that a multiprocessor takes for each element that comes by itself, where the threads of one warpgroup copy, of two, and of
/// three or more. Measured on an H200 by a 7 × 7 convolution of 3 channels to 64, 142 steps of 128 × 64 elements for each multiprocessor: 420 µs by
/// one warpgroup, 238 by those of three blocks; and by a product whose left operand is `f[i - k]`, 128 × 32 elements a step, in two blocks of a
/// warpgroup: 4096 x 1536 x 512 takes 57.7 µs, 48 steps, and 1024 x 2048 x 1024 40.8, 32 steps.
const SCATTERED_ELEMENTS: [(u64, u64); 3] = [(3, 5), (1, 2), (1, 3)];
/// Threads of a warpgroup, as which those go that do nothing but copy.
const WARPGROUP: u32 = 128;
/// What the driver takes of a multiprocessor's shared memory for each block.
const SHARED_OF_A_BLOCK: u32 = 1024;
/// What blocks that fetch for each other take longer to begin and to end, in cycles. Measured on an H200: 2048³, 8192 x 1024 x 1024 and 4096³ take
/// 27.1, 28.4 and 179.6 µs by tiles of 128 x 256, and 27.4, 28.7 and 180.1 by pairs of them, 1024³ 8.1 and 8.5 by 64 x 128.
const PAIRING: u64 = 500;
/// Until a block has the slices that its rows share, and its first row. Measured on an H200 by layer norms of 128 x 50257, 1024 x 20000 and 2048 x
/// 20001: 15.1, 28.2 and 48.8 µs.
const BRINGING_SLICES: u64 = 10000;
/// Bytes a cycle that reach one multiprocessor from L2 while all of them read rows by TMA that are aligned to 128, 64, 32 and 16 bytes.
/// Measured on an H200: 104, 81, 73 and 46 GB/s a multiprocessor, with tiles as products have them; the first is the compiler's own.
const L2_BYTES: [(u32, u64); 4] = [(128, 70), (64, 54), (32, 49), (0, 31)];
/// Rows of what was copied just before come from there as if they were aligned to no more than this. Measured on an H100 by 128 x 160 in turn and by pairs
/// of 128 x 256: 5120 x 5120 x 5056 takes 366 and 371 µs, 5120 x 5120 x 5009 with its copies 495 and 423.
const ALIGNED_AFTER_COPY: u32 = 32;
/// How long an operand is on its way while memory is busy, in cycles: a block has no more under way than its shared memory holds. Measured on an
/// H200 by 64 x 4096 x 4096 and 128 x 4096 x 4096 (nn), tiles of 64 x 64: 17.3 and 17.7 µs by three steps of 128 terms under way, 13.7 and 14.0 by
/// six.
const UNDER_WAY: u64 = 2500;
/// Bytes a cycle at which TMA walks windows row by row, whatever L2 has to spare; what else a step brings comes after them. Measured on an H200:
/// 576 cycles a step for 128 rows of 64 channels and 344 for 64, by a 3 × 3 convolution to 64 filters, two blocks a multiprocessor.
const WINDOW_BYTES: u64 = 35;
/// What a step of windows takes longer in pairs of blocks, which wait for each other's multiprocessors: seen where what pairs save is quick to
/// come, in whole lines. Measured on an H200 as above: 640 cycles a step in pairs.
const PAIRED_WINDOWS: u64 = 120;
/// How many tenths of that rows take which are aligned to 128, 32 and 16 bytes. Measured on an H200 by 3 × 3 convolutions of 64 images of 56²:
/// 71 µs for 32 channels to 128, 121 for 96, 1170 and 990 cycles a step; 1360 for 67 channels, whose rows are copied to multiples of 16 bytes.
const WINDOW_TENTHS: [(u32, u64); 3] = [(128, 10), (32, 20), (0, 23)];
/// What each block takes to leave its part, and the last one to see that all have come, in cycles; and the bytes of parts that one
/// block writes or reads in a cycle. Measured on an H100: 512 x 512 x 4096 takes 12.5 µs by tiles of 64 x 128 in four parts and 11.1 by whole ones
/// of 64 x 32, 192 x 768 x 3072 10.4 by 64 x 64 in three parts and 9.4 by whole ones of 64 x 32.
const LEAVING: u64 = 500;
const JOINING: u64 = 5000;
/// The same where all blocks of a tile wait for each other, and the bytes that one of them then reads of its share in a cycle. Measured on an H200 by 196
/// ways to cut 36 products: with what else is said here, 7000 cycles in the mean between the last step and the result.
const MEETING: u64 = 3700;
const DEALT_BYTES: u64 = 48;
/// And what it waits for its share of a part at least, in cycles. Measured on an H200: 32 x 512 x 8192 (nn) takes 13.5 µs by tiles of 16 rows and 128
/// columns, eight of 16 parts each, and 10.9 by as many of 64 x 64, which have twice as much to read.
const DEALT_PART: u64 = 300;
/// The same where the last block's threads wait for memory themselves all along.
const JOINING_OF_ROWS: u64 = 2500;
const JOINED_BYTES: u64 = 64;
/// The same of parts of more bytes than this, beside which threads have few registers to read others to. Measured on an H100 by two products side by side
/// of 192 rows: 5120 x 768 x 11008, 30 of 162 tiles by four parts, takes 268 µs, and 246 by tiles of 128 x 128 for which as much was predicted.
const LARGE_PART: u32 = 150_000;
const JOINED_BYTES_OF_LARGE: u64 = 20;
/// What making weights of parts takes longer, once and for each part. Measured on an H200 by attention of 8 heads of 128: 512 queries and
/// 4096 keys by 4 parts take 27 µs, of which 7 are none of the 8 steps' nor of a launch's; 128 queries and 16384 keys by 16 parts 15 of 35.
const WEIGHING: u64 = 1000;
const WEIGHED_PART: u64 = 750;
/// How much longer, as a fraction, each step takes in code that puts such parts together. Measured on an H200 by attention of 64 a head with
/// 4096 keys: 1253 µs, and 1313 where the last 4 of 4096 tiles were cut.
const BESIDE_WEIGHTS: (u64, u64) = (21, 20);

/// How much longer, as a fraction, aligned rows take as one: by up to a tenth where there is much to compute, measured on an H200.
const AS_ONE_ROW: (u64, u64) = (11, 10);

/// How many times as fast rows that are not aligned are walked from the chunks in which they begin as they are put together; rows that
/// are aligned anyway had better not be.
const FASTER_BY_CHUNKS: u64 = 2;
/// The same of rows that are in registers as a whole, in halves; they may as well be aligned.
const FASTER_IN_REGISTERS: u64 = 5;
/// The same of rows that a block takes in turn, from lines of memory, as a fraction: fitted to norms of 12289 to 50257 columns on an H200.
const FASTER_BY_LINES: (u64, u64) = (16, 5);
/// Elements of a tile that threads store in a cycle, where TMA would write them to aligned rows; and how many times as long the last tile's way out
/// takes where warpgroups take turns, of which one stores all of it, and the others' way is hidden. Measured on an H100: 1500³, rows of 3000 bytes,
/// takes 26.4 µs by 128 x 144 in turn and 23.5 together, 3000 x 4001 x 2047 91.9 by 128 x 192 in turn and 96.6 together, four waves.
const STORED_ELEMENTS: u64 = 16;
const STORED_BY_ONE: u64 = 6;

/// How much less, as a fraction, aligned rows take of which a block takes one after another: the slices that they share do not come from L2 each
/// time. Measured on an H200 by a layer norm of 2048 x 32000: 77 µs by a block for each row, 71.6 in turn.
const WITH_SLICES_AT_HAND: (u64, u64) = (4, 5);

/// What of a device bears on that.
#[derive(Clone, Copy)]
pub(super) struct Capacity {
    pub multiprocessors: u32,
    /// Shared memory that one block may ask for, bytes.
    pub block_shared_bytes: u32,
    pub l2_bytes: u64,
}

impl Capacity {
    pub fn of(gpu: &Gpu) -> Capacity {
        let Gpu { multiprocessors, block_shared_bytes, l2_bytes, .. } = *gpu;
        Capacity { multiprocessors: multiprocessors.max(1), block_shared_bytes, l2_bytes: l2_bytes as u64 }
    }

    /// Blocks that run at a time, so many on each multiprocessor. Multiprocessors come in pairs, and so may blocks; larger clusters leave
    /// some idle: 30 of 4 and 15 of 8 run at a time on an H200, which has 132 multiprocessors.
    pub fn blocks_at_a_time(self, resident: u32, cluster: u32) -> u32 {
        let cluster = cluster.max(1);
        self.multiprocessors * resident / cluster * cluster
    }
}

/// What a launch's tensors have to do with its time.
pub(super) struct Operands<'a> {
    pub kernel: &'static KernelDef,
    pub precomputed: &'static [Precomputed],
    pub tensors: &'a Tensors<'a>,
    pub alignments: Alignments,
    pub gapless: Gapless,
    pub skews: Skews,
    pub may_copy: bool,
}

/// What the model says of a launch: its time, how its tiles are best cut, and whether operands that TMA cannot fetch are worth a copy.
pub(super) struct Prediction {
    pub cycles: u64,
    pub shares: Shares,
    /// Operands whose rows are aligned to less are copied first; 0 where none is.
    pub realigned_to: u32,
}

/// Nothing where the variant needs copies that cannot or must not be made.
pub(super) fn prediction(
    variant: &Variant,
    sizes: &Sizes,
    capacity: Capacity,
    operands: &Operands<'_>,
) -> Option<Prediction> {
    let Operands { kernel, precomputed, tensors, alignments, gapless, skews, may_copy } = *operands;
    if !skews.serve(variant) || !has_room(variant, sizes) || !is_counted(variant, sizes) {
        return None;
    }
    let replaced = joined(variant, tensors)?;
    let tensors = &replaced.among(tensors);
    let alignments = if variant.joined.is_empty() { alignments } else { Alignments::of(tensors) };
    let merged = Merged::of(kernel, variant, sizes, &gapless);
    let sizes = &merged.map_or(*sizes, |merged| merged.sizes(sizes));
    let moved = Moved::of(variant, sizes, capacity, tensors);
    let with = |copies: &Copies, realigned_to: u32| {
        let realigned =
            |all: Alignments, copied: Copied| all.realigned(copied.tensor, copied.alignment().min(ALIGNED_AFTER_COPY));
        let alignments = copies.iter().fold(alignments, realigned);
        let is_copied = |tensor: usize| copies.iter().any(|copied| copied.tensor == tensor);
        if variant.by_tma && !comes_by_tma(kernel, variant, tensors, &alignments, is_copied) {
            return None;
        }
        let cut = cut(variant, sizes, capacity, &alignments, moved);
        let stored = stored(kernel, variant, sizes, capacity, &alignments);
        let cycles = cut.cycles.saturating_add(stored).saturating_add(copies.cycles(capacity.multiprocessors));
        let cycles = match merged {
            Some(_) if tensors.iter().all(|tensor| row_alignment_of(tensor) >= TMA_ALIGNMENT) => {
                cycles.saturating_mul(AS_ONE_ROW.0) / AS_ONE_ROW.1
            }
            _ => cycles,
        };
        let cycles = match (variant.skewed, are_ragged(variant, tensors)) {
            ([], _) => cycles,
            (_, true) if variant.takes_rows_in_turn() => cycles.saturating_mul(FASTER_BY_LINES.1) / FASTER_BY_LINES.0,
            (_, true) if variant.longest.is_some() => cycles.saturating_mul(2) / FASTER_IN_REGISTERS,
            (_, true) => cycles / FASTER_BY_CHUNKS,
            (_, false) if variant.takes_rows_in_turn() => {
                cycles.saturating_mul(WITH_SLICES_AT_HAND.0) / WITH_SLICES_AT_HAND.1
            }
            (_, false) if variant.longest.is_some() => cycles,
            (_, false) => cycles.saturating_mul(FASTER_BY_CHUNKS),
        };
        Some(Prediction { cycles, realigned_to, ..cut })
    };
    if !may_copy {
        let as_given = variant.relaid.is_empty() && !variant.precomputed;
        return if as_given { with(&Copies::none(), 0) } else { None };
    }
    let needed = Copies::needed(variant, precomputed, sizes, tensors)?;
    let mut best = with(&needed, 0);
    let mut copied = needed.count();
    for wanted in [TMA_ALIGNMENT, LINE] {
        let all = needed.with_misaligned(kernel, variant, tensors, &alignments, wanted);
        if all.count() > copied {
            copied = all.count();
            let ways = best.into_iter().chain(with(&all, wanted));
            best = ways.reduce(|best, next| if next.cycles < best.cycles { next } else { best });
        }
    }
    best
}

/// Whether TMA fetches all that the code reads by it.
fn comes_by_tma(
    kernel: &KernelDef,
    variant: &Variant,
    tensors: &Tensors<'_>,
    alignments: &Alignments,
    is_copied: impl Fn(usize) -> bool,
) -> bool {
    fetched(kernel, variant).all(|(tensor, merged)| {
        let merges = is_copied(tensor) || tensors.get(tensor).is_some_and(|raw| merges(raw, merged));
        merges && alignments.get(tensor) >= TMA_ALIGNMENT
    })
}

/// What it takes longer where threads store a result that TMA would write to aligned rows.
fn stored(kernel: &KernelDef, variant: &Variant, sizes: &Sizes, capacity: Capacity, alignments: &Alignments) -> u64 {
    let is_written = |tensor: usize| kernel.tensors.get(tensor).is_some_and(|def| def.writes);
    let by_threads = variant.args.iter().any(|arg| match *arg {
        Arg::TensorMap { tensor, .. } => is_written(tensor) && alignments.get(tensor) < TMA_ALIGNMENT,
        _ => false,
    });
    let elements: u64 = variant.grid.iter().map(|axis| u64::from(axis.block)).product();
    let tiles = match variant.cost.ending {
        _ if !by_threads => 0,
        0 => tile_count(variant, sizes).div_ceil(u64::from(capacity.multiprocessors)),
        _ => STORED_BY_ONE,
    };
    tiles * elements / STORED_ELEMENTS
}

/// Tensors of which TMA fetches boxes, and how many of their axes count as one for it.
pub(super) fn fetched(kernel: &KernelDef, variant: &Variant) -> impl Iterator<Item = (usize, usize)> {
    let is_read = |tensor: usize| kernel.tensors.get(tensor).is_none_or(|def| def.reads);
    variant.args.iter().filter_map(move |arg| match *arg {
        Arg::TensorMap { tensor, merged, .. } if is_read(tensor) => Some((tensor, merged)),
        _ => None,
    })
}

/// In as many parts as serve it best, with operands of these alignments.
fn cut(variant: &Variant, sizes: &Sizes, capacity: Capacity, alignments: &Alignments, moved: Moved) -> Prediction {
    let half_used = half_used(variant, sizes, capacity, moved.once) + uncovered(variant, sizes, capacity, alignments);
    let again = memory::cycles(moved.again, capacity);
    let of = |shares: Shares| {
        let memory = memory::cycles(moved.once.saturating_add(part_bytes(variant, sizes, shares)), capacity);
        let Cycles { working, joining } = cycles_of(variant, sizes, capacity, shares, alignments);
        let cycles = match variant.cost.fetches {
            [] => beside_memory(variant, working.saturating_add(joining), memory, again),
            // Parts are joined when the last operand has come.
            _ => beside_memory(variant, working, memory, again).saturating_add(joining),
        };
        Prediction { cycles: cycles.saturating_add(half_used), shares, realigned_to: 0 }
    };
    let whole = of(Shares::WHOLE);
    let Some(split) = variant.split else { return whole };
    let tiles = tile_count(variant, sizes);
    let steps = match split.over {
        [] => variant.cost.steps.iter().map(|step| count(step.over, sizes)).max().unwrap_or(1),
        over => count(over, sizes),
    };
    if split.shares > 0 && resident(variant, sizes, capacity, 1) < variant.cost.resident.max(1) {
        return whole;
    }
    // All tiles, or those that are left when each multiprocessor has had as many.
    let at_a_time = u64::from(capacity.blocks_at_a_time(variant.cost.resident.max(1), variant.cluster));
    let full_waves = tiles / at_a_time * at_a_time;
    // Without products, more blocks than run at a time keep memory busy as they are. Measured on an H200 by the softmax's sums of 8192 rows of
    // 32000 f16: 151 µs, and 201 in two parts each.
    if !split.some_whole && tiles >= 2 * at_a_time {
        return whole;
    }
    // A block that waits for other parts has its next unit already where units come from a queue. That must not be one of theirs.
    let some_whole = split.some_whole && !(split.shares > 0 && variant.counts_units());
    let first_cut = [Some(0), (some_whole && 0 < full_waves && full_waves < tiles).then_some(full_waves)];
    let ways = first_cut.into_iter().flatten().flat_map(|first| {
        let cut = tiles - first;
        let room = PARTS_BYTES / (cut.max(1) * u64::from(split.part_bytes)).max(1);
        let most = if cut <= MOST_TILES { room.min(steps).min(u64::from(split.most_parts)) } else { 1 };
        // Blocks that wait for each other run at a time.
        let most = if split.shares > 0 { most.min(at_a_time / cut.max(1)) } else { most };
        // Few, then by doubling, and one and a half times that: 2, 3, 4 … 16, 24, 32, 48 …
        let many = (4..).flat_map(|doubled| [3u64 << (doubled - 1), 2 << doubled]);
        (2..=16)
            .chain(many)
            .take_while(move |parts| *parts <= most)
            .map(move |parts| Shares { whole: first as u32, parts: parts as u32 })
    });
    ways.map(of).fold(whole, |best, next| if next.cycles < best.cycles { next } else { best })
}

/// What blocks that keep skewed rows compute while no other on the multiprocessor has memory busy: of two or three at a time, each does in its share
/// of the time, for as long as it takes by itself. Measured on an H200: a softmax of 1024 x 50257 takes 63.5 µs by two blocks of 256 threads
/// and 60.5 by two of 512; of 2048 x 30001, 66.1 by three of 256 and 68.7 by two of 512.
fn uncovered(variant: &Variant, sizes: &Sizes, capacity: Capacity, alignments: &Alignments) -> u64 {
    const COVERED: u64 = 4;
    let resident = u64::from(resident(variant, sizes, capacity, 1));
    if variant.kept.is_none() || variant.skewed.is_empty() || resident >= COVERED {
        return 0;
    }
    let each = tile_count(variant, sizes).div_ceil(u64::from(capacity.multiprocessors));
    let latency = unit_of(variant, sizes, 1, Load { resident, tiles: each }, alignments).latency;
    each.div_ceil(resident).saturating_mul(latency) / (resident * resident)
}

/// That all parts write and read.
fn part_bytes(variant: &Variant, sizes: &Sizes, shares: Shares) -> u64 {
    let each = variant.split.filter(|_| shares.parts > 1).map_or(0, |split| 2 * u64::from(split.part_bytes));
    let cut = shares.cut(tile_count(variant, sizes));
    cut.saturating_mul(u64::from(shares.parts)).saturating_mul(each)
}

fn count(axes: &[GridAxis], sizes: &Sizes) -> u64 {
    axes.iter().fold(1u64, |all, axis| all.saturating_mul(blocks(axis, sizes)))
}

/// How long blocks work, and how long they put parts together after that.
struct Cycles {
    working: u64,
    joining: u64,
}

/// As many waves as it takes, each as long as one block on its own, but no less than all the work that comes to one
/// multiprocessor.
fn cycles_of(variant: &Variant, sizes: &Sizes, capacity: Capacity, shares: Shares, alignments: &Alignments) -> Cycles {
    let (whole, parts) = (u64::from(shares.whole), u64::from(shares.parts));
    let cut = tile_count(variant, sizes).saturating_sub(whole).saturating_mul(parts);
    let multiprocessors = u64::from(capacity.multiprocessors);
    let resident = u64::from(resident(variant, sizes, capacity, shares.parts));
    let (mut latency, mut work) = (0u64, 0u64);
    let weighted = shares.parts > 1 && variant.split.is_some_and(|split| split.weighted);
    let slowed =
        |cycles: u64| if weighted { cycles.saturating_mul(BESIDE_WEIGHTS.0) / BESIDE_WEIGHTS.1 } else { cycles };
    for (units, parts) in [(whole, 1), (cut, parts)] {
        let each = units.div_ceil(multiprocessors);
        let load = Load { resident: resident.min(each), tiles: each };
        let unit = unit_of(variant, sizes, parts, load, alignments);
        latency = latency.saturating_add(each.div_ceil(resident).saturating_mul(slowed(unit.latency)));
        work = work.saturating_add(each.saturating_mul(slowed(unit.work)));
    }
    let weighing = if weighted { WEIGHING + WEIGHED_PART * parts } else { 0 };
    let joining = match variant.split {
        Some(Split { shares: shares @ 1.., part_bytes, .. }) if parts > 1 => {
            let (shares, part_bytes) = (u64::from(shares), u64::from(part_bytes));
            let read = part_bytes / shares * shares.div_ceil(parts) / DEALT_BYTES;
            MEETING + part_bytes / JOINED_BYTES + parts * read.max(DEALT_PART)
        }
        Some(split) if parts > 1 => {
            let joining = if variant.cost.fetches.is_empty() { JOINING_OF_ROWS } else { JOINING };
            let at_a_time = if split.part_bytes > LARGE_PART { JOINED_BYTES_OF_LARGE } else { JOINED_BYTES };
            joining + u64::from(split.part_bytes) * (parts + 1) / at_a_time
        }
        _ => 0,
    };
    let beginning = match variant.paired {
        Some(_) => PAIRING,
        None if variant.takes_rows_in_turn() => BRINGING_SLICES,
        None => 0,
    };
    let apart = beginning + u64::from(variant.cost.ending);
    Cycles { working: latency.max(work).saturating_add(apart), joining: joining + weighing }
}

/// [`Arg::DivideByRowsTogether`]: as many as have blocks for so many times what runs at a time, so that the last of them are short; but no more than
/// read in their loops what L2 holds beside all else. Measured on an H100: causal attention by heads of 256 over 8192 keys takes 835 µs by five
/// rows together and 901 by one; over 16384, 1600 by two, 1640 by three, and 1860 by five, which read 84 MB.
pub(super) fn rows_together(variant: &Variant, sizes: &Sizes, capacity: Capacity) -> u32 {
    const TIMES: u64 = 2;
    const OF_L2: (u64, u64) = (3, 4);
    let Some((last, rows)) = variant.grid.split_last() else { return 1 };
    let at_a_time = u64::from(capacity.blocks_at_a_time(resident(variant, sizes, capacity, 1), 1));
    let in_loops = variant.cost.fetches.iter().filter(|fetch| !fetch.over.is_empty());
    let bytes = in_loops.fold(1u64, |bytes, fetch| {
        bytes.saturating_add(u64::from(fetch.bytes).saturating_mul(count(fetch.over, sizes)))
    });
    let wanted = (TIMES * at_a_time).div_ceil(blocks(last, sizes).max(1));
    let held = capacity.l2_bytes * OF_L2.0 / OF_L2.1 / bytes;
    wanted.min(held).clamp(1, count(rows, sizes).max(1)) as u32
}

/// Blocks that a multiprocessor holds at a time.
fn resident(variant: &Variant, sizes: &Sizes, capacity: Capacity, parts: u32) -> u32 {
    let by_shared =
        (capacity.block_shared_bytes + SHARED_OF_A_BLOCK) / (shared_bytes(variant, sizes, parts) + SHARED_OF_A_BLOCK);
    variant.cost.resident.min(by_shared).max(1)
}

/// What one block takes for a tile, or for one of its parts: on its own, and of a multiprocessor that others share.
struct Unit {
    latency: u64,
    work: u64,
}

/// What the last step along each of a block's skewed rows is spared: warps that have none of its columns leave it out.
fn left_out(variant: &Variant, step: &StepCost, sizes: &Sizes) -> u64 {
    const VECTOR: u64 = 8;
    let by_steps = !variant.skewed.is_empty() && variant.longest.is_none();
    let Some((along, outer)) = step.over.split_last().filter(|_| by_steps) else { return 0 };
    let rows: u64 = variant.grid.iter().map(|axis| u64::from(axis.block)).product();
    let columns = VECTOR * u64::from(variant.threads) / rows.max(1);
    let last = sizes.product(along.dims) % u64::from(along.block.max(1));
    let idle = if last == 0 { 0 } else { columns.saturating_sub(last) };
    count(outer, sizes).saturating_mul(step.work.into()).saturating_mul(idle) / columns.max(1)
}

/// Of one multiprocessor: blocks that it holds at a time, and tiles or parts in all.
#[derive(Clone, Copy)]
struct Load {
    resident: u64,
    tiles: u64,
}

fn unit_of(variant: &Variant, sizes: &Sizes, parts: u64, load: Load, alignments: &Alignments) -> Unit {
    let Load { resident, tiles } = load;
    // Loops are what is cut; what stands outside of them every part does.
    let growth = variant.cost.growing.map(|growing| growth(growing, sizes));
    let of_steps = |each: u64, over: &[GridAxis]| {
        let steps = if over.is_empty() { 1 } else { count(over, sizes).div_ceil(parts) };
        let all = each.saturating_mul(steps);
        match (growth, variant.cost.growing) {
            (Some((walked, whole)), Some(Growing { steps, .. })) if over.contains(&steps) => {
                (u128::from(all) * u128::from(walked) / u128::from(whole)) as u64
            }
            _ => all,
        }
    };
    let once = u64::from(variant.cost.once);
    let (mut latency, mut work) = (once, 0u64);
    for step in variant.cost.steps {
        latency = latency.saturating_add(of_steps(step.latency.into(), step.over));
        let work_of_step = of_steps(step.work.into(), step.over);
        work = work.saturating_add(work_of_step.saturating_sub(left_out(variant, step, sizes)));
    }
    if let Some(first) = variant.cost.steps.first().filter(|_| tiles <= 1) {
        latency = latency.saturating_add(of_steps(variant.cost.alone.into(), first.over));
    }
    for Fetch { short, over, .. } in variant.cost.fetches {
        let spared = short.map_or(0, |short| of_steps(missing(short.axis, u64::from(short.spared), sizes), over));
        latency = latency.saturating_sub(spared);
        work = work.saturating_sub(spared);
    }
    let threads = if variant.persistent { WARPGROUP } else { variant.threads };
    let warpgroups = u64::from(threads / WARPGROUP);
    let scattered = |element: u32, bytes: u32, warpgroups: u64| {
        let (cycles, elements) = SCATTERED_ELEMENTS[warpgroups.clamp(1, 3) as usize - 1];
        u64::from(bytes / element) * cycles / elements
    };
    // Copying threads run beside the products. What comes with an operand that TMA cannot fetch is theirs to copy too.
    let rows = |fetch: &&Fetch| fetch.scattered == 0;
    let by_tma = variant.cost.fetches.iter().filter(rows).all(|fetch| alignments.get(fetch.tensor) >= TMA_ALIGNMENT);
    let copying = variant.cost.fetches.iter().fold(once, |copying, fetch| {
        let each = match (fetch.scattered, alignments.get(fetch.tensor)) {
            (0, _) if by_tma => 0,
            (0, alignment) => u64::from(fetch.bytes / alignment) / copied_pieces(alignment),
            (element, _) => scattered(element, fetch.bytes, warpgroups),
        };
        copying.saturating_add(of_steps(each, fetch.over))
    });
    let scattered = variant.cost.fetches.iter().filter(|fetch| fetch.scattered > 0).fold(0u64, |all, fetch| {
        all.saturating_add(of_steps(scattered(fetch.scattered, fetch.bytes, warpgroups * resident), fetch.over))
    });
    // Their way from L2, where rows that are not whole lines make it longer than the compiler knew.
    let arriving = variant.cost.fetches.iter().fold(0u64, |arriving, fetch| {
        let alignment = alignments.of_lines(fetch.tensor);
        let of = |table: &[(u32, u64)]| table.iter().find(|(least, _)| alignment >= *least).map_or(1, |(_, of)| *of);
        let walks =
            alignments.get(fetch.tensor) >= TMA_ALIGNMENT && variant.windowed().any(|tensor| tensor == fetch.tensor);
        let each = if walks {
            let waits = variant.paired.is_some() && alignment >= LINE;
            let waiting = if waits { PAIRED_WINDOWS } else { 0 };
            walked(fetch, sizes) / WINDOW_BYTES * of(&WINDOW_TENTHS) / 10 + waiting
        } else {
            let blocks = if alignment >= TMA_ALIGNMENT { fetch.blocks.max(1) } else { 1 };
            brought(fetch, sizes) / u64::from(blocks) / of(&L2_BYTES)
        };
        arriving.saturating_add(of_steps(each, fetch.over))
    });
    // Their way from memory, by rings.
    let coming = match shared_bytes(variant, sizes, parts as u32) {
        room @ 1.. if variant.persistent => variant.cost.fetches.iter().fold(once, |coming, fetch| {
            let each = brought(fetch, sizes) / u64::from(fetch.blocks.max(1)) * UNDER_WAY / u64::from(room);
            coming.saturating_add(of_steps(each, fetch.over))
        }),
        _ => once,
    };
    let leaving = if variant.split.is_some() && parts > 1 { LEAVING } else { 0 };
    let latency = latency.max(copying).max(once.saturating_add(arriving)).max(coming).saturating_add(leaving);
    Unit { latency, work: work.max(arriving).max(scattered) }
}

/// Of a loop's steps by all blocks along the axis that it grows along: how many they walk, and how many whole loops would have.
fn growth(Growing { steps, along }: Growing, sizes: &Sizes) -> (u64, u64) {
    let (all, rows) = (blocks(&steps, sizes), blocks(&along, sizes));
    let (step, row) = (u64::from(steps.block).max(1), u64::from(along.block).max(1));
    let end = |at: u64| at.saturating_mul(row).min(sizes.product(along.dims)).div_ceil(step).min(all);
    // Past so many blocks, one more or less says nothing.
    const TOLD: u64 = 4096;
    if rows > TOLD || rows * all == 0 {
        return (1, 2);
    }
    ((1..=rows).map(end).sum(), rows * all)
}

/// What boxes bring that are no taller than the tensor.
fn brought(fetch: &Fetch, sizes: &Sizes) -> u64 {
    let bytes = u64::from(fetch.bytes);
    fetch.short.map_or(bytes, |short| bytes - missing(short.axis, bytes, sizes))
}

/// Of something, the share of the axis' block that the axis is shorter than it.
fn missing(axis: GridAxis, whole: u64, sizes: &Sizes) -> u64 {
    let block = u64::from(axis.block).max(1);
    whole * (block - sizes.product(axis.dims).min(block)) / block
}

/// What TMA brings of a tile's windows, as narrow as the tensor; rows of less than half a panel take as long, and all of them beside windows.
fn walked(fetch: &Fetch, sizes: &Sizes) -> u64 {
    let bytes = u64::from(fetch.bytes);
    let Some(GridAxis { dims, block }) = fetch.narrow else { return bytes };
    let (columns, block) = (sizes.product(dims), u64::from(block).max(1));
    (bytes * columns.min(block) / block).max(bytes / 2)
}

mod memory;
#[cfg(test)]
mod tests;
