mod copies;
mod parts;

use super::memory::beside_memory;
use super::*;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::plan::{Arg, Cost, Kept, Relaid, Short, TensorDef, Window};
use crate::tensor::{Layout, RawTensor};

const H200: Capacity = Capacity { multiprocessors: 132, block_shared_bytes: 227 << 10, l2_bytes: 50 << 20 };

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

/// A tile of a multiprocessor's own.
const ONE: Load = Load { resident: 1, tiles: 1 };

const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 64 }];

const ROWS: Fetch = Fetch {
    tensor: 0,
    bytes: 64 * 64 * 2,
    row_bytes: 128,
    blocks: 1,
    scattered: 0,
    narrow: None,
    short: None,
    over: STEPS,
};

const WIDE: Variant = Variant {
    target: "sm_90a",
    persistent: true,
    shared_bytes: 224 << 10,
    grid: &[GridAxis { dims: &[0], block: 128 }, GridAxis { dims: &[1], block: 256 }],
    cost: Cost {
        once: 1624,
        ending: 0,
        alone: 0,
        resident: 1,
        steps: &[StepCost { latency: 1124, work: 1024, over: STEPS }],
        fetches: &[Fetch { tensor: 0, bytes: 128 * 64 * 2, ..ROWS }, Fetch { tensor: 1, bytes: 256 * 64 * 2, ..ROWS }],
        growing: None,
    },
    args: &[
        Arg::TensorMap { tensor: 0, merged: 1, boxes: &[128, 64], narrow: false, short: false },
        Arg::TensorMap { tensor: 1, merged: 1, boxes: &[256, 64], narrow: false, short: false },
    ],
    aligned: &[0, 1],
    max_registers: 168,
    ..Variant::of_source("product", "", 256)
};

