//! A lowered kernel as expansion leaves it in the binary: source text and the data that a launch needs.
//!
//! Dims, tensors and scalars are positions in [`KernelDef`]'s lists.

use crate::dtype::Dtype;
use crate::launch::KernelSlot;

/// Everything about one `#[kernel]` function that does not depend on its type arguments.
#[derive(Debug)]
pub struct KernelDef {
    pub name: &'static str,
    pub file: &'static str,
    pub line: u32,
    pub dims: &'static [DimDef],
    pub tensors: &'static [TensorDef],
    pub scalars: &'static [ScalarDef],
    /// Names of the generics and flags that pick an instance (`D`, `causal`, `T`), in the attribute's order.
    pub selectors: &'static [&'static str],
    pub instances: &'static [Instance],
}

#[derive(Debug)]
pub struct DimDef {
    pub name: &'static str,
    /// Fixed by the kernel's own types (`Const<3>` in a tensor's type).
    pub known: Option<usize>,
}

#[derive(Debug)]
pub struct TensorDef {
    pub name: &'static str,
    /// Position among the function's arguments.
    pub position: usize,
    /// `None` where a dtype generic decides.
    pub dtype: Option<Dtype>,
    /// Dims by position in [`KernelDef::dims`], one for each axis; a selector's constant (`Const<D>`) is a dim too.
    pub dims: &'static [usize],
    pub reads: bool,
    pub writes: bool,
}

#[derive(Debug)]
pub struct ScalarDef {
    pub name: &'static str,
    pub position: usize,
    pub dtype: Dtype,
}

#[derive(Debug)]
pub struct Instance {
    /// One for each selector.
    pub key: &'static [Key],
    /// Sizes that the instance fixes, by dim.
    pub known_dims: &'static [(usize, usize)],
    pub variants: &'static [Variant],
    /// Operands of products that some variants read as tensors, behind the kernel's own.
    pub precomputed: &'static [Precomputed],
    /// Tensors, by position, that the kernel writes in other instances alone.
    pub unwritten: &'static [usize],
    pub functions: &'static [Function],
}

impl Instance {
    /// The tensor at a position, of the kernel's own or of the operands that the launch computes.
    pub fn tensor(&self, kernel: &KernelDef, position: usize) -> Option<&'static TensorDef> {
        let operands = self.precomputed.iter().filter_map(Precomputed::operand);
        kernel.tensors.iter().chain(operands).nth(position)
    }
}

/// The kernel that computes an operand: its tensors and scalars are those of the kernel that reads it, up to the operand, which it
/// writes. It has one instance.
#[derive(Debug)]
pub struct Precomputed {
    pub kernel: &'static KernelDef,
    pub slot: &'static KernelSlot,
}

impl Precomputed {
    pub fn operand(&self) -> Option<&'static TensorDef> {
        self.kernel.tensors.last()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Int(i64),
    Bool(bool),
    Dtype(Dtype),
}

/// A `#[device]` function under the name that the kernel's source calls it by.
#[derive(Debug)]
pub struct Function {
    pub alias: &'static str,
    pub def: &'static FunctionDef,
}

/// The CUDA text of a `#[device]` function. In `source`, `$name` stands for the function's own symbol and `$<alias>` for that of a
/// function in `uses`.
#[derive(Debug)]
pub struct FunctionDef {
    pub source: &'static str,
    pub uses: &'static [Function],
}

