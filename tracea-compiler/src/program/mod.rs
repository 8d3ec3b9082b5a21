//! A lowered kernel: what each block of threads does, statement by statement.
//!
//! Every choice (layout, buffer, stage, barrier, instruction kind) stands here in plain data; emitting is transliteration.
//! Integer expressions are the nest's own ([`Int`]): an axis in them means an element's coordinate, and the statement says
//! which registers or rows that coordinate comes from.

mod access;
mod bulk;
mod dot;
pub mod effects;
mod int_text;
mod kept;
pub mod layout;
pub mod order;
pub mod pressure;
pub mod print;
mod roles;
pub mod shared;
mod split;
mod units;

use crate::nest::{AxisId, BinaryOp, CompareOp, Dtype, Int, Predicate, ReduceOp, TensorId, UnaryOp};
use crate::plan;
pub use access::{Access, AccessForm, Copy, Held, Parts};
pub use bulk::{BulkCopy, BulkForm, BulkPart, BulkStore, Condition, ConditionId, Narrow, Premise, Short};
pub use dot::{Dot, Major, MathUnit, Operand};
pub use int_text::{Divisor, IntText};
pub use kept::{CHUNK_BYTES, Kept, KeptId, KeptRows, KeptTile};
use layout::{Layout, LayoutId};
pub use roles::{Alone, PingPong, Producer, Ring, RingId, RoleRegisters, Turn};
use shared::{Shared, SharedId};
pub use split::{Left, Part, Rejoin, Relative, Split, WholeTiles};
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
    /// The code serves tensors alone of which TMA fills all rings.
    pub by_tma: bool,
    /// Blocks that one multiprocessor is to hold at a time, as far as registers go.
    pub resident: u32,
    /// Where copying has threads of its own.
    pub producer: Option<Producer>,
    pub rings: Vec<Ring>,
    /// Constants of the source that say where TMA may copy.
    pub conditions: Vec<Condition>,
    /// Where consumers take turns: how many warpgroups.
    pub pingpong: Option<u32>,
    /// Integers that count a role's steps through its rings, from 0.
    pub counters: Vec<String>,
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
    /// Where blocks of the grid's two innermost axes are visited in groups: so many along the outer one, or so many clusters.
    pub raster: Option<u32>,
    /// Where blocks take longer and longer along the last axis: the parameter that says how many of the last ones along the others are visited
    /// together, the longest first.
    pub together: Option<String>,
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

