//! A thread grid for a tile that no dot anchors: neighbouring threads on neighbouring columns, wide reads, whole warps a row
//! where the row is long enough.

/// Threads down, threads across, and neighbouring columns a thread; a row is to have so many warps.
pub fn blocked(rows: u32, cols: u32, threads: u32, warps: u32, widest: u32) -> Option<(u32, u32, u32)> {
    let across = |limit: u32| (0..11).rev().map(|bit| 1 << bit).filter(move |n| *n <= limit);
    let mut vec = widest;
    while vec >= 1 {
        // A row within one warp reduces by shuffles alone; more threads a row only where there are too few rows.
        for threads_n in across(32 * warps).chain([64, 128, 256, 512, 1024]) {
            if !threads.is_multiple_of(threads_n) {
                continue;
            }
            let threads_m = threads / threads_n;
            if rows.is_multiple_of(threads_m) && cols.is_multiple_of(threads_n * vec) {
                return Some((threads_m, threads_n, vec));
            }
        }
        vec /= 2;
    }
    None
}

/// The same where each row of threads holds one row of the tile.
pub fn whole_rows(rows: u32, cols: u32, threads: u32, widest: u32) -> Option<(u32, u32, u32)> {
    let threads_n = threads / rows;
    let shared = threads.is_multiple_of(rows) && threads_n.is_power_of_two() && cols.is_multiple_of(threads_n);
    let vec =
        (0..4).rev().map(|bit| 1 << bit).find(|vec| *vec <= widest && (cols / threads_n.max(1)).is_multiple_of(*vec));
    vec.filter(|_| shared).map(|vec| (rows, threads_n, vec))
}

/// A thread grid for exact products: as square as it goes, so that a thread reads few operands for its products.
pub fn product(rows: u32, cols: u32, threads: u32) -> Option<(u32, u32, u32)> {
    (0..11)
        .map(|bit| 1 << bit)
        .filter(|threads_n| threads.is_multiple_of(*threads_n) && cols.is_multiple_of(threads_n * 4))
        .map(|threads_n| (threads / threads_n, threads_n))
        .filter(|(threads_m, _)| rows.is_multiple_of(*threads_m))
        .min_by_key(|(threads_m, threads_n)| rows / threads_m + cols / threads_n)
        .map(|(threads_m, threads_n)| (threads_m, threads_n, 4))
}

#[cfg(test)]
mod tests {
    use super::{blocked, product, whole_rows};
    use proptest::prelude::*;

    #[test]
    fn products_get_square_grids() {
        assert_eq!(product(128, 128, 256), Some((16, 16, 4)));
    }

    #[test]
    fn long_rows_get_a_warp_each() {
        assert_eq!(blocked(8, 1024, 256, 1, 8), Some((8, 32, 8)));
    }

    #[test]
    fn one_row_gets_all_threads() {
        assert_eq!(blocked(1, 2048, 256, 1, 8), Some((1, 256, 8)));
    }

    #[test]
    fn rows_that_share_all_threads() {
        assert_eq!(blocked(2, 2048, 256, 8, 8), Some((1, 256, 8)));
    }

    #[test]
    fn too_small_a_tile_has_no_layout() {
        assert_eq!(blocked(1, 16, 256, 1, 8), None);
    }

    #[test]
    fn whole_rows_have_a_row_of_threads_each() {
        assert_eq!(whole_rows(4, 1024, 128, 8), Some((4, 32, 8)));
        assert_eq!(whole_rows(16, 256, 128, 8), Some((16, 8, 8)));
        assert_eq!(whole_rows(1, 4096, 128, 4), Some((1, 128, 4)));
        assert_eq!(whole_rows(3, 1024, 128, 8), None);
    }

    #[test]
    fn few_long_rows_take_more_threads_each() {
        assert_eq!(blocked(2, 4096, 256, 1, 4), Some((2, 128, 4)));
    }

    #[test]
    fn columns_that_no_vector_divides_go_one_by_one() {
        assert_eq!(blocked(64, 33, 64, 1, 8), Some((64, 1, 1)));
    }

    #[test]
    fn products_need_columns_by_fours() {
        assert_eq!(product(64, 6, 32), None);
    }

    proptest! {
        #[test]
        fn every_thread_holds_as_much_as_any_other(
            rows in 1u32..300, cols in 1u32..2100, warps in 1u32..33, widest in prop::sample::select(vec![1u32, 2, 4, 8]),
        ) {
            if let Some((threads_m, threads_n, vec)) = blocked(rows, cols, 32 * warps, 1, widest) {
                prop_assert_eq!(threads_m * threads_n, 32 * warps);
                prop_assert!(threads_n.is_power_of_two() && vec <= widest);
                prop_assert!(rows.is_multiple_of(threads_m) && cols.is_multiple_of(threads_n * vec));
            }
        }

        #[test]
        fn powers_of_two_always_have_a_layout(rows in 0u32..9, cols in 0u32..12, warps in 0u32..5) {
            let (tile, threads) = ((1u32 << rows) * (1 << cols), 32u32 << warps);
            prop_assert_eq!(blocked(1 << rows, 1 << cols, threads, 1, 8).is_some(), tile >= threads);
        }

        #[test]
        fn products_share_evenly(rows in 1u32..300, cols in 1u32..300, warps in 1u32..17) {
            if let Some((threads_m, threads_n, vec)) = product(rows, cols, 32 * warps) {
                prop_assert_eq!((threads_m * threads_n, vec), (32 * warps, 4));
                prop_assert!(rows.is_multiple_of(threads_m) && cols.is_multiple_of(threads_n * vec));
            }
        }
    }
}
