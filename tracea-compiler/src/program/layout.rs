//! Which thread holds which element of a tile.
//!
//! The device headers carry each kind out (`layout.cuh`); lowering chooses the kind and its numbers.

use crate::nest::AxisId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutId(pub u32);

#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The `using` name in emitted code.
    pub name: String,
    pub kind: LayoutKind,
    /// `None` where the tile has one axis: a single row.
    pub row_axis: Option<AxisId>,
    pub col_axis: AxisId,
    pub rows: u32,
    pub cols: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// Accumulators of `mma.m16n8k16`, warps in a grid.
    Mma16816 { warps_m: u32, warps_n: u32 },
    /// Threads in a grid, `vec` neighbouring columns a thread; exact products accumulate in this one with `vec` 4.
    Blocked { threads_m: u32, threads_n: u32, vec: u32 },
    /// The same with rows of any length up to the tile's: aligned vectors, and the elements at a row's ends one by one. Of rows that a
    /// block takes in turn, threads hold vectors from a line of memory on, and go through so many before they look for the row's end.
    WholeRows { threads_m: u32, threads_n: u32, vec: u32, in_turn: Option<u32> },
}

impl Layout {
    /// Registers a thread.
    pub fn size(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_m, warps_n } => self.rows * self.cols / (32 * warps_m * warps_n),
            LayoutKind::Blocked { threads_m, threads_n, .. } => self.rows * self.cols / (threads_m * threads_n),
            LayoutKind::WholeRows { .. } => self.col_size(),
        }
    }

    /// Neighbouring columns that a thread holds beside each other.
    pub fn vec(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { .. } => 2,
            LayoutKind::Blocked { vec, .. } | LayoutKind::WholeRows { vec, .. } => vec,
        }
    }

    /// Of a row in turn, the columns that all threads go through before they look for its end.
    pub fn columns_at_once(&self) -> Option<u32> {
        match self.kind {
            LayoutKind::WholeRows { threads_n, vec, in_turn: Some(at_once), .. } => Some(at_once * threads_n * vec),
            _ => None,
        }
    }

    /// Slots of a row slice, and of a column slice, a thread.
    pub fn row_size(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_m, .. } => self.rows / warps_m / 8,
            LayoutKind::Blocked { threads_m, .. } | LayoutKind::WholeRows { threads_m, .. } => self.rows / threads_m,
        }
    }
    pub fn col_size(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_n, .. } => self.cols / warps_n / 4,
            LayoutKind::Blocked { threads_n, .. } => self.cols / threads_n,
            LayoutKind::WholeRows { threads_n, vec, .. } => self.cols / threads_n + (2 * (vec - 1)).div_ceil(threads_n),
        }
    }

    /// Whether a row slice of one is, register for register, a row slice of the other.
    pub fn shares_rows(&self, other: &Layout) -> bool {
        self.rows == other.rows
            && match (self.kind, other.kind) {
                (
                    LayoutKind::Mma16816 { warps_m: m1, warps_n: n1 },
                    LayoutKind::Mma16816 { warps_m: m2, warps_n: n2 },
                ) => (m1, n1) == (m2, n2),
                (
                    LayoutKind::Blocked { threads_m: m1, threads_n: n1, .. },
                    LayoutKind::Blocked { threads_m: m2, threads_n: n2, .. },
                )
                | (
                    LayoutKind::WholeRows { threads_m: m1, threads_n: n1, .. },
                    LayoutKind::WholeRows { threads_m: m2, threads_n: n2, .. },
                ) => (m1, n1) == (m2, n2),
                _ => false,
            }
    }

    /// Whether a column slice of one is, register for register, a column slice of the other.
    pub fn shares_cols(&self, other: &Layout) -> bool {
        self.cols == other.cols
            && match (self.kind, other.kind) {
                (
                    LayoutKind::Mma16816 { warps_m: m1, warps_n: n1 },
                    LayoutKind::Mma16816 { warps_m: m2, warps_n: n2 },
                ) => (m1, n1) == (m2, n2),
                (
                    LayoutKind::Blocked { threads_m: m1, threads_n: n1, vec: v1 },
                    LayoutKind::Blocked { threads_m: m2, threads_n: n2, vec: v2 },
                )
                | (
                    LayoutKind::WholeRows { threads_m: m1, threads_n: n1, vec: v1, .. },
                    LayoutKind::WholeRows { threads_m: m2, threads_n: n2, vec: v2, .. },
                ) => (m1, n1, v1) == (m2, n2, v2),
                _ => false,
            }
    }

    /// Groups of lanes that hold different columns of one row, and different rows of one column: what a reduction passes
    /// between them goes through shared memory.
    pub fn parts_along_cols(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_n, .. } => warps_n,
            LayoutKind::Blocked { threads_n, .. } | LayoutKind::WholeRows { threads_n, .. } => threads_n.div_ceil(32),
        }
    }
    pub fn parts_along_rows(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_m, .. } => warps_m,
            LayoutKind::Blocked { threads_m, threads_n, .. } | LayoutKind::WholeRows { threads_m, threads_n, .. } => {
                if threads_n < 32 {
                    threads_m * threads_n / 32
                } else {
                    threads_m
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, LayoutKind};
    use crate::nest::AxisId;

    fn layout(kind: LayoutKind, rows: u32, cols: u32) -> Layout {
        Layout { name: "Tile".into(), kind, row_axis: Some(AxisId(0)), col_axis: AxisId(1), rows, cols }
    }

    #[test]
    fn accumulators_share_a_tile_among_warps() {
        let tile = layout(LayoutKind::Mma16816 { warps_m: 2, warps_n: 4 }, 128, 64);
        assert_eq!((tile.size(), tile.row_size(), tile.col_size()), (32, 8, 4));
        assert_eq!((tile.parts_along_cols(), tile.parts_along_rows()), (4, 2));
    }

    #[test]
    fn grids_share_a_tile_among_threads() {
        let tile = layout(LayoutKind::Blocked { threads_m: 8, threads_n: 32, vec: 4 }, 16, 256);
        assert_eq!((tile.size(), tile.row_size(), tile.col_size()), (16, 2, 8));
        // A row lies within one warp; a column's rows lie in eight.
        assert_eq!((tile.parts_along_cols(), tile.parts_along_rows()), (1, 8));
        let long = layout(LayoutKind::Blocked { threads_m: 1, threads_n: 256, vec: 4 }, 1, 2048);
        assert_eq!((long.parts_along_cols(), long.parts_along_rows()), (8, 1));
        let tall = layout(LayoutKind::Blocked { threads_m: 64, threads_n: 4, vec: 4 }, 128, 16);
        assert_eq!((tall.parts_along_cols(), tall.parts_along_rows()), (1, 8));
    }

    #[test]
    fn whole_rows_have_slots_for_the_elements_at_their_ends() {
        let sizes = |threads_n, vec| {
            let tile =
                layout(LayoutKind::WholeRows { threads_m: 4, threads_n, vec, in_turn: None }, 4, 4 * threads_n * vec);
            (tile.size(), tile.row_size(), tile.col_size())
        };
        // Up to seven elements at each end, or three.
        assert_eq!([sizes(32, 8), sizes(8, 8), sizes(32, 4)], [(33, 1, 33), (34, 1, 34), (17, 1, 17)]);
    }

    #[test]
    fn slices_agree_where_the_same_threads_hold_them() {
        let grid = |threads_m, threads_n, vec, rows, cols| {
            layout(LayoutKind::Blocked { threads_m, threads_n, vec }, rows, cols)
        };
        let tile = grid(8, 32, 4, 16, 256);
        assert!(tile.shares_rows(&grid(8, 32, 8, 16, 512)));
        assert!(!tile.shares_rows(&grid(16, 16, 4, 16, 256)));
        assert!(tile.shares_cols(&grid(8, 32, 4, 64, 256)));
        assert!(!tile.shares_cols(&grid(8, 32, 8, 16, 256)));
        let mma = |warps_m, warps_n, rows, cols| layout(LayoutKind::Mma16816 { warps_m, warps_n }, rows, cols);
        assert!(mma(4, 1, 64, 32).shares_rows(&mma(4, 1, 64, 128)));
        assert!(!mma(4, 1, 64, 32).shares_rows(&mma(2, 2, 64, 32)));
        assert!(!mma(4, 1, 64, 32).shares_rows(&tile));
    }
}
