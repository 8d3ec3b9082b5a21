//! Into how many parts sums are cut.

use super::*;

/// Blocks that wait for each other's parts have one unit each where units come from a queue.
#[test]
fn parts_that_wait_are_all_that_a_queue_has() {
    const COUNTED: &[Arg] = &[WIDE.args[0], WIDE.args[1], Arg::Taken];
    let split =
        Split { part_bytes: 4 * 128 * 256, most_parts: 16, over: &[], some_whole: true, shares: 4, weighted: false };
    let turns = Variant { split: Some(split), ..WIDE };
    let queue = Variant { args: COUNTED, ..turns };
    // 144 tiles for 132 multiprocessors.
    let shares = |variant: &Variant| says(variant, [128 * 12, 256 * 12, 16384], 0, false).shares;
    assert!(shares(&turns).whole == 132 && shares(&turns).parts > 1, "{:?}", shares(&turns));
    assert_eq!(shares(&queue), Shares::WHOLE);
    let few = |variant: &Variant| says(variant, [128 * 4, 256 * 4, 16384], 0, false).shares;
    assert!(few(&queue).whole == 0 && few(&queue).parts > 1);
    let alone = Variant { split: Some(Split { shares: 0, ..split }), ..queue };
    assert_eq!(shares(&alone).whole, 132, "who comes last waits for nobody");
}

#[test]
fn tiles_that_full_waves_leave_over_are_cut() {
    let split =
        Split { part_bytes: 4 * 128 * 256, most_parts: 16, over: &[], some_whole: true, shares: 0, weighted: false };
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
    let dealt =
        Split { part_bytes: 4 * 128 * 256, most_parts: 16, over: &[], some_whole: true, shares: 8, weighted: false };
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

/// Both blocks of a pair take the same part of neighbouring tiles.
#[test]
fn pairs_take_parts_as_pairs() {
    let dealt =
        Split { part_bytes: 4 * 128 * 256, most_parts: 16, over: &[], some_whole: true, shares: 8, weighted: false };
    let paired = Variant { cluster: 2, paired: Some(0), split: Some(dealt), ..WIDE };
    for sizes in [[5000; 3], [600, 7400, 3080], [3000; 3], [512, 512, 16384], [4096, 4104, 4096]] {
        let Shares { whole, parts } = says(&paired, sizes, 0, false).shares;
        let tiles = (2 * sizes[0].div_ceil(2 * 128) * sizes[1].div_ceil(256)) as u32;
        assert!(parts > 1, "{sizes:?}");
        assert!(whole.is_multiple_of(132) && (tiles - whole).is_multiple_of(2), "{sizes:?}: {whole} of {tiles}");
        assert!((tiles - whole) * parts <= 132, "{sizes:?}: {parts} parts run at a time");
    }
    assert_eq!(says(&paired, [4096; 3], 0, false).shares, Shares::WHOLE, "116 of 132 are left");
}

#[test]
fn small_parts_are_waited_for_as_long_as_larger_ones() {
    let of = |part_bytes| {
        let split = Split { part_bytes, most_parts: 16, over: &[], some_whole: true, shares: 1, weighted: false };
        let cost = Cost { resident: 1, ..SMALL.cost };
        says(&Variant { split: Some(split), cost, ..SMALL }, [32, 512, 8192], 0, false)
    };
    let (small, large) = (of(4 << 10), of(6 << 10));
    assert_eq!((small.shares.parts, large.shares.parts), (13, 13));
    // Reading them all would take 680.
    let longer = large.cycles - small.cycles;
    assert!(longer < 150, "they are left, and moved: {longer}");
}

#[test]
fn weights_of_parts_are_worth_many_steps() {
    let split =
        Split { part_bytes: 4 * 128 * 136, most_parts: 16, over: &[], some_whole: true, shares: 4, weighted: true };
    let parts =
        |split, terms| says(&Variant { split: Some(split), ..WIDE }, [1024, 1024, terms], 0, false).shares.parts;
    assert_eq!([1024, 4096].map(|terms| parts(split, terms)), [1, 4], "of 32 tiles");
    assert!(parts(Split { weighted: false, ..split }, 1024) > 1);
    let many = |split| says(&Variant { split: Some(split), ..WIDE }, [128 * 4096, 256, 2048], 0, false).shares.parts;
    assert_eq!(many(split), 1, "what 4 of 4096 tiles would save, all of them would lose");
    assert!(many(Split { weighted: false, ..split }) > 1);
}

/// Blocks that run after others bring their rows while those work.
#[test]
fn rows_are_cut_where_few_of_them_run_at_a_time() {
    let rows = Variant {
        grid: &[GridAxis { dims: &[0], block: 1 }],
        cost: Cost { fetches: &[], ..SMALL.cost },
        split: Some(Split { part_bytes: 48, most_parts: 16, over: &[], some_whole: false, shares: 0, weighted: true }),
        ..WIDE
    };
    let parts = |count, columns| says(&rows, [count, 1, columns], 0, false).shares.parts;
    assert_eq!(parts(2 * 2 * 132, 32000), 1, "twice as many as run at a time");
    assert!(parts(16, 1 << 20) > 1);
}
