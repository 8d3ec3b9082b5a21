//! What memory moves while blocks work.

use super::{Capacity, Sizes, Tensors, brought, count, resident, tile_count};
use crate::plan::{Fetch, Variant};
use crate::tensor::RawTensor;

/// Bytes, read and written, that memory moves in a cycle for each multiprocessor beside products: 4.4 TB/s of an H200 at 1.75 GHz.
const MEMORY_BYTES: u64 = 19;

/// Blocks that read the same rows, but not for each other, drift apart, until some read from memory what L2 no longer holds of a tensor that is so many
/// times as large: one in so many of its bytes, however many of them would find them there. Measured on an H100 by 128 rows, two tiles of 64 x 128 one above
/// the other, single and in pairs: weights of 28672 x 8192 (`nn`) take 216 and 162 µs, of 11008 x 8192 73.0 and 65.5, of 8192 x 8192 51.0 and 50.1; given
/// the other way round 165 and 167, 75.4 and 73.3, 51.2 and 51.7. On an H200, whose L2 holds 60 MB, 96 rows and weights of 8192 x 8192 take 41.8 and 35.8 µs
/// (`nn`), 120 rows 41.8 and 36.8, 200 rows by tiles of 104 x 128 43.2 and 42.3; 96 rows and weights of 7168 x 7168 31.3 and 29.3, 88 and 6144 x 6144 24.0 by both;
/// 224 rows and weights of 5120 x 13824 51.2 by three single tiles of 80 x 128.
const TIMES_L2: (u64, u64) = (3, 2);
const READ_AGAIN: u64 = 8;

/// What memory moves longer, one in so many of an operand's bytes, where a step takes no more than a line of each of its rows: the next line comes a step
/// later. Measured on an H200, two products with weights of 14336 x 4096: 16 rows take 58.3 µs by steps of 128 terms, 61.1 to 62.0 by 64.
const BY_LINES: u64 = 25;
const LINE: u32 = 128;

/// Of what takes less time, moving memory or working, so many tenths show: more where the same threads do both. Beside TMA that is if either takes as long;
/// the less it takes beside the other, the less of it shows. Measured on an H200: 224 x 5120 x 13824 (`nn`), of which memory takes 34 µs, takes 51.2
/// by one tile of 80 x 128 a block, and 53.5 to 56.6 by parts of larger ones; over 36 products the chosen schedule took 1.006 of the fastest one's time in the
/// geometric mean so, and 1.009 by the same share of either.
const BESIDE_TMA: u64 = 3;
const BESIDE_THREADS: u64 = 7;

/// Bytes that memory moves of tensors, those that it must, and those that it reads again because L2 does not hold them any more.
#[derive(Clone, Copy)]
pub struct Moved {
    pub once: u64,
    pub again: u64,
}

impl Moved {
    pub fn of(variant: &Variant, sizes: &Sizes, capacity: Capacity, tensors: &Tensors<'_>) -> Moved {
        let once = tensors.iter().map(size_of).sum::<u64>();
        Moved { once: once + by_lines(variant, tensors), again: read_again(variant, sizes, capacity, tensors) }
    }
}

fn size_of(tensor: &RawTensor) -> u64 {
    (tensor.layout().elements() * tensor.dtype().bytes()) as u64
}

fn by_lines(variant: &Variant, tensors: &Tensors<'_>) -> u64 {
    let by_windows = |fetch: &Fetch| variant.windowed().any(|tensor| tensor == fetch.tensor);
    let comes_by_lines = |fetch: &&Fetch| fetch.row_bytes <= LINE && fetch.scattered == 0 && !by_windows(fetch);
    let by_lines = variant.cost.fetches.iter().filter(comes_by_lines);
    by_lines.map(|fetch| tensors.get(fetch.tensor).map_or(0, size_of) / BY_LINES).sum()
}

/// Of operands that all blocks walk at the same time, none of them a second tile's.
fn read_again(variant: &Variant, sizes: &Sizes, capacity: Capacity, tensors: &Tensors<'_>) -> u64 {
    let tiles = tile_count(variant, sizes);
    if tiles > u64::from(capacity.multiprocessors) {
        return 0;
    }
    let again = |fetch: &Fetch| {
        let size = tensors.get(fetch.tensor).map_or(0, size_of);
        let each = brought(fetch, sizes).saturating_mul(count(fetch.over, sizes));
        let read = tiles.saturating_mul(each) / u64::from(fetch.blocks.max(1));
        let outlasts = size > TIMES_L2.0 * capacity.l2_bytes / TIMES_L2.1;
        if outlasts { read.saturating_sub(size).min(size) / READ_AGAIN } else { 0 }
    };
    variant.cost.fetches.iter().map(again).sum()
}

/// How long memory takes to move so many bytes.
pub fn cycles(bytes: u64, capacity: Capacity) -> u64 {
    bytes / (MEMORY_BYTES * u64::from(capacity.multiprocessors))
}

/// What multiprocessors do and what memory moves go on at the same time, but not from the first to the last cycle: so much of what takes
/// less shows. What memory moves `again` is none of that: it shows where memory is what takes longer. Measured on an H200 by tiles of 80 x 128 and of 104
/// x 128, single and in pairs (`nn`): 136 x 8192 x 8192 takes 37.5 and 36.1 µs, 136 x 7168 x 7168 30.0 by both; 200 x 8192 x 8192 40.6 and 40.7.
pub fn beside_memory(variant: &Variant, cycles: u64, memory: u64, again: u64) -> u64 {
    let (more, less) = (cycles.max(memory.saturating_add(again)), cycles.min(memory));
    let shown = match variant.cost.fetches {
        [] => less.saturating_mul(BESIDE_THREADS) / 10,
        _ => (u128::from(less) * u128::from(less) / u128::from(more.max(1)) * u128::from(BESIDE_TMA) / 10) as u64,
    };
    more.saturating_add(shown)
}

/// Where blocks hold whole rows before they write any, memory is half used while the first ones bring theirs, and while the last ones write:
/// how much longer that takes.
pub fn half_used(variant: &Variant, sizes: &Sizes, capacity: Capacity, moved: u64) -> u64 {
    if variant.kept.is_none() && variant.longest.is_none() {
        return 0;
    }
    let tiles = tile_count(variant, sizes).max(1);
    let at_a_time = u64::from(capacity.blocks_at_a_time(resident(variant, sizes, capacity, 1), 1));
    cycles(moved, capacity) / 2 * at_a_time.min(tiles) / tiles
}