/// One instance under one schedule for one target.
#[derive(Debug)]
pub struct Variant {
    /// `sm_80`, `sm_90a`.
    pub target: &'static str,
    pub schedule: &'static str,
    pub why: &'static str,
    pub source: &'static str,
    pub entry: &'static str,
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
    pub grid: &'static [GridAxis],
    /// What the compiler's model says of one block; variants for one target are ranked by it.
    pub cost: Cost,
    /// Kernel parameters in order.
    pub args: &'static [Arg],
    /// Tensors whose alignment is baked in as `-DTRACEA_ALIGN_<TENSOR>=<bytes>` by position: the largest of 16, 8, 4, 2, 1 that divides
    /// the base address and every stride but the last, in bytes.
    pub aligned: &'static [usize],
    /// Numbers of elements that count as addresses of a tensor too: rows of tiles begin or end so far within its rows.
    pub columns: &'static [Columns],
    /// Whether the end of the last axis counts as an address too.
    pub whole_vectors: bool,
    /// Scalars of which the source takes as a constant whether they are positive and of ordinary size: `-DTRACEA_POSITIVE_<SCALAR>=1` says
    /// so.
    pub positive: &'static [usize],
    /// Tensors that the code reads laid anew: the launch copies them first.
    pub relaid: &'static [Relaid],
    /// Whether the code reads the instance's [`Precomputed`] operands: the launch computes them first.
    pub precomputed: bool,
    /// Dims, outermost first, whose product may be the size of the last of them while the others are 1: where tensors that have them,
    /// as their last axes, have no gaps along them.
    pub merged: &'static [usize],
    /// Tensors of which the code takes several of the last axes as one, which must have no gaps.
    pub joined: &'static [Joined],
    /// Tensors whose rows begin equally far past a multiple of eight elements, each of one with that of the others: what the code needs.
    pub skewed: &'static [usize],
    /// An axis that the code takes in one step: it must not be longer than this.
    pub longest: Option<GridAxis>,
    /// Windows of tensors that TMA fetches where it can: `-DTRACEA_WINDOW_<TENSOR>=1` says that it can for all windows of the tensor, 0
    /// that it cannot.
    pub windows: &'static [Window],
    pub max_registers: u32,
    /// Substrings that the disassembly must show.
    pub promised_sass: &'static [&'static str],
}

impl Variant {
    /// A function of a source: for sm_80 and newer, with nothing that a launch would have to work out.
    pub const fn of_source(entry: &'static str, source: &'static str, threads: u32) -> Variant {
        Variant {
            target: "sm_80",
            schedule: "",
            why: "",
            source,
            entry,
            threads,
            persistent: false,
            by_tma: false,
            awaits: false,
            cluster: 1,
            paired: None,
            shared_bytes: 0,
            kept: None,
            split: None,
            grid: &[],
            cost: Cost { once: 0, ending: 0, alone: 0, resident: 1, steps: &[], fetches: &[], growing: None },
            args: &[],
            aligned: &[],
            columns: &[],
            whole_vectors: false,
            positive: &[],
            relaid: &[],
            precomputed: false,
            merged: &[],
            joined: &[],
            skewed: &[],
            longest: None,
            windows: &[],
            max_registers: 255,
            promised_sass: &[],
        }
    }

    /// Whether each block takes one whole row after another: all of them must begin equally far past a multiple of eight elements.
    pub fn takes_rows_in_turn(&self) -> bool {
        self.persistent && self.longest.is_some()
    }

    /// Whether blocks take units of work from a queue: those that are taken are counted.
    pub fn counts_units(&self) -> bool {
        self.args.iter().any(|arg| matches!(arg, Arg::Taken))
    }

    /// Dynamic shared memory of a block that keeps so many blocks of columns.
    pub fn shared_bytes_with(&self, kept_blocks: u32) -> u32 {
        match self.kept {
            None => self.shared_bytes,
            Some(kept) => self.shared_bytes.next_multiple_of(16) + kept.block_bytes * kept_blocks,
        }
    }

    /// The most that a launch may ask for.
    pub fn most_shared_bytes(&self) -> u32 {
        self.shared_bytes_with(self.kept.map_or(0, |kept| kept.most_blocks))
    }

    /// Whether the launch says if any tile is cut: `-DTRACEA_CUT=1` where it is, else 0.
    pub fn bakes_in_cuts(&self) -> bool {
        self.split.is_some()
    }

    /// Tensors that have windows, each once.
    pub(crate) fn windowed(&self) -> impl Iterator<Item = usize> + use<> {
        let windows = self.windows;
        let first = move |at: &usize| windows[..*at].iter().all(|earlier| earlier.tensor != windows[*at].tensor);
        (0..windows.len()).filter(first).map(move |at| windows[at].tensor)
    }
}

/// The line of a source that device functions replace.
pub const FUNCTIONS_MARK: &str = "// [device functions]";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridAxis {
    /// Product of these dims.
    pub dims: &'static [usize],
    /// Elements a block; 1 for `each`.
    pub block: u32,
}

