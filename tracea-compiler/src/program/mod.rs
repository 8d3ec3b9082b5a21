//! A lowered kernel: what each block of threads does, statement by statement.
//!
//! Every choice (layout, buffer, stage, barrier, instruction kind) stands here in plain data; emitting is transliteration.
//! Integer expressions are the nest's own ([`Int`](crate::nest::Int)): an axis in them means an element's coordinate, and the statement says
//! which registers or rows that coordinate comes from.

mod access;
mod bulk;
mod dot;
pub mod effects;
mod expr;
mod int_text;
mod kept;
pub mod layout;
pub mod order;
pub mod pressure;
pub mod print;
mod roles;
pub mod shared;
mod split;
mod stmt;
mod units;

use crate::nest::{AxisId, Dtype, TensorId};
use crate::plan;
use crate::schedule::WARPGROUP;
pub use access::{Access, AccessForm, Copy, Held, Parts};
pub use bulk::{BulkCopy, BulkForm, BulkPart, BulkStore, Condition, ConditionId, Narrow, Premise, Short};
pub use dot::{Beside, Dot, Major, MathUnit, Operand};
pub use expr::{Expr, When, is_ordinary};
pub use int_text::{Divisor, IntText, TurnPart};
pub use kept::{CHUNK_BYTES, Kept, KeptId, KeptRows, KeptTile};
use layout::{Layout, LayoutId, LayoutKind};
pub use roles::{Alone, Counter, OwnId, OwnPanels, PingPong, Producer, Ring, RingId, RoleRegisters, Stagger, Turn};
use shared::{Shared, SharedId};
pub use split::{Deal, Left, Part, Rejoin, Relative, Split, WholeTiles};
pub use stmt::{Along, Identity, PanelSide, Scope, Stmt, StoreWay};
pub use units::{Queue, Units};

#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub kernel: String,
    pub entry: String,
    pub target: String,
    pub schedule: String,
    pub file: String,
    /// Threads that hold tiles; a producer's come on top.
    pub threads: u32,
    /// Which tiles, or parts of tiles, a block takes.
    pub units: Units,
    /// Each role works out for itself how many units there are.
    pub roles_count_units: bool,
    /// The code serves tensors alone of which TMA fills all rings.
    pub by_tma: bool,
    /// Blocks that one multiprocessor is to hold at a time, as far as registers go.
    pub resident: u32,
    /// Where copying has threads of its own.
    pub producer: Option<Producer>,
    pub rings: Vec<Ring>,
    /// What warpgroups fetch for themselves.
    pub own: Vec<OwnPanels>,
    /// Constants of the source that say where TMA may copy.
    pub conditions: Vec<Condition>,
    /// Where consumers take turns: how many warpgroups.
    pub pingpong: Option<u32>,
    /// Each warpgroup of consumers has tiles of its own: every so many-th unit of a block.
    pub apart: bool,
    /// What a role counts as it goes, from 0.
    pub counters: Vec<Counter>,
    pub names: Names,
    /// Axes whose limit is a variable of its own, not their extent.
    pub limited: Vec<AxisId>,
    /// Block size of each axis that has one, in axis order.
    pub blocks: Vec<(AxisId, u32)>,
    pub params: Vec<Param>,
    /// Tensors that the launch lays anew; what stands here of their axes means those of the copies.
    pub relaid: Vec<plan::Relaid>,
    /// Dims, outermost first, that the launch may take as one: tensors that have any have all of them, last and in this order.
    pub merged: Vec<usize>,
    /// Tensors of which several of the last axes are one; what stands here of their axes counts them so.
    pub joined: Vec<plan::Joined>,
    /// Rows that are walked from the chunks of memory in which they begin.
    pub skew: Option<Skew>,
    pub whole: Option<WholeRows>,
    /// What the parameters that describe windows to TMA are made of.
    pub windows: Vec<plan::Window>,
    /// What boxes fill that may be narrower than it.
    pub narrow: Vec<Narrow>,
    /// What boxes fill that may be shorter than it.
    pub short: Vec<Short>,
    pub grid: Vec<GridAxis>,
    /// Where blocks of the grid's two innermost axes are visited in groups.
    pub raster: Option<Raster>,
    /// Where blocks take longer and longer along the last axis.
    pub together: Option<Together>,
    pub cluster: Option<Cluster>,
    pub layouts: Vec<Layout>,
    pub shared: Vec<Shared>,
    /// Where reductions and exchanges pass values between warps: offset and size in bytes.
    pub scratch: (u32, u32),
    /// Where the rings' barriers begin.
    pub barriers_offset: u32,
    /// How a sum's terms are shared out among blocks.
    pub split: Option<Split>,
    /// What threads keep of the rows that loops walk through.
    pub kept: Option<KeptRows>,
    pub shared_bytes: u32,
    pub vars: Vec<Var>,
    pub body: Vec<Stmt>,
    /// Tensors whose alignment is a compile-time constant of the source.
    pub aligned: Vec<TensorId>,
    pub columns: Vec<crate::plan::Columns>,
    /// Scalars of which the source takes as a constant whether they are positive.
    pub positive: Vec<usize>,
    /// Alignments count rows' ends too, so that no edge cuts a vector.
    pub whole_vectors: bool,
    /// Tensors whose alignment narrows the vectors of threads' neighbouring columns.
    pub narrowing: Vec<TensorId>,
    pub promised_sass: Vec<String>,
}

/// Blocks that run side by side and take tiles that are neighbours along an axis of the grid, by their rank; where these are an odd
/// number, the last one lies outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub axis: AxisId,
    pub blocks: u32,
}