const SMALL: Variant = Variant {
    shared_bytes: 104 << 10,
    grid: &[GridAxis { dims: &[0], block: 64 }, GridAxis { dims: &[1], block: 64 }],
    cost: Cost {
        once: 728,
        ending: 0,
        alone: 0,
        resident: 2,
        steps: &[StepCost { latency: 440, work: 340, over: STEPS }],
        fetches: &[Fetch { tensor: 0, bytes: 64 * 64 * 2, ..ROWS }, Fetch { tensor: 1, bytes: 64 * 64 * 2, ..ROWS }],
        growing: None,
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
    let operands =
        Operands { kernel: &KERNEL, precomputed: &[], tensors: &tensors, alignments, gapless, skews, may_copy };
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

/// Two waves of them, as far as L2 holds what they read, and no more than there are.
#[test]
fn rows_of_growing_blocks_are_visited_together_at_the_end() {
    const GRID: &[GridAxis] = &[GridAxis { dims: &[0], block: 1 }, GridAxis { dims: &[1], block: 128 }];
    let growing = Variant { grid: GRID, ..WIDE };
    // A step of each row's loop brings 48 KiB.
    let together = |rows, cols, terms| rows_together(&growing, &Sizes::of(&[rows, cols, terms]), H200);
    assert_eq!(together(512, 512, 512), 66, "264 blocks, four a row");
    assert_eq!(together(20, 512, 512), 20);
    assert_eq!(together(64, 4096, 4096), 9);
    assert_eq!(together(64, 4096, 64 * 380), 2, "19 MB each");
    assert_eq!(together(64, 4096, 1 << 20), 1);
    assert_eq!(together(0, 0, 0), 1);
}

/// A loop that ends with its block takes half as long in the mean, and as many steps more as blocks are wider than steps.
#[test]
fn loops_that_grow_are_walked_as_far_as_their_blocks_go() {
    let of = |row: u32, size: usize| {
        let axis = |block: u32| GridAxis { dims: &[0], block };
        growth(Growing { steps: axis(128), along: axis(row) }, &Sizes::of(&[size, 0, 0]))
    };
    assert_eq!(of(128, 512), (1 + 2 + 3 + 4, 16));
    assert_eq!(of(192, 512), (2 + 3 + 4, 12));
    assert_eq!(of(128, 500), (10, 16));
    assert_eq!(of(64, 200), (1 + 1 + 2 + 2, 8));
    assert_eq!(of(128, 0), (1, 2));
    assert_eq!(of(1, 1 << 20), (1, 2), "too many to tell");
}

/// Code without other copies serves what TMA fetches, or what may be copied to where it does.
#[test]
fn what_tma_alone_fetches_is_aligned_or_copied() {
    let alone = Variant { by_tma: true, ..WIDE };
    assert!(said(&alone, [512, 512, 512], 0, false).is_some());
    assert!(said(&alone, [512, 512, 512], 1, false).is_none());
    assert!(says(&alone, [512, 512, 512], 1, true).realigned_to >= TMA_ALIGNMENT);
}

/// 128 tiles of 64 x 32 and whole sums, or 64 of 64 x 64 and sums that may be cut.
#[test]
fn few_rows_are_for_whole_sums_and_deep_rings() {
    const FETCHES: &[Fetch] = &[SMALL.cost.fetches[0], Fetch { bytes: 32 * 64 * 2, ..SMALL.cost.fetches[1] }];
    const FEW: &[StepCost] = &[StepCost { latency: 170, work: 170, over: STEPS }];
    const STEP: &[StepCost] = &[StepCost { latency: 234, work: 234, over: STEPS }];
    let split =
        Split { part_bytes: 4 * 64 * 64, most_parts: 16, over: &[], some_whole: true, shares: 1, weighted: false };
    let single = Cost { resident: 1, steps: STEP, ..SMALL.cost };
    let few = Variant {
        shared_bytes: 200 << 10,
        grid: &[GridAxis { dims: &[0], block: 64 }, GridAxis { dims: &[1], block: 32 }],
        cost: Cost { steps: FEW, fetches: FETCHES, ..single },
        ..SMALL
    };
    let deep = Variant { shared_bytes: 200 << 10, cost: single, split: Some(split), ..SMALL };
    let shallow = Variant { cost: Cost { resident: 2, ..single }, split: Some(split), ..SMALL };
    let [few, deep, shallow] = [few, deep, shallow].map(|variant| says(&variant, [64, 4096, 4096], 0, false));
    assert!(few.cycles < deep.cycles, "as many blocks, and nothing to join: {} {}", few.cycles, deep.cycles);
    assert!(deep.cycles < shallow.cycles, "more is under way: {} {}", deep.cycles, shallow.cycles);
}

#[test]
fn boxes_no_taller_than_a_tensor_bring_less() {
    const ROWS: GridAxis = GridAxis { dims: &[0], block: 64 };
    const SHORT: Option<Short> = Some(Short { axis: ROWS, spared: 100 });
    const FETCHES: &[Fetch] = &[Fetch { short: SHORT, ..SMALL.cost.fetches[0] }, SMALL.cost.fetches[1]];
    let cycles =
        |fetches, m| says(&Variant { cost: Cost { fetches, ..SMALL.cost }, ..SMALL }, [m, 4096, 4096], 0, false).cycles;
    assert!(cycles(FETCHES, 8) < cycles(SMALL.cost.fetches, 8));
    assert_eq!(cycles(FETCHES, 64), cycles(SMALL.cost.fetches, 64));
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
fn what_hides_all_ends_but_the_last_counts_that_once() {
    let ending = Variant { cost: Cost { ending: 1500, ..WIDE.cost }, ..WIDE };
    for sizes in [[128, 256, 64], [8192; 3]] {
        let longer = says(&ending, sizes, 0, false).cycles - says(&WIDE, sizes, 0, false).cycles;
        assert!((1450..=1500).contains(&longer), "{longer}: beside which the less shows of what memory takes");
    }
}

#[test]
fn warpgroups_without_a_second_tile_take_no_turns() {
    let in_turn = Variant { cost: Cost { alone: 10, ..WIDE.cost }, ..WIDE };
    let longer = |sizes| says(&in_turn, sizes, 0, false).cycles - says(&WIDE, sizes, 0, false).cycles;
    // Beside which the less shows of what memory takes.
    assert!((600..=10 * 64).contains(&longer([1024, 4096, 4096])), "128 tiles");
    assert_eq!(longer([2048, 4096, 4096]), 0, "256");
}

const NARROW: Variant = Variant {
    shared_bytes: 112 << 10,
    grid: &[GridAxis { dims: &[0], block: 128 }, GridAxis { dims: &[1], block: 64 }],
    cost: Cost {
        once: 1112,
        ending: 0,
        alone: 0,
        resident: 2,
        steps: &[StepCost { latency: 372, work: 272, over: STEPS }],
        fetches: &[WIDE.cost.fetches[0], Fetch { bytes: 64 * 64 * 2, ..WIDE.cost.fetches[1] }],
        growing: None,
    },
    ..WIDE
};
const WINDOWS: &[Window] = &[Window { tensor: 0, rows: 128, channels: 64, narrow: false, axes: &[] }];

#[test]
fn windows_are_better_walked_for_many_columns() {
    let sizes = [64 * 14 * 14, 256, 1024];
    let cycles = |variant: Variant| says(&variant, sizes, 0, false).cycles;
    assert!(cycles(NARROW) < cycles(WIDE), "98 wide tiles leave multiprocessors idle");
    let windowed = |variant| cycles(Variant { windows: WINDOWS, ..variant });
    assert!(windowed(NARROW) > windowed(WIDE), "the same windows are walked four times");
    assert!(windowed(WIDE) <= cycles(WIDE), "while a wide tile is multiplied, there is time");
}

#[test]
fn narrow_windows_are_sooner_walked() {
    const COLUMNS: GridAxis = GridAxis { dims: &[2], block: 64 };
    const FETCHES: &[Fetch] = &[Fetch { narrow: Some(COLUMNS), ..NARROW.cost.fetches[0] }, NARROW.cost.fetches[1]];
    let whole = Variant { windows: WINDOWS, ..NARROW };
    let narrow = Variant { cost: Cost { fetches: FETCHES, ..NARROW.cost }, ..whole };
    let cycles = |variant: &Variant, k| says(variant, [64 * 56 * 56, 64, k], 0, false).cycles;
    let saved = |k| cycles(&whole, k) - cycles(&narrow, k);
    assert!(saved(48) > 0 && saved(32) > saved(48));
    assert!(saved(16).abs_diff(saved(32)) < saved(32) / 10, "a row of 32 bytes takes as long as one of 64");
    assert_eq!(saved(64), 0);
}

#[test]
fn windows_of_pairs_are_for_what_is_slow_to_come_beside_them() {
    const FETCHES: &[Fetch] = &[NARROW.cost.fetches[0], Fetch { blocks: 2, ..NARROW.cost.fetches[1] }];
    let narrow = Variant { windows: WINDOWS, ..NARROW };
    let paired = Variant { cluster: 2, paired: Some(0), cost: Cost { fetches: FETCHES, ..NARROW.cost }, ..narrow };
    let both = |k| [&paired, &narrow].map(|variant| says(variant, [64 * 56 * 56, 64, k], 0, false).cycles);
    let [pairs, single] = both(576);
    assert!(pairs > single, "what they would save is less than they wait");
    let [pairs, single] = both(600);
    assert!(pairs < single, "rows of 1200 bytes, which are no whole lines");
}

#[test]
fn memory_bounds_what_few_rows_take() {
    // 235 MB at 3.9 TB/s: 60 µs of 1.75 GHz, whatever multiprocessors do.
    let split = Some(Split {
        part_bytes: 4 * 64 * 64,
        most_parts: 16,
        over: &[],
        some_whole: true,
        shares: 0,
        weighted: false,
    });
    let few = says(&Variant { split, ..SMALL }, [16, 28672, 4096], 0, false);
    assert!((105_000..180_000).contains(&few.cycles), "{}", few.cycles);
    assert_eq!(few.shares.parts, 1, "parts would be moved too");
    assert!(says(&Variant { split, ..SMALL }, [128, 1024, 8192], 0, false).shares.parts > 1);
}

#[test]
fn there_are_no_more_parts_than_steps_of_the_loop_that_is_cut() {
    let parts = |over: &'static [GridAxis]| {
        let split = Split { part_bytes: 16, most_parts: 1024, over, some_whole: false, shares: 0, weighted: false };
        says(&Variant { split: Some(split), ..SMALL }, [64, 64, 4096], 0, false).shares.parts
    };
    assert!(parts(&[]) > 2);
    assert_eq!(parts(&[GridAxis { dims: &[2], block: 2048 }]), 2, "others inside of it do not count");
}

#[test]
fn large_parts_take_longer_to_join() {
    let parts = |part_bytes: u32| {
        let split = Split { part_bytes, most_parts: 16, over: &[], some_whole: true, shares: 0, weighted: false };
        let wide = says(&Variant { split: Some(split), ..WIDE }, [128, 512, 16384], 0, false);
        (wide.shares.parts, wide.cycles)
    };
    let (large, small) = (parts(196_608), parts(131_072));
    assert!(large.0 < small.0 && large.1 > small.1, "{large:?} {small:?}");
}

/// Two tiles of 64 x 128, one above the other, walk the same weights.
#[test]
fn blocks_that_do_not_fetch_for_each_other_read_large_weights_again() {
    const fn fetches(blocks: u32) -> [Fetch; 2] {
        [
            Fetch { bytes: 64 * 64 * 2, ..WIDE.cost.fetches[0] },
            Fetch { bytes: 128 * 64 * 2, blocks, ..WIDE.cost.fetches[1] },
        ]
    }
    const ALONE: &[Fetch] = &fetches(1);
    const TOGETHER: &[Fetch] = &fetches(2);
    const SINGLE: Variant = Variant {
        grid: &[GridAxis { dims: &[0], block: 64 }, GridAxis { dims: &[1], block: 128 }],
        cost: Cost { steps: &[StepCost { latency: 360, work: 360, over: STEPS }], fetches: ALONE, ..WIDE.cost },
        ..WIDE
    };
    let paired = Variant { cluster: 2, paired: Some(0), cost: Cost { fetches: TOGETHER, ..SINGLE.cost }, ..SINGLE };
    let longer = |sizes| says(&SINGLE, sizes, 0, false).cycles as i64 - says(&paired, sizes, 0, false).cycles as i64;
    let pairing = PAIRING as i64;
    assert!(longer([128, 8192, 28672]) > 10 * pairing, "470 MB");
    assert!(longer([128, 8192, 4608]) <= 0, "75 MB, of which L2 holds what either block has yet to read");
    assert!(longer([128, 28672, 8192]) <= 0, "several waves, in which the pairs' tiles follow each other");
    assert!(longer([64, 8192, 28672]) <= 0, "one tile for all rows");
}

/// Rows of 8192 terms, 128 and 64 at a time.
#[test]
fn what_comes_a_line_at_a_time_takes_memory_longer() {
    const LONG: &[Fetch] =
        &[Fetch { row_bytes: 256, ..WIDE.cost.fetches[0] }, Fetch { row_bytes: 256, ..WIDE.cost.fetches[1] }];
    let long = Variant { cost: Cost { fetches: LONG, ..WIDE.cost }, ..WIDE };
    let longer = |sizes| says(&WIDE, sizes, 0, false).cycles as f64 / says(&long, sizes, 0, false).cycles as f64;
    assert!(longer([16, 28672, 8192]) > 1.02, "memory is what is waited for");
    assert!(longer([8192, 8192, 8192]) < 1.001, "products are");
}

/// A tenth of what memory moves, and as much.
#[test]
fn the_less_products_take_beside_memory_the_less_of_them_shows() {
    let shown = |work: u64| beside_memory(&WIDE, work, 10_000, 0) - 10_000;
    assert_eq!((shown(10_000), shown(1_000)), (3_000, 30));
    let threads = Variant { cost: Cost { fetches: &[], ..WIDE.cost }, ..WIDE };
    assert_eq!(beside_memory(&threads, 1_000, 10_000, 0), 10_700);
}

#[test]
fn what_memory_reads_again_shows_where_memory_is_waited_for() {
    let longer = |work: u64| beside_memory(&WIDE, work, 10_000, 1_000) - beside_memory(&WIDE, work, 10_000, 0);
    assert!(longer(4_000) > 900 && longer(10_500) < longer(4_000));
    assert_eq!(longer(11_000), 0, "products take as long as that");
}

#[test]
fn the_last_tile_of_warpgroups_in_turn_leaves_slowly_by_threads() {
    static STORING: KernelDef = KernelDef {
        tensors: &[
            input("a", 0, &[0, 2]),
            input("b", 1, &[1, 2]),
            TensorDef { reads: false, writes: true, ..input("c", 2, &[0, 1]) },
        ],
        ..KERNEL
    };
    const TURNS: Variant = Variant {
        cost: Cost { ending: 1152, ..WIDE.cost },
        args: &[
            WIDE.args[0],
            WIDE.args[1],
            Arg::TensorMap { tensor: 2, merged: 1, boxes: &[64, 64], narrow: false, short: false },
        ],
        ..WIDE
    };
    let of = |n: usize| {
        let tensor = |sizes: [usize; 2], pitch: usize| {
            let layout = Layout::strided(&sizes, &[pitch, 1]).unwrap();
            RawTensor::borrowing(Dtype::F16, layout, std::ptr::without_provenance_mut(0x1000), Device::cpu())
        };
        let (operand, result) = (tensor([1024, 1024], 1024), tensor([1024, 1024], n));
        let mut tensors = Tensors::new();
        [&operand, &operand, &result].into_iter().for_each(|tensor| tensors.push(tensor));
        let (alignments, gapless, skews) = (Alignments::of(&tensors), Gapless::of(&tensors), Skews::of(&tensors));
        let operands = Operands {
            kernel: &STORING,
            precomputed: &[],
            tensors: &tensors,
            alignments,
            gapless,
            skews,
            may_copy: false,
        };
        prediction(&TURNS, &Sizes::of(&[1024, 1024, 1024]), H200, &operands).map(|said| said.cycles)
    };
    let (by_tma, by_threads) = (of(1024).unwrap(), of(1028).unwrap());
    assert_eq!(by_threads - by_tma, STORED_BY_ONE * (128 * 256) / STORED_ELEMENTS);
}

#[test]
fn rows_are_walked_from_their_chunks_where_they_are_not_aligned() {
    const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 512 }];
    const ROWS: Variant = Variant {
        grid: &[GridAxis { dims: &[0], block: 4 }],
        cost: Cost {
            once: 1500,
            ending: 0,
            alone: 0,
            resident: 8,
            steps: &[StepCost { latency: 600, work: 64, over: STEPS }],
            fetches: &[],
            growing: None,
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
fn warps_without_columns_of_the_last_step_leave_it_out() {
    const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 4096 }];
    const ROWS: Variant = Variant {
        grid: &[GridAxis { dims: &[0], block: 1 }],
        cost: Cost {
            once: 0,
            ending: 0,
            alone: 0,
            resident: 4,
            steps: &[StepCost { latency: 900, work: 600, over: STEPS }],
            fetches: &[],
            growing: None,
        },
        ..Variant::of_source("rows", "", 256)
    };
    const SKEWED: Variant = Variant { skewed: &[0, 1], ..ROWS };
    let work = |variant: &Variant, columns| {
        unit_of(variant, &Sizes::of(&[4096, 4096, columns]), 1, ONE, &Alignments::of(&Tensors::new())).work
    };
    // 256 threads have the first vectors of 2048 columns.
    assert_eq!([4096, 4096 + 1024, 4096 + 2048, 8192].map(|columns| work(&SKEWED, columns)), [600, 900, 1200, 1200]);
    assert_eq!(work(&ROWS, 4096 + 1024), 1200, "steps whose edges are masked");
}

#[test]
fn rows_are_taken_in_turn_where_a_block_has_some() {
    const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 4096 }];
    const ALONE: Variant = Variant {
        grid: &[GridAxis { dims: &[0], block: 1 }],
        cost: Cost {
            once: 2300,
            ending: 0,
            alone: 0,
            resident: 4,
            steps: &[StepCost { latency: 900, work: 600, over: STEPS }],
            fetches: &[],
            growing: None,
        },
        skewed: &[0, 1],
        ..Variant::of_source("rows", "", 256)
    };
    const IN_TURN: Variant = Variant {
        persistent: true,
        longest: Some(GridAxis { dims: &[2], block: 32655 }),
        cost: Cost { once: 1400, resident: 1, ..ALONE.cost },
        ..ALONE
    };
    let cycles = |variant: &Variant, rows| says(variant, [rows, rows, 30_001], 0, true).cycles;
    assert!(cycles(&IN_TURN, 2048) < cycles(&ALONE, 2048), "slices are at hand");
    assert!(cycles(&IN_TURN, 128) > cycles(&ALONE, 128), "but have to come first");
}

