//! What the runtime needs in order to launch one lowered kernel: data, no code.
//!
//! `tracea_runtime::plan` has the same shape in `'static` form; expansion writes this one down as that one. Dims, tensors and
//! scalars are positions in the kernel's own lists ([`crate::nest::Nest`]).

use crate::nest::{IntOp, Nest};

/// One instance under one schedule for one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// `sm_80`.
    pub target: String,
    /// The schedule, printed as its attribute would be.
    pub schedule: String,
    /// Why this schedule: `pinned`, or the model's reason.
    pub why: String,
    /// The CUDA source. `#include "tracea/….cuh"` names device headers; device functions are put before it by the runtime
    /// at the line [`FUNCTIONS_MARK`].
    pub source: String,
    /// The `extern "C" __global__` symbol.
    pub entry: String,
    pub threads: u32,
    /// Blocks take one tile after another: no more are launched than multiprocessors hold.
    pub persistent: bool,
    /// TMA makes all copies: operands must be aligned as it wants them, or be copied first.
    pub by_tma: bool,
    /// May begin before the launch before it has ended: the code waits for that itself.
    pub awaits: bool,
    /// Blocks of a cluster, which the hardware runs side by side; 1 where they have nothing to do with each other. Grids are whole
    /// clusters: blocks past the last tile have none.
    pub cluster: u32,
    /// Which axis of the grid a cluster's blocks lie along, by its position, where they take neighbouring tiles and fetch for each other
    /// what these share. Where tiles along it make no whole clusters, the last blocks have none.
    pub paired: Option<usize>,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// Shared memory on top of that, as far as rows are long enough to need it.
    pub kept: Option<Kept>,
    /// Where the launch may cut the kernel's one loop into parts, one a block.
    pub split: Option<Split>,
    /// Thread blocks: the product over these, launched as a 1-D grid.
    pub grid: Vec<GridAxis>,
    /// What the model of [`crate::schedule::cost`] says of one block; the launcher ranks variants by it.
    pub cost: Cost,
    /// Kernel parameters in order.
    pub args: Vec<Arg>,
    /// Tensors whose alignment is baked in: `-DTRACEA_ALIGN_<TENSOR>=<bytes>` by position, the largest of 16, 8, 4, 2, 1 that divides the
    /// base address and every stride but the last, in bytes.
    pub aligned: Vec<usize>,
    /// Numbers of elements that count as addresses of a tensor too: rows of tiles begin or end so far within its rows.
    pub columns: Vec<Columns>,
    /// Whether the end of the last axis counts as an address too.
    pub whole_vectors: bool,
    /// Scalars of which the source takes as a constant whether they are positive and of ordinary size: `-DTRACEA_POSITIVE_<SCALAR>=1` says
    /// so.
    pub positive: Vec<usize>,
    /// Tensors that the code reads laid anew: the launch copies them first.
    pub relaid: Vec<Relaid>,
    /// Whether the code reads the instance's [`Precomputed`] operands, behind the kernel's own tensors: the launch computes them first.
    pub precomputed: bool,
    /// Dims, outermost first, whose product may be the size of the last of them while the others are 1: where tensors that have them,
    /// as their last axes, have no gaps along them.
    pub merged: Vec<usize>,
    /// Tensors of which the code takes several of the last axes as one, which must have no gaps.
    pub joined: Vec<Joined>,
    /// Tensors whose rows begin equally far past a multiple of eight elements, each of one with that of the others: what the code needs.
    pub skewed: Vec<usize>,
    /// An axis that the code takes in one step: it must not be longer than this block.
    pub longest: Option<GridAxis>,
    /// Windows of tensors that TMA fetches where it can: `-DTRACEA_WINDOW_<TENSOR>=1` says that it can for all windows of the tensor, 0
    /// that it cannot.
    pub windows: Vec<Window>,
    /// Bytes of registers and so on are the compiler's to report; these are what the plan promises.
    pub max_registers: u32,
    /// Substrings that the disassembly must show (`HMMA.16816.F32`, `LDGSTS`).
    pub promised_sass: Vec<String>,
}

/// One instance of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    pub variants: Vec<Variant>,
    pub precomputed: Vec<Precomputed>,
}

/// The kernel that computes an operand: its tensors are those of the kernel that reads it, up to the operand, which it writes.
#[derive(Clone, Debug)]
pub struct Precomputed {
    pub nest: Nest,
    pub variants: Vec<Variant>,
}

/// The line of a source that device functions replace.
pub const FUNCTIONS_MARK: &str = "// [device functions]";

/// So many of a tensor's last axes. What a plan says of the tensor's axes counts them as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub tensor: usize,
    pub axes: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    pub tensor: usize,
    pub number: Number,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GridAxis {
    /// Product of these dims.
    pub dims: Vec<usize>,
    /// Elements a block; 1 for `each`.
    pub block: u32,
}

/// Rows that threads keep in shared memory: so many bytes for each block of columns, for at most so many blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub columns: GridAxis,
    pub block_bytes: u32,
    pub most_blocks: u32,
}

/// What a part leaves in the workspace, and how many parts of a tile there may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub part_bytes: u32,
    pub most_parts: u32,
    /// The loop whose steps the parts are, where others inside of it run anew at each; with none, all steps that there are.
    pub over: Vec<GridAxis>,
    /// The first tiles may be left whole; otherwise all are cut alike.
    pub some_whole: bool,
    /// Blocks put a tile together between them, by so many shares, and wait for each other: all of them run at a time. 0 where the one
    /// that comes last does it alone.
    pub shares: u32,
    /// Some are sums relative to an extreme, of which whoever puts parts together makes each part's weight first.
    pub weighted: bool,
}

