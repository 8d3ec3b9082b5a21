//! How blocks share out the terms of a sum, and how what they leave for each other lies in the workspace.

use crate::nest::{AxisId, ReduceOp};

/// A loop whose steps the launch may cut into parts, one a block: several blocks then sum up one tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub axis: AxisId,
    /// How the values that the loop carries are put together.
    pub ops: Vec<ReduceOp>,
    /// Names: which part this block has, of how many where its tile is one of those that are cut, and its first step.
    pub part: String,
    pub parts: String,
    /// Where the first tiles may be whole: then neighbours are tiles of one part, which share operands. With none, neighbours are the
    /// parts of a tile, and all tiles are cut alike.
    pub whole: Option<WholeTiles>,
    /// Into how many parts this block's tile is cut.
    pub parts_here: String,
    pub first: String,
    /// The tile's position in the grid.
    pub tile: String,
    /// Parameters: where parts are left, and how many blocks have come, by tile.
    pub workspace: String,
    pub arrived: String,
    /// Of a part, in the workspace.
    pub floats: u32,
    pub most_parts: u32,
    /// Into how many shares a tile is dealt out among its parts; 0 where the one that comes last puts it together.
    pub shares: u32,
}

/// Names: the parameters that say how many of the first tiles are whole, and divide by how many are cut; and what a block has to do.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeTiles {
    pub count: String,
    pub by_cut: String,
    pub work: String,
}

/// How a value lies in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Every register of every thread.
    Registers,
    /// One float a column, one a row, or one in all.
    Columns,
    Rows,
    Number,
}