#[test]
fn few_blocks_that_keep_rows_show_what_they_compute() {
    const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 8192 }];
    const ROWS: Variant = Variant {
        grid: &[GridAxis { dims: &[0], block: 1 }],
        cost: Cost {
            once: 2300,
            ending: 0,
            alone: 0,
            resident: 8,
            steps: &[StepCost { latency: 1600, work: 900, over: STEPS }],
            fetches: &[],
            growing: None,
        },
        kept: Some(Kept { columns: STEPS[0], block_bytes: 16 << 10, most_blocks: 14 }),
        skewed: &[0, 1],
        ..Variant::of_source("rows", "", 256)
    };
    const BY_MORE_THREADS: Variant =
        Variant { cost: Cost { steps: &[StepCost { latency: 900, work: 900, over: STEPS }], ..ROWS.cost }, ..ROWS };
    let gain = |columns| {
        let cycles = |variant: &Variant| says(variant, [1024, 1024, columns], 0, true).cycles;
        cycles(&ROWS) - cycles(&BY_MORE_THREADS)
    };
    assert!(gain(50_000) > 1000, "two rows at a time");
    assert_eq!(gain(8000), 0, "many");
}

#[test]
fn fewer_bytes_at_a_time_are_sooner_written() {
    const STEPS: &[GridAxis] = &[GridAxis { dims: &[2], block: 4096 }];
    const FEW: Variant = Variant {
        grid: &[GridAxis { dims: &[0], block: 1 }],
        cost: Cost {
            once: 500,
            ending: 0,
            alone: 0,
            resident: 4,
            steps: &[StepCost { latency: 100, work: 64, over: STEPS }],
            fetches: &[],
            growing: None,
        },
        longest: Some(GridAxis { dims: &[2], block: 16384 }),
        ..Variant::of_source("rows", "", 256)
    };
    const MANY: Variant = Variant { cost: Cost { resident: 8, ..FEW.cost }, ..FEW };
    let cycles = |variant: &Variant, rows| says(variant, [rows, rows, 12288], 0, true).cycles;
    assert!(cycles(&FEW, 4096) < cycles(&MANY, 4096), "memory bounds both");
    assert_eq!(cycles(&FEW, 128), cycles(&MANY, 128), "a row to a multiprocessor");
}
