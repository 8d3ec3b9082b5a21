//! What threads keep in shared memory, each for itself, from where it is brought to where it is loaded.

use super::IntText;
use super::layout::LayoutId;
use super::shared::SharedId;
use crate::nest::{AxisId, Dtype};

/// Memory is read by whole chunks: a row that begins anywhere lies in one more of them than its bytes fill.
pub const CHUNK_BYTES: u32 = 16;

/// Rows that loops walk through: each thread keeps what it reads of them in shared memory, as far as that has room, so that
/// all of a row is under way at once, and read once. No thread looks at what another one keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRows {
    /// One of the axes whose loops read the rows; all of them have the same extent and block.
    pub axis: AxisId,
    /// The parameter that says how many columns of each row are kept, in whole blocks.
    pub columns: String,
    /// The name of the first column that this block reads, where that is not 0.
    pub origin: Option<String>,
    /// At most so many blocks of columns.
    pub most_blocks: u32,
    pub tiles: Vec<KeptTile>,
}

/// What is kept of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptTile {
    pub name: String,
    pub dtype: Dtype,
    pub layout: LayoutId,
    /// Whether one loop alone reads it.
    pub once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptId(pub usize);

/// Where a thread keeps its elements of a tile that it will load.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// Among the rows that loops walk through: as far as they are kept, or where all of a step is.
    Rows { tile: KeptId, surely: bool },
    /// In the slot of a stream, until the step that loads it.
    Slot { stream: SharedId, layout: LayoutId, slot: IntText },
    /// A column slice along whole rows, which all threads keep together; `name` says what each has of it, and where.
    Slice { name: String, shared: SharedId, layout: LayoutId },
    /// A whole row of those that a block takes in turn, in the slot of those under way; `ends` names the elements at their ends.
    Row { shared: SharedId, layout: LayoutId, slot: IntText, ends: String },
    /// A column slice of which each thread has its elements in registers, as they lie in memory.
    Held { name: String, layout: LayoutId },
    /// A column slice that each warpgroup fetches for itself before a loop, and reads after it.
    Early { shared: SharedId, layout: LayoutId },
}
