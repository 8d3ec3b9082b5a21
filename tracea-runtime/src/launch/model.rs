//! The compiler's model in a launch's own numbers: how long a variant takes with the copies that it needs, into how many parts its loop
//! is best cut, and whether operands that TMA cannot fetch are better copied first.

use super::alignment::{Alignments, LINE, TMA_ALIGNMENT, row_alignment_of};
use super::check::{Sizes, Tensors, is_counted};
use super::copies::{Copied, Copies};
use super::joined::joined;
use super::merged::{Gapless, Merged};
use super::params::{Shares, blocks, shared_bytes, tile_count};
use super::skew::{Skews, are_ragged, has_room};
use crate::cuda::{Gpu, MOST_TILES, PARTS_BYTES};
use crate::plan::{GridAxis, KernelDef, Split, Variant};

/// Pieces, as large as rows are aligned, that a warpgroup's threads copy in a cycle. Measured with f16 rows aligned to 2 bytes on an
/// H200: products of 8191³ at 52 (tn) and 72 TFLOP/s (nn), for which this says 76; a 3 × 3 convolution of 67 channels, two blocks a
/// multiprocessor, at 38, for which it says 39.
const COPIED_PIECES: u64 = 2;
/// Cycles, as fractions, that a warpgroup's threads take for each element that comes by itself, and that those of all blocks of a
/// multiprocessor do. Measured on an H200 by a 7 × 7 convolution of 3 channels to 64, 142 steps of 128 × 64 elements for each multiprocessor:
/// 420 µs by one warpgroup, 238 by those of three blocks.
const SCATTERED_ELEMENT: (u64, u64) = (3, 5);
const SCATTERED_ELEMENTS: (u64, u64) = (1, 3);
/// What the driver takes of a multiprocessor's shared memory for each block.
const SHARED_OF_A_BLOCK: u32 = 1024;
/// What blocks that fetch for each other take longer to begin and to end, in cycles.
const PAIRING: u64 = 500;
/// Bytes a cycle that reach one multiprocessor from L2 while all of them read rows by TMA that are aligned to 128, 64, 32 and 16 bytes.
/// Measured on an H200: 104, 81, 73 and 46 GB/s a multiprocessor, with tiles as products have them; the first is the compiler's own.
const L2_BYTES: [(u32, u64); 4] = [(128, 70), (64, 54), (32, 49), (0, 31)];
/// Cycles that a tile of windows takes to begin, and the bytes a cycle at which TMA then walks it row by row, whatever L2 has to spare. Measured
/// on an H200: 576 cycles a step for 128 rows of 64 channels and 344 for 64, by a 3 × 3 convolution to 64 filters, two blocks a multiprocessor.
const WINDOW_START: u64 = 110;
const WINDOW_BYTES: u64 = 35;
/// How many tenths of that rows take which are aligned to 128, 32 and 16 bytes. Measured on an H200 by 3 × 3 convolutions of 64 images of 56²:
/// 71 µs for 32 channels to 128, 121 for 96, 1170 and 990 cycles a step; 1360 for 67 channels, whose rows are copied to multiples of 16 bytes.
const WINDOW_TENTHS: [(u32, u64); 3] = [(128, 10), (32, 20), (0, 23)];
/// What each block takes to leave its part, and the last one to see that all have come, in cycles; and the bytes of parts that one
/// block writes or reads in a cycle.
const LEAVING: u64 = 500;
const JOINING: u64 = 1000;
/// The same where all blocks of a tile wait for each other, and the bytes that one of them then reads of its share in a cycle.
const MEETING: u64 = 1500;
const DEALT_BYTES: u64 = 48;
/// The same where the last block's threads wait for memory themselves all along.
const JOINING_OF_ROWS: u64 = 2500;
const JOINED_BYTES: u64 = 64;

/// How much longer, as a fraction, aligned rows take as one: by up to a tenth where there is much to compute, measured on an H200.
const AS_ONE_ROW: (u64, u64) = (11, 10);