/// Rows that threads keep in shared memory: so many bytes for each block of columns, for at most so many blocks.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub columns: GridAxis,
    pub block_bytes: u32,
    pub most_blocks: u32,
}

/// What a part leaves in the workspace, and how many parts of a tile there may be.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    pub part_bytes: u32,
    pub most_parts: u32,
    /// The loop whose steps the parts are, where others inside of it run anew at each; with none, all steps that there are.
    pub over: &'static [GridAxis],
    /// The first tiles may be left whole; otherwise all are cut alike.
    pub some_whole: bool,
    /// Blocks put a tile together between them, by so many shares, and wait for each other: all of them run at a time. 0 where the one
    /// that comes last does it alone.
    pub shares: u32,
    /// Some are sums relative to an extreme, of which whoever puts parts together makes each part's weight first.
    pub weighted: bool,
}

/// What one block takes of a multiprocessor, in clock cycles.
#[derive(Clone, Copy, Debug)]
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
    pub steps: &'static [StepCost],
    /// Operands of products, which TMA brings where there is one and it can; threads copy them otherwise.
    pub fetches: &'static [Fetch],
    /// Where a loop ends with the block of a grid's axis.
    pub growing: Option<Growing>,
}

/// A loop that takes longer from one block along a grid's axis to the next: it ends where the block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growing {
    pub steps: GridAxis,
    pub along: GridAxis,
}

/// One step of a loop over the blocks of these axes.
#[derive(Clone, Copy, Debug)]
pub struct StepCost {
    /// Until the next step can begin, for a block on its own.
    pub latency: u32,
    /// Of the multiprocessor's whole rate: blocks that run beside each other add up.
    pub work: u32,
    pub over: &'static [GridAxis],
}

impl Cost {
    /// Whether elements come one by one.
    pub(crate) fn is_scattered(&self) -> bool {
        self.fetches.iter().any(|fetch| fetch.scattered > 0)
    }
}

/// A tile of a tensor that comes in each step of a loop over the blocks of these axes.
#[derive(Clone, Copy, Debug)]
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
    pub over: &'static [GridAxis],
}

/// Rows of boxes, along an axis whose block is how many they hold at most.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    pub axis: GridAxis,
    /// Cycles that a step takes less where no row comes.
    pub spared: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// Device address of a tensor (8 bytes).
    Pointer(usize),
    /// Stride of a tensor's axis in elements, i64.
    Stride(usize, usize),
    /// A dim's size, i32.
    Extent(usize),
    /// A scalar argument: f32 or i32, 4 bytes.
    Scalar(usize),
    /// `struct FastDiv { unsigned divisor, multiplier, shift; }` for a product of dims.
    DivideByDims(&'static [usize]),
    /// The same for the number of blocks along a grid axis.
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
        boxes: &'static [u32],
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

#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub tensor: usize,
    pub number: Number,
}

/// So many of a tensor's last axes. What a plan says of the tensor's axes counts them as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    pub tensor: usize,
    pub axes: usize,
}

/// A tensor with this one of its axes last, which makes it the contiguous one; the others stay in order. What a plan says of the
/// tensor's axes counts them so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relaid {
    pub tensor: usize,
    pub last: usize,
    /// A result: the kernel writes it so, and the launch lays it out as it is afterwards.
    pub written: bool,
}

/// Rows along a flat axis that TMA's im2col mode reads from a tensor: the row of coordinates (n, p, q) lies at
/// `x[n, p * step + rest, q * step' + rest', ..]`, where each `rest` is the same for all rows of a tile.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub tensor: usize,
    /// Rows of a tile, and elements of the last axis that come at a time.
    pub rows: u32,
    pub channels: u32,
    /// No more of them than the tensor has, in whole chunks of 16 bytes.
    pub narrow: bool,
    /// One for each tensor axis but the first and the last.
    pub axes: &'static [WindowAxis],
}

#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Const(i64),
    Dim(usize),
    /// An i32 argument.
    Scalar(usize),
    Binary(IntOp, &'static Number, &'static Number),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOp {
    Add,
    Sub,
    Mul,
    /// Toward zero.
    Div,
    Rem,
    Min,
    Max,
}