/// Rows that begin anywhere: how far past a multiple of a vector, the thread's row says. Their columns are counted from there.
#[derive(Clone, Debug, PartialEq)]
pub struct Skew {
    /// The variable that says so.
    pub name: String,
    /// Axes of the loops over their columns.
    pub columns: Vec<AxisId>,
    /// Tensors whose rows these are, and lie alike.
    pub tensors: Vec<TensorId>,
}

/// Rows that threads hold whole.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeRows {
    /// The variable that says what a thread's row consists of.
    pub name: String,
    /// Along which axis, of how many elements at most.
    pub axis: AxisId,
    pub longest: u32,
    /// Tensors whose rows these are, and lie alike.
    pub tensors: Vec<TensorId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub name: String,
    pub ty: ParamType,
    pub arg: plan::Arg,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamType {
    /// `const T* __restrict__`, or without `const` for an output.
    Pointer {
        dtype: Dtype,
        mutable: bool,
    },
    Stride,
    Int,
    Float,
    FastDiv,
    TensorMap,
    /// `float*`.
    Workspace,
    /// `unsigned*`: of what has come for each tile, or of units that are taken.
    Counts,
}

/// In which order blocks of the grid's two innermost axes are visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raster {
    /// Blocks along the outer axis, or clusters of them, that make a group.
    pub rows: u32,
    /// Columns of a group that are visited together, row by row.
    pub strip: u32,
    /// Parameters that divide by how many blocks there are along the inner axis, and by how many rows the last group has.
    pub by_cols: String,
    pub by_last_group: String,
}

/// Blocks of several rows that are visited together, the longest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// Parameters that divide by how many blocks there are along the last axis, and by how many rows are visited together.
    pub by_cols: String,
    pub by_rows: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GridAxis {
    pub axis: AxisId,
    /// Elements a block; 1 for `each`.
    pub block: u32,
    /// How many blocks there are along the axis, or clusters of them.
    pub by: Divisor,
    /// From the last block to the first.
    pub descending: bool,
    pub last_tile: Option<LastTile>,
}

/// The last block along an axis begins where it ends with the axis, unless that is shorter, and so overlaps the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct LastTile {
    /// Where this holds.
    pub by_tma: ConditionId,
    /// What parameters say of sums that may be cut, where tiles of them are alike.
    pub cut: Vec<AlikeIf>,
}

/// Two tiles add up the parts of a sum in the same order, to the last bit.
#[derive(Clone, Debug, PartialEq)]
pub enum AlikeIf {
    /// No tile is whole, by the name of their number: then all are cut.
    NoneIsWhole(String),
    /// There are at most two parts, by the name of their number: where each block begins with its own, others come in another order.
    AtMostTwo(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

/// Registers of one thread: an array over a layout's slots, or one number.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    pub name: String,
    pub ty: Scalar,
    pub domain: Domain,
}

/// C++ types of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    F16,
    Bf16,
    Tf32,
    Float,
    Int,
    Bool,
}

/// Over which registers a value or a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    Tile(LayoutId),
    /// One value a row of the layout, replicated over the threads that share the row.
    Rows(LayoutId),
    Cols(LayoutId),
    Once,
}

/// A name for each thing in the nest, as emitted code spells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    pub tensors: Vec<String>,
    pub dims: Vec<String>,
    pub scalars: Vec<String>,
    /// A scalar loop's variable, and the stem of a tiled axis' start (`k0`) and limit (`k_end`).
    pub axes: Vec<String>,
}

impl Program {
    /// Threads that hold a tile together.
    pub fn tile_threads(&self) -> u32 {
        if self.apart { WARPGROUP } else { self.threads }
    }

    /// Of consumers: how far a warpgroup's blocks of 64 rows of a tile lie from each other, where it has several.
    pub fn rows_apart(&self) -> Option<u32> {
        self.layouts.iter().find_map(|layout| match layout.kind {
            LayoutKind::Mma16816 { warps_m, .. } if layout.rows > 16 * warps_m => Some(16 * warps_m),
            _ => None,
        })
    }

    /// Whether a role counts the turns of more rings than one, for each of which it has a register then.
    pub fn counts_several_turns(&self) -> bool {
        self.counters.iter().filter(|counter| matches!(counter, Counter::Turns { .. })).count() > 1
    }

    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.0 as usize]
    }
    pub fn layout(&self, id: LayoutId) -> &Layout {
        &self.layouts[id.0 as usize]
    }
    pub fn ring(&self, id: RingId) -> &Ring {
        &self.rings[id.0 as usize]
    }
    pub fn own(&self, id: OwnId) -> &OwnPanels {
        &self.own[id.0 as usize]
    }
    pub fn shared(&self, id: SharedId) -> &Shared {
        &self.shared[id.0 as usize]
    }
    pub fn kept(&self, id: KeptId) -> Option<&KeptTile> {
        self.kept.as_ref().and_then(|rows| rows.tiles.get(id.0))
    }
    /// Bytes that all threads keep of a tile.
    pub fn kept_bytes(&self, tile: &KeptTile) -> u32 {
        let layout = self.layout(tile.layout);
        layout.rows * layout.cols * tile.dtype.bytes()
    }
    pub fn block(&self, axis: AxisId) -> Option<u32> {
        self.blocks.iter().find(|(a, _)| *a == axis).map(|(_, b)| *b)
    }
}

/// The parameter that holds a tensor's stride along an axis.
pub fn stride_name(tensor: &str, axis: usize) -> String {
    format!("{tensor}_stride{axis}")
}

/// The parameter that tells TMA of a tensor's boxes of so many rows.
pub fn map_name(tensor: &str, rows: u32) -> String {
    format!("{tensor}_map{rows}")
}
