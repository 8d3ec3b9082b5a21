//! What threads do, statement by statement.

use super::layout::LayoutId;
use super::shared::SharedId;
use super::{
    Access, BulkCopy, BulkStore, ConditionId, Copy, Deal, Dot, Expr, IntText, Kept, Left, OwnId, PingPong, Relative,
    Stagger, Turn, VarId,
};
use crate::nest::{AxisId, Int, Predicate, ReduceOp, TensorId};

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
    /// `const int <name> = <number>;` for a number of a tensor's, which what follows in this body calls so.
    LookUp {
        name: String,
        number: Int,
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
    /// Blocks put the parts together between them, panel by panel, from these places in the workspace: each leaves what others put
    /// together, waits until all have come, and has then the sums of its own panels.
    DealParts {
        values: Vec<Left>,
        relative: Vec<Relative>,
        deal: Deal,
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
    /// What threads have of the rows under way beside what they keep of them: the elements at their ends.
    DeclareEnds {
        row: Kept,
    },
    /// A column slice that threads keep together → the registers of those that have its elements, under that name.
    HoldSlice {
        name: String,
        slice: Kept,
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
        /// Of a warpgroup's 64 rows; those of its next 64 follow.
        beside: u32,
        registers: u32,
        body: Vec<Stmt>,
        /// Where a cut tile is dealt out: by so many panels, of which a block has some.
        dealt: Option<u32>,
    },
    /// TMA is asked for the panel whose place is free once this one has been read, if the tile has it; or, before any, for the first ones.
    FetchOwn {
        own: OwnId,
        shared: SharedId,
        first: bool,
    },
    /// Until the panel that is to be read next has come.
    AwaitOwn(OwnId),
    /// A panel that a ring has brought, or that the warpgroup has fetched → its registers, converted.
    ReadPanel {
        target: VarId,
        shared: SharedId,
        slot: IntText,
        side: PanelSide,
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
    /// shared → global by the warpgroup's threads, each with so many chunks of a row on their way that lie across those of shared
    /// memory.
    StorePanel {
        staging: SharedId,
        target: Access,
        side: PanelSide,
        at_a_time: u32,
    },
    /// All units of work that are this block's, one after another.
    ForUnits(Vec<Stmt>),
    /// Where warpgroups have tiles of their own: unless this one's turn has come, the unit is the other one's, who counts so many.
    LeaveToOther {
        counter: String,
        by: IntText,
    },
    /// Producer: takes the next unit, and passes it to all of the block.
    TakeUnit,
    /// Which tile, and which part of it, this unit of work is; before all units, the first of this block's.
    Locate,
    /// The same again for what follows, where registers held other things meanwhile.
    LocateAnew,
    /// The same statements for the unit that this block takes so many turns later, if there is one.
    Ahead {
        turns: u32,
        body: Vec<Stmt>,
    },
    /// Until the column slices that the warpgroup has fetched before the loops have come.
    AwaitEarly,
    /// What TMA was asked to store has left shared memory.
    FinishStores,
    /// So many warpgroups issue products one after the other.
    PingPong(PingPong, u32),
    Stagger(Stagger),
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
    /// Whether the condition holds, in any thread of the warp, for any element of the slice: `const bool <name>`.
    Vote {
        name: String,
        condition: Expr,
        slice: VarId,
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
            | Stmt::Ahead { body, .. }
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
            | Stmt::Ahead { body, .. }
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
