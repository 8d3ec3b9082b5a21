//! A thread grid for a tile that no dot anchors: neighbouring threads on neighbouring columns, wide reads, whole warps a row
//! where the row is long enough.

/// Threads down, threads across, and neighbouring columns a thread.
pub fn blocked(rows: u32, cols: u32, threads: u32, widest: u32) -> Option<(u32, u32, u32)> {
    let across = |limit: u32| (0..11).rev().map(|bit| 1 << bit).filter(move |n| *n <= limit);
    let mut vec = widest;
    while vec >= 1 {
        // A row within one warp reduces by shuffles alone; more threads a row only where there are too few rows.
        for threads_n in across(32).chain([64, 128, 256, 512, 1024]) {
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
    use super::{blocked, product};

    #[test]
    fn products_get_square_grids() {
        assert_eq!(product(128, 128, 256), Some((16, 16, 4)));
    }

    #[test]
    fn long_rows_get_a_warp_each() {
        assert_eq!(blocked(8, 1024, 256, 8), Some((8, 32, 8)));
    }

    #[test]
    fn one_row_gets_all_threads() {
        assert_eq!(blocked(1, 2048, 256, 8), Some((1, 256, 8)));
    }

    #[test]
    fn too_small_a_tile_has_no_layout() {
        assert_eq!(blocked(1, 16, 256, 8), None);
    }
}
