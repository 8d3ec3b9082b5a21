//! How blocks share out the terms of a sum, and how what they leave for each other lies in the workspace.

use super::{Expr, VarId};
use crate::nest::{AxisId, ReduceOp, ValueId};

/// A loop whose steps the launch may cut into parts, one a block: several blocks then sum up one tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub axis: AxisId,
    /// How the values that the loop carries are put together.
    pub ways: Vec<Rejoin>,
    /// Names: which part this block has, of how many where its tile is one of those that are cut, and its first step.
    pub part: String,
    pub parts: String,
    /// A parameter that divides by that.
    pub by_all_parts: String,
    /// Where the first tiles may be whole: then neighbours are tiles of one part, which share operands. With none, neighbours are the
    /// parts of a tile, and all tiles are cut alike.
    pub whole: Option<WholeTiles>,
    /// Into how many parts this block's tile is cut.
    pub parts_here: String,
    /// Which of its panels this block puts together, where it is dealt out.
    pub panels_here: String,
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

/// How parts of a value that a loop carries become the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejoin {
    Reduced(ReduceOp),
    /// A sum that is relative to the extreme at that position among what the loop carries, and fades by this as that changes.
    Relative {
        fade: ValueId,
        extreme: usize,
    },
}

/// What parts leave of a value, and where in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    pub var: VarId,
    /// None of a sum that is relative to an extreme.
    pub op: Option<ReduceOp>,
    pub part: Part,
    pub offset: u32,
}

/// How the blocks of its parts have a tile between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deal {
    pub panels: u32,
    /// Of each thread, in a panel; the last one of a row may have fewer.
    pub registers: u32,
    /// Parts of which a panel is read at a time.
    pub ahead: u32,
}

/// Sums that are relative to an extreme among what parts leave: each part's are multiplied by a weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Relative {
    pub extreme: Left,
    /// Registers of a part's own extreme, and of its weight, which this makes of that and of the extreme of all.
    pub own: VarId,
    pub weight: VarId,
    pub weigh: Expr,
    pub sums: Vec<Left>,
    /// Parts of which slices are read at a time.
    pub slices_at_a_time: u32,
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