#[derive(Clone, Debug, PartialEq)]
pub struct GridAxis {
    pub axis: AxisId,
    /// Elements a block; 1 for `each`.
    pub block: u32,
    /// From the last block to the first.
    pub descending: bool,
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

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Number(f64),
    Int(Int),
    Predicate(Predicate),
    /// A scalar parameter, by its position among the kernel's scalars.
    Param(usize),
    /// A variable read at the place that the enclosing domain is at: the same slot, or that slot's row or column.
    Var(VarId),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion with rounding to the type.
    Convert(Scalar, Box<Expr>),
    Call(String, Vec<Expr>),
    /// What a part has left of a value, at this place in the workspace.
    Left(Part, u32),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// Where the following statements stand in the user's source.
    Line(u32),
    Declare(VarId),
    /// Of a first operand in registers, as products read it.
    DeclareOperand(VarId),
    /// Rounds a tile to the operand's type and puts it there.
    Pack {
        value: VarId,
        operand: VarId,
    },
    /// `const int <name> = <value>;`
    Let {
        name: String,
        value: IntText,
    },
    /// For each register of the target's domain: `target = value`, where the condition holds.
    Map {
        target: VarId,
        value: Expr,
        unless_all: Option<Predicate>,
    },
    /// The block that comes last puts the parts together, from these places in the workspace; the others end here.
    JoinParts {
        values: Vec<Left>,
        relative: Vec<Relative>,
        /// What the others do before they end.
        leaving: Vec<Stmt>,
    },
    /// Blocks put the parts together between them, by so many panels, from these places in the workspace: each leaves what others put
    /// together, waits until all have come, and has then the sums of its own panels, for which it reads so many parts at a time.
    DealParts {
        values: Vec<Left>,
        relative: Vec<Relative>,
        panels: u32,
        ahead: u32,
    },
    /// Elements past the axis' end get a neutral value; skipped by blocks that lie inside.
    MaskEdge {
        target: VarId,
        axis: AxisId,
        identity: Identity,
        /// A tensor whose rows end where the axis does.
        rows: Option<TensorId>,
    },
    /// How far the thread's row, of that layout, begins past a multiple of a vector.
    FindSkew {
        layout: LayoutId,
        row: Access,
    },
    /// What the rows that threads hold whole consist of.
    FindParts {
        layout: LayoutId,
        row: Access,
    },
    /// global → shared
    Copy(Copy),
    Commit,
    Wait(u32),
    /// Until the first of the kept blocks has come whose columns, so many, are still to be waited for: each has been committed by itself.
    WaitKept {
        left: IntText,
        block: u32,
    },
    Barrier(Scope),
    /// Accesses of this thread to shared memory by the generic proxy, and those of others that it has waited for, come before
    /// accesses by the asynchronous one.
    Fence,
    /// One of two ways, by a constant of the source.
    Where {
        condition: ConditionId,
        body: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    /// Consumer: until the slot is full.
    WaitFull(Turn),
    /// Consumer: what passes by the ring has so many rows, and zeros in the others.
    ClearRows {
        turn: Turn,
        shared: SharedId,
        rows: IntText,
    },
    /// Consumer: the slot may be filled again.
    Release(Turn),
    /// Producer, each thread: until the slot is empty.
    Acquire(Turn),
    /// Producer: full once these copies have landed.
    Publish {
        turn: Turn,
        copies: Vec<Access>,
    },
    /// Producer, one thread: by TMA, which completes on the slot's barrier by itself. The thread waits until the slot is empty where others do
    /// not.
    Bulk {
        turn: Turn,
        copies: Vec<BulkCopy>,
        waits: bool,
    },
    /// One step further in the rings that the counter counts.
    Advance(String),
    /// Until at most so many issued products are under way; the results may be read.
    DotWait {
        pending: u32,
        results: Vec<VarId>,
    },
    /// global → registers; where a tile is kept, from what this thread keeps of it.
    Load {
        target: VarId,
        source: Access,
        kept: Option<Kept>,
    },
    /// What this thread's rows have for themselves of the places that the access will be to.
    HoldRows {
        layout: LayoutId,
        access: Access,
    },
    /// global → what this thread keeps of the tile, asynchronously.
    Keep {
        kept: Kept,
        source: Access,
    },
    /// registers → global
    Store {
        value: VarId,
        target: Access,
        way: StoreWay,
    },
    /// For each panel of a tile's columns, by straight-line code: what is inside reads and writes that panel's registers of tiles, so
    /// many. `panel` counts them.
    Panels {
        count: u32,
        registers: u32,
        body: Vec<Stmt>,
        /// Where a cut tile is dealt out: by so many panels, of which a block has some.
        dealt: Option<u32>,
    },
    /// A panel that a ring has brought → its registers, converted.
    ReadPanel {
        target: VarId,
        shared: SharedId,
        slot: IntText,
    },
    /// A tile that a ring has brought for products too → its registers, converted.
    ReadTile {
        target: VarId,
        shared: SharedId,
        slot: IntText,
    },
    /// The thread that sends panels: until TMA has read what this panel's place held.
    AwaitPanel {
        staging: SharedId,
    },
    /// The panel's registers → its place in shared memory.
    WritePanel {
        value: VarId,
        staging: SharedId,
        side: PanelSide,
    },
    /// shared → global by TMA, of which one thread asks it.
    SendPanel {
        staging: SharedId,
        store: BulkStore,
        side: PanelSide,
    },
    /// shared → global by the warpgroup's threads.
    StorePanel {
        staging: SharedId,
        target: Access,
        side: PanelSide,
    },
    /// All units of work that are this block's, one after another.
    ForUnits(Vec<Stmt>),
    /// Producer: takes the next unit, and passes it to all of the block.
    TakeUnit,
    /// Which tile, and which part of it, this unit of work is.
    Locate,
    /// What TMA was asked to store has left shared memory.
    FinishStores,
    /// So many warpgroups issue products one after the other.
    PingPong(PingPong, u32),
    Dot(Dot),
    Reduce {
        op: ReduceOp,
        value: VarId,
        target: VarId,
        along: Along,
    },
    /// What each thread holds of a tile's rows or columns, onto its own share of the running result.
    Fold {
        op: ReduceOp,
        value: VarId,
        target: VarId,
        along: Along,
    },
    /// Shares become the result, in all threads that hold it.
    Spread {
        op: ReduceOp,
        target: VarId,
        along: Along,
    },
    /// Same tile, other registers; through scratch. A transposed one is rounded to the target's type on its way.
    Exchange {
        value: VarId,
        target: VarId,
        transposed: bool,
    },
    /// global → global, by way of scratch: a tile of that layout's rows and columns as the transposed one.
    CopyTurned {
        source: Access,
        target: Access,
        rows: AxisId,
        cols: AxisId,
        layout: LayoutId,
    },
    /// Registers of a tile → a shared tile that a dot reads.
    Stage {
        value: VarId,
        shared: SharedId,
    },
    For {
        var: String,
        from: IntText,
        until: IntText,
        step: IntText,
        unroll: bool,
        body: Vec<Stmt>,
    },
    If {
        condition: IntText,
        body: Vec<Stmt>,
    },
    /// A step along skewed rows, the last of its loop's statements, for the threads that hold any of its columns; `columns` names those that
    /// exist.
    ByColumns {
        columns: String,
        axis: AxisId,
        layout: LayoutId,
        body: Vec<Stmt>,
    },
    /// For the ends of a thread's whole row, and for each of its vectors that exists, by straight-line code: what is inside reads and
    /// writes those registers of tiles and of column slices.
    ByParts {
        layout: LayoutId,
        body: Vec<Stmt>,
    },
}

/// How a tile's registers reach memory at once.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreWay {
    Direct,
    /// Through shared memory, so that rows are written by whole chunks.
    Staged(SharedId),
    /// The same through scratch.
    Scratch,
}