/// What one block takes of a multiprocessor, in clock cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// From its start to its end, where nothing is in a loop.
    pub once: u32,
    /// After its last tile, where what comes after the others is hidden.
    pub ending: u32,
    /// What each of the first of `steps` takes longer in a block that has no second tile, where warpgroups take turns.
    pub alone: u32,
    /// Blocks that a multiprocessor holds at a time, as far as registers and threads go.
    pub resident: u32,
    /// One entry for each product in a loop, or each loop without one.
    pub steps: Vec<StepCost>,
    /// Operands of products, which TMA brings where there is one and it can; threads copy them otherwise.
    pub fetches: Vec<Fetch>,
    /// Where a loop ends with the block of a grid's axis.
    pub growing: Option<Growing>,
}

/// A loop that takes longer from one block along a grid's axis to the next: it ends where the block does.
#[derive(Clone, Debug, PartialEq)]
pub struct Growing {
    pub steps: GridAxis,
    pub along: GridAxis,
}

/// One step of a loop over the blocks of these axes.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCost {
    /// Until the next step can begin, for a block on its own.
    pub latency: u32,
    /// Of the multiprocessor's whole rate: blocks that run beside each other add up.
    pub work: u32,
    pub over: Vec<GridAxis>,
}

/// A tile of a tensor that comes in each step of a loop over the blocks of these axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetch {
    pub tensor: usize,
    pub bytes: u32,
    /// Of them, those that lie side by side in memory.
    pub row_bytes: u32,
    /// Blocks that fetch it for each other by TMA.
    pub blocks: u32,
    /// Bytes of an element, where each comes by itself; 0 where rows do.
    pub scattered: u32,
    /// Boxes along this axis hold no more than there is; its block is what they hold at most.
    pub narrow: Option<GridAxis>,
    /// The same of their rows.
    pub short: Option<Short>,
    pub over: Vec<GridAxis>,
}

/// Rows of boxes, along an axis whose block is how many they hold at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Short {
    pub axis: GridAxis,
    /// Cycles that a step takes less where no row comes.
    pub spared: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Device address of a tensor (8 bytes).
    Pointer(usize),
    /// Stride of a tensor's axis in elements, i64.
    Stride(usize, usize),
    /// A dim's size, i32.
    Extent(usize),
    /// A scalar argument by position among the kernel's scalars: f32 or i32, 4 bytes.
    Scalar(usize),
    /// `struct FastDiv { unsigned divisor, multiplier, shift; }` for the product of dims, or for the number of blocks along a
    /// grid axis.
    DivideByDims(Vec<usize>),
    DivideByBlocks(GridAxis),
    /// The same for how many of these the last group has, where so many of them are a group.
    DivideByLastGroup(GridAxis, u32),
    /// How TMA reads a tensor (128 bytes): boxes of so many elements along each tensor axis, 128-byte swizzle, zeros outside.
    /// All zero where the tensor's alignment is under 16 bytes.
    TensorMap {
        tensor: usize,
        /// So many leading axes count as one, over the product of their sizes; their strides must allow it.
        merged: usize,
        /// One for each axis of the map.
        boxes: Vec<u32>,
        /// Along the last one no more than the tensor has, in whole chunks of 16 bytes.
        narrow: bool,
        /// Along the others no more than it has.
        short: bool,
    },
    /// The same, along all of the grid's axes but the last, for how many of the last blocks are visited together: the longest of all of them first.
    DivideByRowsTogether,
    /// Columns of each row that threads keep: whole blocks, i32.
    KeptColumns,
    /// Into how many parts the launch cuts a split loop, i32, and `struct FastDiv` for that.
    Parts,
    DivideByParts,
    /// How many of the first tiles are not cut into parts, i32, and `struct FastDiv` for how many of them are.
    WholeTiles,
    DivideByCutTiles,
    /// Device addresses of the room for parts, and of a count for each tile that is 0 between launches (8 bytes each).
    Workspace,
    Arrivals,
    /// Device address of how many units of work blocks have taken, which is 0 between launches (8 bytes).
    Taken,
    /// How TMA walks windows (128 bytes), by position in [`Variant::windows`]. All zero where it cannot.
    WindowMap(usize),
    /// [`WindowAxis::corner`] of a window's axis, i32.
    WindowCorner(usize, usize),
}

/// A tensor with this one of its axes last, which makes it the contiguous one; the others stay in order. What a plan says of the
/// tensor's axes counts them so.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaid {
    pub tensor: usize,
    pub last: usize,
    /// A result: the kernel writes it so, and the launch lays it out as it is afterwards.
    pub written: bool,
}

/// Rows along a flat axis that TMA's im2col mode reads from a tensor: the row of coordinates (n, p, q) lies at
/// `x[n, p * step + rest, q * step' + rest', ..]`, where each `rest` is the same for all rows of a tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub tensor: usize,
    /// Rows of a tile, and elements of the last axis that come at a time.
    pub rows: u32,
    pub channels: u32,
    /// No more of them than the tensor has, in whole chunks of 16 bytes.
    pub narrow: bool,
    /// One for each tensor axis but the first and the last.
    pub axes: Vec<WindowAxis>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WindowAxis {
    /// The dim that the rows run over along this axis.
    pub count: usize,
    /// Elements from one row to the next.
    pub step: Number,
    /// The least `rest` of all tiles, and how much greater the greatest is.
    pub corner: Number,
    pub reach: Number,
}

/// An integer that the launch works out.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    Const(i64),
    Dim(usize),
    /// An i32 argument by position among the kernel's scalars.
    Scalar(usize),
    Binary(IntOp, Box<Number>, Box<Number>),
}