/// How many times as fast rows that are not aligned are walked from the chunks in which they begin as they are put together; rows that
/// are aligned anyway had better not be.
const FASTER_BY_CHUNKS: u64 = 2;
/// The same of rows that are in registers as a whole, in halves; they may as well be aligned.
const FASTER_IN_REGISTERS: u64 = 5;

/// Bytes, read and written, that memory moves in a cycle for each multiprocessor beside products: 4.4 TB/s of an H200 at 1.75 GHz.
const MEMORY_BYTES: u64 = 19;

/// Of what takes less time, moving memory or working, so many tenths show: more where the same threads do both.
const BESIDE_TMA: u64 = 3;
const BESIDE_THREADS: u64 = 7;

/// What of a device bears on that.
#[derive(Clone, Copy)]
pub(super) struct Capacity {
    pub multiprocessors: u32,
    /// Shared memory that one block may ask for, bytes.
    pub block_shared_bytes: u32,
}

impl Capacity {
    pub fn of(gpu: &Gpu) -> Capacity {
        Capacity { multiprocessors: gpu.multiprocessors.max(1), block_shared_bytes: gpu.block_shared_bytes }
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
    let Operands { kernel, tensors, alignments, gapless, skews, may_copy } = *operands;
    if !skews.serve(variant) || !has_room(variant, sizes) || !is_counted(variant, sizes) {
        return None;
    }
    let replaced = joined(variant, tensors)?;
    let tensors = &replaced.among(tensors);
    let alignments = if variant.joined.is_empty() { alignments } else { Alignments::of(tensors) };
    let merged = Merged::of(kernel, variant, sizes, &gapless);
    let sizes = &merged.map_or(*sizes, |merged| merged.sizes(sizes));
    let moved = tensors.iter().map(|tensor| (tensor.layout().elements() * tensor.dtype().bytes()) as u64).sum();
    let with = |copies: &Copies, realigned_to: u32| {
        let realigned = |all: Alignments, copied: Copied| {
            let bytes = tensors.get(copied.tensor).map_or(1, |tensor| tensor.dtype().bytes());
            all.realigned(copied.tensor, copied.alignment(bytes))
        };
        let alignments = copies.iter().fold(alignments, realigned);
        let cut = cut(variant, sizes, capacity, &alignments, moved);
        let cycles = cut.cycles.saturating_add(copies.cycles(capacity.multiprocessors));
        let cycles = match merged {
            Some(_) if tensors.iter().all(|tensor| row_alignment_of(tensor) >= TMA_ALIGNMENT) => {
                cycles.saturating_mul(AS_ONE_ROW.0) / AS_ONE_ROW.1
            }
            _ => cycles,
        };
        let cycles = match (variant.skewed, are_ragged(variant, tensors)) {
            ([], _) => cycles,
            (_, true) if variant.longest.is_some() => cycles.saturating_mul(2) / FASTER_IN_REGISTERS,
            (_, true) => cycles / FASTER_BY_CHUNKS,
            (_, false) if variant.longest.is_some() => cycles,
            (_, false) => cycles.saturating_mul(FASTER_BY_CHUNKS),
        };
        Prediction { cycles, realigned_to, ..cut }
    };
    if !may_copy {
        return variant.relaid.is_empty().then(|| with(&Copies::none(), 0));
    }
    let needed = Copies::needed(variant, tensors)?;
    let mut best = with(&needed, 0);
    let mut copied = needed.count();
    for wanted in [TMA_ALIGNMENT, LINE] {
        let all = needed.with_misaligned(kernel, variant, tensors, &alignments, wanted);
        if all.count() > copied {
            copied = all.count();
            let realigned = with(&all, wanted);
            best = if realigned.cycles < best.cycles { realigned } else { best };
        }
    }
    Some(best)
}

/// In as many parts as serve it best, with operands of these alignments; `moved` are the bytes of all tensors.
fn cut(variant: &Variant, sizes: &Sizes, capacity: Capacity, alignments: &Alignments, moved: u64) -> Prediction {
    let tenths = if variant.cost.fetches.is_empty() { BESIDE_THREADS } else { BESIDE_TMA };
    let half_used = half_used(variant, sizes, capacity, moved);
    let of = |shares: Shares| {
        let bytes = moved.saturating_add(part_bytes(variant, sizes, shares));
        let memory = bytes / (MEMORY_BYTES * u64::from(capacity.multiprocessors));
        let cycles = beside_memory(tenths, cycles_of(variant, sizes, capacity, shares, alignments), memory);
        Prediction { cycles: cycles.saturating_add(half_used), shares, realigned_to: 0 }
    };
    let whole = of(Shares::WHOLE);
    let Some(split) = variant.split else { return whole };
    let tiles = tile_count(variant, sizes);
    let steps = variant.cost.steps.iter().map(|step| count(step.over, sizes)).max().unwrap_or(1);
    if split.shares > 0 && resident(variant, sizes, capacity, 1) < variant.cost.resident.max(1) {
        return whole;
    }
    // All tiles, or those that are left when each multiprocessor has had as many.
    let at_a_time = u64::from(capacity.blocks_at_a_time(variant.cost.resident.max(1), 1));
    let full_waves = tiles / at_a_time * at_a_time;
    let first_cut = [Some(0), (split.some_whole && 0 < full_waves && full_waves < tiles).then_some(full_waves)];
    let ways = first_cut.into_iter().flatten().flat_map(|first| {
        let cut = tiles - first;
        let room = PARTS_BYTES / (cut.max(1) * u64::from(split.part_bytes)).max(1);
        let most = if cut <= MOST_TILES { room.min(steps).min(u64::from(split.most_parts)) } else { 1 };
        // Blocks that wait for each other run at a time.
        let most = if split.shares > 0 { most.min(at_a_time / cut.max(1)) } else { most };
        // Doubling, and one and a half times that: 2, 3, 4, 6, 8, 12 …
        let wanted = (1..).flat_map(|doubled| [1u64 << doubled, 3 << (doubled - 1)]);
        wanted
            .take_while(move |parts| *parts <= most)
            .map(move |parts| Shares { whole: first as u32, parts: parts as u32 })
    });
    ways.map(of).fold(whole, |best, next| if next.cycles < best.cycles { next } else { best })
}

/// What multiprocessors do and what memory moves go on at the same time, but not from the first to the last cycle: so much of what takes
/// less shows.
fn beside_memory(tenths: u64, cycles: u64, memory: u64) -> u64 {
    cycles.max(memory).saturating_add(cycles.min(memory).saturating_mul(tenths) / 10)
}

/// Where blocks hold whole rows before they write any, memory is half used while the first ones bring theirs, and while the last ones write:
/// how much longer that takes.
fn half_used(variant: &Variant, sizes: &Sizes, capacity: Capacity, moved: u64) -> u64 {
    if variant.kept.is_none() && variant.longest.is_none() {
        return 0;
    }
    let tiles = tile_count(variant, sizes).max(1);
    let at_a_time = u64::from(capacity.blocks_at_a_time(resident(variant, sizes, capacity, 1), 1));
    moved / (2 * MEMORY_BYTES * u64::from(capacity.multiprocessors)) * at_a_time.min(tiles) / tiles
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

/// As many waves as it takes, each as long as one block on its own, but no less than all the work that comes to one
/// multiprocessor.
fn cycles_of(variant: &Variant, sizes: &Sizes, capacity: Capacity, shares: Shares, alignments: &Alignments) -> u64 {
    let (whole, parts) = (u64::from(shares.whole), u64::from(shares.parts));
    let cut = tile_count(variant, sizes).saturating_sub(whole).saturating_mul(parts);
    let multiprocessors = u64::from(capacity.multiprocessors);
    let resident = u64::from(resident(variant, sizes, capacity, shares.parts));
    let (mut latency, mut work) = (0u64, 0u64);
    for (units, parts) in [(whole, 1), (cut, parts)] {
        let each = units.div_ceil(multiprocessors);
        let unit = unit_of(variant, sizes, parts, alignments);
        latency = latency.saturating_add(each.div_ceil(resident).saturating_mul(unit.latency));
        work = work.saturating_add(each.saturating_mul(unit.work));
    }
    let joining = match variant.split {
        Some(Split { shares: shares @ 1.., part_bytes, .. }) if parts > 1 => {
            let (shares, part_bytes) = (u64::from(shares), u64::from(part_bytes));
            let read = parts * part_bytes / shares * shares.div_ceil(parts);
            MEETING + part_bytes / JOINED_BYTES + read / DEALT_BYTES
        }
        Some(split) if parts > 1 => {
            let joining = if variant.cost.fetches.is_empty() { JOINING_OF_ROWS } else { JOINING };
            joining + u64::from(split.part_bytes) * (parts + 1) / JOINED_BYTES
        }
        _ => 0,
    };
    let pairing = if variant.paired.is_some() { PAIRING } else { 0 };
    latency.max(work).saturating_add(joining + pairing)
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

fn unit_of(variant: &Variant, sizes: &Sizes, parts: u64, alignments: &Alignments) -> Unit {
    // Loops are what is cut; what stands outside of them every part does.
    let steps_of = |over: &[GridAxis]| if over.is_empty() { 1 } else { count(over, sizes).div_ceil(parts) };
    let once = u64::from(variant.cost.once);
    let (mut latency, mut work) = (once, 0u64);
    for step in variant.cost.steps {
        let steps = steps_of(step.over);
        latency = latency.saturating_add(u64::from(step.latency).saturating_mul(steps));
        work = work.saturating_add(u64::from(step.work).saturating_mul(steps));
    }
    // Copying threads run beside the products.
    let copying = variant.cost.fetches.iter().fold(once, |copying, fetch| {
        let each = match (fetch.scattered, alignments.get(fetch.tensor)) {
            (0, TMA_ALIGNMENT..) => 0,
            (0, alignment) => u64::from(fetch.bytes / alignment) / COPIED_PIECES,
            (element, _) => u64::from(fetch.bytes / element) * SCATTERED_ELEMENT.0 / SCATTERED_ELEMENT.1,
        };
        copying.saturating_add(each.saturating_mul(steps_of(fetch.over)))
    });
    let scattered = variant.cost.fetches.iter().filter(|fetch| fetch.scattered > 0).fold(0u64, |all, fetch| {
        let each = u64::from(fetch.bytes / fetch.scattered) * SCATTERED_ELEMENTS.0 / SCATTERED_ELEMENTS.1;
        all.saturating_add(each.saturating_mul(steps_of(fetch.over)))
    });
    // Their way from L2, where rows that are not whole lines make it longer than the compiler knew.
    let arriving = variant.cost.fetches.iter().fold(0u64, |arriving, fetch| {
        let alignment = alignments.of_lines(fetch.tensor);
        let rate = L2_BYTES.iter().find(|(least, _)| alignment >= *least).map_or(1, |(_, rate)| *rate);
        let blocks = if alignment >= TMA_ALIGNMENT { fetch.blocks.max(1) } else { 1 };
        arriving.saturating_add((u64::from(fetch.bytes / blocks) / rate).saturating_mul(steps_of(fetch.over)))
    });
    let windows = variant.cost.fetches.iter().filter(|fetch| {
        alignments.get(fetch.tensor) >= TMA_ALIGNMENT && variant.windowed().any(|tensor| tensor == fetch.tensor)
    });
    let walking = windows.fold(0u64, |walking, fetch| {
        let alignment = alignments.of_lines(fetch.tensor);
        let tenths = WINDOW_TENTHS.iter().find(|(least, _)| alignment >= *least).map_or(10, |(_, tenths)| *tenths);
        let each = (WINDOW_START + u64::from(fetch.bytes) / WINDOW_BYTES) * tenths / 10;
        walking.saturating_add(each.saturating_mul(steps_of(fetch.over)))
    });
    let arriving = arriving.max(walking);
    let leaving = if variant.split.is_some() && parts > 1 { LEAVING } else { 0 };
    let latency = latency.max(copying).max(once.saturating_add(arriving)).saturating_add(leaving);
    Unit { latency, work: work.max(arriving).max(scattered) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::Dtype;
    use crate::plan::{Arg, Cost, Fetch, Kept, Relaid, StepCost, TensorDef, Window};
    use crate::tensor::{Layout, RawTensor};

    const H200: Capacity = Capacity { multiprocessors: 132, block_shared_bytes: 227 << 10 };

    const fn input(name: &'static str, position: usize, dims: &'static [usize]) -> TensorDef {
        TensorDef { name, position, dtype: Some(Dtype::F16), dims, reads: true, writes: false }
    }

    static KERNEL: KernelDef = KernelDef {
        name: "product",
        file: "product.rs",
        line: 1,
        dims: &[],
        tensors: &[input("a", 0, &[0, 2]), input("b", 1, &[1, 2])],
        scalars: &[],
        selectors: &[],
        instances: &[],
    };

    const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 64 }];

    const WIDE: Variant = Variant {
        target: "sm_90a",
        persistent: true,
        grid: &[GridAxis { dims: &[0], block: 128 }, GridAxis { dims: &[1], block: 256 }],
        cost: Cost {
            once: 1624,
            resident: 1,
            steps: &[StepCost { latency: 1124, work: 1024, over: STEPS }],
            fetches: &[
                Fetch { tensor: 0, bytes: 128 * 64 * 2, blocks: 1, scattered: 0, over: STEPS },
                Fetch { tensor: 1, bytes: 256 * 64 * 2, blocks: 1, scattered: 0, over: STEPS },
            ],
        },
        args: &[
            Arg::TensorMap { tensor: 0, merged: 1, boxes: &[128, 64] },
            Arg::TensorMap { tensor: 1, merged: 1, boxes: &[256, 64] },
        ],
        aligned: &[0, 1],
        max_registers: 168,
        ..Variant::of_source("product", "", 256)
    };

    const SMALL: Variant = Variant {
        grid: &[GridAxis { dims: &[0], block: 64 }, GridAxis { dims: &[1], block: 64 }],
        cost: Cost {
            once: 728,
            resident: 2,
            steps: &[StepCost { latency: 440, work: 340, over: STEPS }],
            fetches: &[
                Fetch { tensor: 0, bytes: 64 * 64 * 2, blocks: 1, scattered: 0, over: STEPS },
                Fetch { tensor: 1, bytes: 64 * 64 * 2, blocks: 1, scattered: 0, over: STEPS },
            ],
        },
        ..WIDE
    };

    /// Of `a` (m, k) and `b` (n, k), with so many elements between rows.
    fn said(variant: &Variant, [m, n, k]: [usize; 3], gap: usize, may_copy: bool) -> Option<Prediction> {
        let tensor = |rows| {
            let layout = Layout::strided(&[rows, k], &[k + gap, 1]).unwrap();
            RawTensor::borrowing(Dtype::F16, layout, std::ptr::without_provenance_mut(0x1000), Device::cpu())
        };
        let (a, b) = (tensor(m), tensor(n));
        let mut tensors = Tensors::new();
        [&a, &b].into_iter().for_each(|tensor| tensors.push(tensor));
        let (alignments, gapless, skews) = (Alignments::of(&tensors), Gapless::of(&tensors), Skews::of(&tensors));
        let operands = Operands { kernel: &KERNEL, tensors: &tensors, alignments, gapless, skews, may_copy };
        prediction(variant, &Sizes::of(&[m, n, k]), H200, &operands)
    }

    fn says(variant: &Variant, sizes: [usize; 3], gap: usize, may_copy: bool) -> Prediction {
        said(variant, sizes, gap, may_copy).expect("a variant that serves")
    }

    #[test]
    fn blocks_run_in_whole_clusters() {
        assert_eq!([1, 2].map(|cluster| H200.blocks_at_a_time(1, cluster)), [132, 132]);
        assert_eq!(H200.blocks_at_a_time(2, 2), 264);
        assert_eq!(Capacity { multiprocessors: 19, ..H200 }.blocks_at_a_time(1, 2), 18);
    }

    #[test]
    fn pairs_that_fetch_for_each_other_are_for_what_l2_cannot_keep_up_with() {
        const FETCHES: &[Fetch] = &[WIDE.cost.fetches[0], Fetch { blocks: 2, ..WIDE.cost.fetches[1] }];
        let cost = Cost { fetches: FETCHES, ..WIDE.cost };
        let paired = Variant { cluster: 2, paired: Some(0), cost, ..WIDE };
        let cycles = |variant: &Variant, sizes, gap| says(variant, sizes, gap, false).cycles;
        let both = |sizes, gap| (cycles(&paired, sizes, gap), cycles(&WIDE, sizes, gap));
        let (pairs, single) = both([8192; 3], 0);
        assert_eq!(pairs - single, PAIRING, "L2 keeps up");
        let (pairs, single) = both([8192, 8192, 8200], 0);
        assert!(10 * pairs < 9 * single, "rows that are not whole lines take L2 longer");
        let (pairs, single) = both([8192, 8192, 8191], 0);
        assert_eq!(pairs - single, PAIRING, "threads copy, each block for itself");
        let (pairs, single) = both([33 * 128, 4096, 4096], 0);
        assert!(pairs > single, "33 rows of 16 tiles are 34 in pairs: five waves instead of four");
    }

    #[test]
    fn windows_are_better_walked_for_many_columns() {
        const NARROW: Variant = Variant {
            grid: &[GridAxis { dims: &[0], block: 128 }, GridAxis { dims: &[1], block: 64 }],
            cost: Cost {
                once: 1112,
                resident: 2,
                steps: &[StepCost { latency: 372, work: 272, over: STEPS }],
                fetches: &[WIDE.cost.fetches[0], Fetch { bytes: 64 * 64 * 2, ..WIDE.cost.fetches[1] }],
            },
            ..WIDE
        };
        const WINDOWS: &[Window] = &[Window { tensor: 0, rows: 128, channels: 64, axes: &[] }];
        let sizes = [64 * 14 * 14, 256, 1024];
        let cycles = |variant: Variant| says(&variant, sizes, 0, false).cycles;
        assert!(cycles(NARROW) < cycles(WIDE), "98 wide tiles leave multiprocessors idle");
        let windowed = |variant| cycles(Variant { windows: WINDOWS, ..variant });
        assert!(windowed(NARROW) > windowed(WIDE), "the same windows are walked four times");
        assert_eq!(windowed(WIDE), cycles(WIDE), "while a wide tile is multiplied, there is time");
    }

    #[test]
    fn memory_bounds_what_few_rows_take() {
        // 235 MB at 3.9 TB/s: 60 µs of 1.75 GHz, whatever multiprocessors do.
        let split = Some(Split { part_bytes: 4 * 64 * 64, most_parts: 16, some_whole: true, shares: 0 });
        let few = says(&Variant { split, ..SMALL }, [16, 28672, 4096], 0, false);
        assert!((105_000..180_000).contains(&few.cycles), "{}", few.cycles);
        assert_eq!(few.shares.parts, 1, "parts would be moved too");
        assert!(says(&Variant { split, ..SMALL }, [128, 4096, 4096], 0, false).shares.parts > 1);
    }

    #[test]
    fn tiles_that_full_waves_leave_over_are_cut() {
        let split = Split { part_bytes: 4 * 128 * 256, most_parts: 16, some_whole: true, shares: 0 };
        let cut = |split| says(&Variant { split, ..WIDE }, [5120; 3], 0, false);
        let said = cut(Some(split));
        assert_eq!(said.shares.whole, 6 * 132, "of 40 x 20 tiles");
        assert!((2..=8).contains(&said.shares.parts), "{:?}", said.shares);
        assert!(20 * said.cycles < 19 * cut(None).cycles, "most of a seventh wave is saved");
        let alike = cut(Some(Split { some_whole: false, ..split }));
        assert_eq!(alike.shares.whole, 0, "where all tiles are cut alike");
        // Little is left of the last wave anyway.
        let full = says(&Variant { split: Some(split), ..WIDE }, [4096; 3], 0, false);
        assert_eq!(full.shares, Shares::WHOLE, "of 32 x 16 tiles, 116 are left of 132");
    }

    #[test]
    fn blocks_that_wait_for_each_other_run_at_a_time() {
        let dealt = Split { part_bytes: 4 * 128 * 256, most_parts: 16, some_whole: true, shares: 8 };
        let cut = |split, sizes| says(&Variant { split: Some(split), ..WIDE }, sizes, 0, false);
        for sizes in [[5120; 3], [512, 512, 16384], [384, 2304, 8192], [2048, 2048, 256], [128 * 19, 256 * 7, 4096]] {
            let Shares { whole, parts } = cut(dealt, sizes).shares;
            let tiles = (sizes[0].div_ceil(128) * sizes[1].div_ceil(256)) as u32;
            assert!(whole % 132 == 0 && (parts == 1 || (tiles - whole) * parts <= 132), "{sizes:?}: {whole} {parts}");
        }
        let few = [512, 512, 16384];
        assert!(
            cut(dealt, few).cycles < cut(Split { shares: 0, ..dealt }, few).cycles,
            "a part of 128 KiB takes one block long"
        );
        let crowded =
            Variant { cost: Cost { resident: 2, ..WIDE.cost }, shared_bytes: 200 << 10, split: Some(dealt), ..WIDE };
        assert_eq!(says(&crowded, few, 0, false).shares, Shares::WHOLE, "a multiprocessor has room for one");
    }

    #[test]
    fn large_operands_with_odd_rows_are_copied() {
        let (odd, even) = (says(&WIDE, [8191; 3], 0, true), says(&WIDE, [8191; 3], 1, true));
        assert!(odd.realigned_to > 0 && even.realigned_to == 0);
        // Two operands of 128 MiB, read and written at 3.5 TB/s: 153 µs of 1.75 GHz.
        let copying = odd.cycles - even.cycles;
        assert!((260_000..290_000).contains(&copying), "{copying}");
        assert!(copying < even.cycles / 8);
    }

    #[test]
    fn a_copy_that_costs_more_than_it_saves_is_not_made() {
        assert!(
            says(&SMALL, [64, 64, 63], 0, true).realigned_to == 0,
            "one step of copying threads is shorter than a launch"
        );
        assert!(says(&SMALL, [64, 64, 1023], 0, true).realigned_to > 0);
        assert!(says(&SMALL, [1 << 20, 64, 63], 0, true).realigned_to > 0, "one step in each of many tiles");
    }

    #[test]
    fn what_must_not_or_cannot_be_copied_is_priced_as_it_lies() {
        let (asked, allowed) = (says(&WIDE, [8191; 3], 0, false), says(&WIDE, [8191; 3], 0, true));
        assert!(asked.realigned_to == 0 && asked.cycles > 8 * allowed.cycles, "{} {}", asked.cycles, allowed.cycles);
        let beyond = says(&WIDE, [1 << 15, 1 << 15, (1 << 14) - 1], 0, true);
        assert!(beyond.realigned_to == 0, "more than there is room for");
        let by_eights = says(&WIDE, [8191, 8191, 8188], 0, false);
        assert!(by_eights.cycles < asked.cycles / 3, "wider rows take fewer accesses");
    }

    #[test]
    fn elements_that_come_by_themselves_take_as_long_however_they_lie() {
        const FETCHES: &[Fetch] = &[Fetch { scattered: 2, ..WIDE.cost.fetches[0] }, WIDE.cost.fetches[1]];
        let scattered = |resident| Variant { cost: Cost { fetches: FETCHES, resident, ..WIDE.cost }, ..WIDE };
        let cycles = |variant: &Variant, k| says(variant, [4096, 4096, k], 0, false).cycles;
        assert!(cycles(&scattered(1), 4096) > 4 * cycles(&WIDE, 4096));
        assert!(
            cycles(&scattered(1), 4095) < cycles(&scattered(1), 4096) * 3,
            "the other operand's rows are copied beside them"
        );
        assert!(3 * cycles(&scattered(3), 4096) < 2 * cycles(&scattered(1), 4096), "more threads copy more");
        assert_eq!(cycles(&scattered(4), 4096), cycles(&scattered(8), 4096), "as fast as a multiprocessor issues");
    }

    #[test]
    fn rows_are_walked_from_their_chunks_where_they_are_not_aligned() {
        const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 512 }];
        const ROWS: Variant = Variant {
            grid: &[GridAxis { dims: &[0], block: 4 }],
            cost: Cost {
                once: 1500,
                resident: 8,
                steps: &[StepCost { latency: 600, work: 64, over: STEPS }],
                fetches: &[],
            },
            kept: Some(Kept { columns: STEPS[0], block_bytes: 4 << 10, most_blocks: 24 }),
            ..Variant::of_source("rows", "", 128)
        };
        const SKEWED: Variant = Variant { skewed: &[0, 1], ..ROWS };
        let cycles = |variant: &Variant, columns, gap| says(variant, [4096, 4096, columns], gap, true).cycles;
        assert!(cycles(&SKEWED, 4097, 0) < cycles(&ROWS, 4097, 0));
        assert!(cycles(&SKEWED, 4097, 7) < cycles(&ROWS, 4097, 7), "an end that cuts a vector");
        assert!(cycles(&SKEWED, 4096, 0) > cycles(&ROWS, 4096, 0));
        const WHOLE: Variant = Variant {
            longest: Some(GridAxis { dims: &[2], block: 4103 }),
            cost: Cost { steps: &[StepCost { latency: 2000, work: 400, over: &[] }], ..ROWS.cost },
            ..SKEWED
        };
        assert!(cycles(&WHOLE, 4097, 0) < cycles(&SKEWED, 4097, 0));
        assert!(cycles(&WHOLE, 4096, 0) < cycles(&SKEWED, 4096, 0), "registers hold aligned rows as well");
        assert!(said(&WHOLE, [4096, 4096, 4103], 0, true).is_some());
        assert!(said(&WHOLE, [4096, 4096, 4104], 0, true).is_none(), "rows that have no registers left");
    }

