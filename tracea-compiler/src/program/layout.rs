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
}

impl Layout {
    /// Registers a thread.
    pub fn size(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_m, warps_n } => self.rows * self.cols / (32 * warps_m * warps_n),
            LayoutKind::Blocked { threads_m, threads_n, .. } => self.rows * self.cols / (threads_m * threads_n),
        }
    }

    /// Slots of a row slice, and of a column slice, a thread.
    pub fn row_size(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_m, .. } => self.rows / warps_m / 8,
            LayoutKind::Blocked { threads_m, .. } => self.rows / threads_m,
        }
    }
    pub fn col_size(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_n, .. } => self.cols / warps_n / 4,
            LayoutKind::Blocked { threads_n, .. } => self.cols / threads_n,
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
                ) => (m1, n1, v1) == (m2, n2, v2),
                _ => false,
            }
    }

    /// Groups of lanes that hold different columns of one row, and different rows of one column: what a reduction passes
    /// between them goes through shared memory.
    pub fn parts_along_cols(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_n, .. } => warps_n,
            LayoutKind::Blocked { threads_n, .. } => threads_n.div_ceil(32),
        }
    }
    pub fn parts_along_rows(&self) -> u32 {
        match self.kind {
            LayoutKind::Mma16816 { warps_m, .. } => warps_m,
            LayoutKind::Blocked { threads_m, threads_n, .. } if threads_n < 32 => threads_m * threads_n / 32,
            LayoutKind::Blocked { threads_m, .. } => threads_m,
        }
    }
}