/// What the rows of a panel are, along which memory is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelSide {
    /// A warpgroup's 64 rows of the tile, 128 bytes of each.
    Rows,
    /// Some of the tile's columns, of each the warpgroup's 64 rows.
    Columns,
}

/// Whose accesses to shared memory a barrier puts in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Warp,
    Warpgroup,
    /// All threads that hold tiles.
    Tile,
}

impl Stmt {
    /// The statements inside of it.
    pub fn bodies(&self) -> Vec<&[Stmt]> {
        match self {
            Stmt::For { body, .. }
            | Stmt::ForUnits(body)
            | Stmt::If { body, .. }
            | Stmt::ByColumns { body, .. }
            | Stmt::ByParts { body, .. }
            | Stmt::Panels { body, .. } => vec![body],
            Stmt::Where { body, otherwise, .. } => vec![body, otherwise],
            Stmt::JoinParts { leaving, .. } => vec![leaving],
            _ => Vec::new(),
        }
    }

    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            Stmt::For { body, .. }
            | Stmt::ForUnits(body)
            | Stmt::If { body, .. }
            | Stmt::ByColumns { body, .. }
            | Stmt::ByParts { body, .. }
            | Stmt::Panels { body, .. } => vec![body],
            Stmt::Where { body, otherwise, .. } => vec![body, otherwise],
            Stmt::JoinParts { leaving, .. } => vec![leaving],
            _ => Vec::new(),
        }
    }
}

/// What a reduction runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// A tile's columns: one result a row.
    Cols,
    /// A tile's rows: one result a column.
    Rows,
    /// All slots of a row slice or column slice: one number.
    Slice,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Identity {
    Zero,
    NegInfinity,
    Infinity,
}

impl Identity {
    pub fn number(self) -> f64 {
        match self {
            Identity::Zero => 0.0,
            Identity::NegInfinity => f64::NEG_INFINITY,
            Identity::Infinity => f64::INFINITY,
        }
    }
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
    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.0 as usize]
    }
    pub fn layout(&self, id: LayoutId) -> &Layout {
        &self.layouts[id.0 as usize]
    }
    pub fn ring(&self, id: RingId) -> &Ring {
        &self.rings[id.0 as usize]
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