    #[test]
    fn fewer_bytes_at_a_time_are_sooner_written() {
        const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 4096 }];
        const FEW: Variant = Variant {
            grid: &[GridAxis { dims: &[0], block: 1 }],
            cost: Cost {
                once: 500,
                resident: 4,
                steps: &[StepCost { latency: 100, work: 64, over: STEPS }],
                fetches: &[],
            },
            longest: Some(GridAxis { dims: &[2], block: 16384 }),
            ..Variant::of_source("rows", "", 256)
        };
        const MANY: Variant = Variant { cost: Cost { resident: 8, ..FEW.cost }, ..FEW };
        let cycles = |variant: &Variant, rows| says(variant, [rows, rows, 12288], 0, true).cycles;
        assert!(cycles(&FEW, 4096) < cycles(&MANY, 4096), "memory bounds both");
        assert_eq!(cycles(&FEW, 128), cycles(&MANY, 128), "a row to a multiprocessor");
    }

    #[test]
    fn a_variant_that_reads_operands_laid_anew_pays_for_their_copies() {
        const RELAID: Variant = Variant { relaid: &[Relaid { tensor: 1, last: 0 }], ..WIDE };
        let elements = |n: usize, k: usize| {
            let layout = Layout::contiguous(&[k, n]).unwrap();
            RawTensor::borrowing(Dtype::F32, layout, std::ptr::without_provenance_mut(0x1000), Device::cpu())
        };
        let of = |variant: &Variant, size: usize, may_copy: bool| {
            let (a, b) = (elements(size, size), elements(size, size));
            let mut tensors = Tensors::new();
            [&a, &b].into_iter().for_each(|tensor| tensors.push(tensor));
            let (alignments, gapless, skews) = (Alignments::of(&tensors), Gapless::of(&tensors), Skews::of(&tensors));
            let operands = Operands { kernel: &KERNEL, tensors: &tensors, alignments, gapless, skews, may_copy };
            prediction(variant, &Sizes::of(&[size; 3]), H200, &operands).map(|said| said.cycles)
        };
        let (plain, relaid) = (of(&WIDE, 4096, true).unwrap(), of(&RELAID, 4096, true).unwrap());
        // 64 MiB, read and written at 3.5 TB/s: 38 µs of 1.75 GHz, and a launch of 3 µs.
        assert!((68_000..77_000).contains(&(relaid - plain)), "{}", relaid - plain);
        assert_eq!(of(&RELAID, 4096, false), None);
        assert_eq!(of(&RELAID, 1 << 15, true), None, "more than there is room for");
    }
}
