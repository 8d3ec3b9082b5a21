//! The typed loop nest: what a kernel means, and nothing of how it runs.
//!
//! Checking builds one [`Nest`] for each instance of a kernel (generic constants, dtypes and flags are substituted, and
//! `if` on them is folded away). Values are pure and numbered in program order; a tile's type is its dtype and the axes
//! that it spans. No block size, thread, memory or barrier appears here: those belong to a schedule and to lowering.

mod print;
mod rename;

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", stringify!($name), self.0)
            }
        }
    };
}

id!(/// Index into [`Nest::dims`].
    DimId);
id!(/// Index into [`Nest::tensors`].
    TensorId);
id!(/// Index into [`Nest::scalars`].
    ScalarId);
id!(/// Index into [`Nest::axes`].
    AxisId);
id!(/// Index into [`Nest::values`].
    ValueId);
id!(/// Index into [`Nest::functions`].
    FunctionId);

/// One instance of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    pub name: String,
    /// The instance's arguments, in the attribute's order: `D = 64`, `causal = true`, `T = f16`.
    pub instance: Vec<(String, InstanceValue)>,
    /// File and line of the kernel's name in the user's source.
    pub file: String,
    pub line: u32,
    pub dims: Vec<Dim>,
    pub tensors: Vec<Tensor>,
    /// Scalar arguments that are known only at launch.
    pub scalars: Vec<ScalarParam>,
    pub axes: Vec<Axis>,
    pub values: Vec<Value>,
    pub functions: Vec<Function>,
    /// The axes of the outermost `tile!`, in the user's order.
    pub grid: Vec<AxisId>,
    pub body: Block,
}

#[derive(Clone, Debug, PartialEq)]
pub enum InstanceValue {
    Int(i64),
    Bool(bool),
    Dtype(Dtype),
}

/// A dimension: a `Dim` generic, a `Const<N>` that stands in a tensor's type, or several of a tensor's last ones as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    pub name: String,
    /// The size, where the types fix it.
    pub known: Option<i64>,
    /// What it is made of, outermost first.
    pub parts: Vec<DimId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub name: String,
    pub dtype: Dtype,
    /// One for each tensor axis; the last has unit stride.
    pub dims: Vec<DimId>,
    pub mutable: bool,
    /// Position among the kernel's arguments.
    pub position: usize,
    /// No argument: the launch computes it first.
    pub precomputed: bool,
    /// A result of which the kernel writes a copy, with the last axis but one last, that the launch lays out as this when it is done.
    pub turned: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScalarParam {
    pub name: String,
    pub dtype: Dtype,
    /// Position among the kernel's arguments.
    pub position: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    F16,
    Bf16,
    /// f32 whose products run on tensor cores with a 10-bit mantissa.
    Tf32,
    F32,
    I32,
    Bool,
}

/// One loop variable, or one `..`.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub name: String,
    pub extent: Extent,
    pub kind: AxisKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Extent {
    Dim(DimId),
    /// `flat(A, B, C)`: row-major over the dims.
    Flat(Vec<DimId>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisKind {
    /// Cut into blocks by the schedule.
    Tiled,
    /// `each(D)`: a scalar loop.
    Each,
    /// `..`: the whole of a dim with a known size.
    Whole,
}

/// Integer arithmetic over coordinates, for indices, bounds and predicates.
///
/// `Axis` is an element's global coordinate along an axis: one number in a scalar loop, a vector along a tiled axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Int {
    Const(i64),
    Dim(DimId),
    Scalar(ScalarId),
    Axis(AxisId),
    /// Component of a flat axis' `coords()`.
    FlatCoord(AxisId, usize),
    /// First coordinate of the current block of a tiled axis.
    BlockStart(AxisId),
    /// One past the last coordinate of the current block, clipped to the extent.
    BlockEnd(AxisId),
    Binary(IntOp, Box<Int>, Box<Int>),
    /// An element of a tensor of `i32`, 0 outside of it: what a gather's rows are, or where a loop over rows of different lengths ends.
    Element(TensorId, Vec<Int>),
}

impl Int {
    /// What the expression is made of, one level down.
    pub fn parts(&self) -> Vec<&Int> {
        match self {
            Int::Binary(_, a, b) => vec![a, b],
            Int::Element(_, index) => index.iter().collect(),
            Int::Const(_)
            | Int::Dim(_)
            | Int::Scalar(_)
            | Int::Axis(_)
            | Int::FlatCoord(..)
            | Int::BlockStart(_)
            | Int::BlockEnd(_) => Vec::new(),
        }
    }

    /// Whether the test holds for the expression or anything in it.
    pub fn any(&self, test: &impl Fn(&Int) -> bool) -> bool {
        test(self) || self.parts().into_iter().any(|part| part.any(test))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntOp {
    Add,
    Sub,
    Mul,
    /// Toward zero, as Rust's `/`.
    Div,
    /// As Rust's `%`.
    Rem,
    Min,
    Max,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    Const(bool),
    Compare(CompareOp, Int, Int),
    And(Box<Predicate>, Box<Predicate>),
    Or(Box<Predicate>, Box<Predicate>),
    Not(Box<Predicate>),
}

impl Predicate {
    /// Whether the test holds for any number that it compares.
    fn any_int(&self, test: &impl Fn(&Int) -> bool) -> bool {
        match self {
            Predicate::Const(_) => false,
            Predicate::Compare(_, a, b) => a.any(test) || b.any(test),
            Predicate::And(a, b) | Predicate::Or(a, b) => a.any_int(test) || b.any_int(test),
            Predicate::Not(inner) => inner.any_int(test),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub op: Op,
    pub ty: TileType,
    /// The user's `let` name, where there is one: emitted code uses it.
    pub name: Option<String>,
    pub line: u32,
}

/// At most two axes, outer first. Rank 0 is a scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct TileType {
    pub dtype: Dtype,
    pub axes: Vec<AxisId>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `zeros`, `full` with a constant, a literal (rank 0).
    Fill(f64),
    /// A scalar argument (rank 0).
    Scalar(ScalarId),
    /// `iota` and integer scalars: dtype I32, spanning the tiled axes that the expression names.
    Int(Int),
    /// dtype Bool, spanning the tiled axes that the predicate names (or broadcast to the type's).
    Predicate(Predicate),
    /// Reads outside the tensor give 0. One index for each tensor axis.
    Load {
        tensor: TensorId,
        index: Vec<Int>,
    },
    /// `a`: (m, k), `b`: (k, n); the type is (m, n), in the operands' accumulator dtype.
    Dot {
        a: ValueId,
        b: ValueId,
    },
    Transpose(ValueId),
    Unary(UnaryOp, ValueId),
    /// Operands are broadcast to the type's axes.
    Binary(BinaryOp, ValueId, ValueId),
    Compare(CompareOp, ValueId, ValueId),
    /// condition, value where true, value where false.
    Select(ValueId, ValueId, ValueId),
    Cast(ValueId),
    /// To more axes: `full` with a scalar value, a store of fewer axes.
    Broadcast(ValueId),
    /// A `#[device]` function, element by element.
    Call(FunctionId, Vec<ValueId>),
    /// Removes one axis.
    Reduce(ReduceOp, ValueId, AxisId),
    /// A loop-carried value at the head of its loop's body (index into [`Loop::carried`]).
    Carried(AxisId, usize),
    /// The same after the loop.
    LoopResult(AxisId, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    Neg,
    Abs,
    Exp,
    Exp2,
    Log,
    Log2,
    Sqrt,
    Rsqrt,
    Recip,
    Tanh,
    Sin,
    Cos,
    Erf,
    Floor,
    Ceil,
    Round,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    Pow,
    And,
    Or,
    BitAnd,
    BitOr,
    BitXor,
    /// By the count's last five bits; right: the sign comes in from the left.
    Shl,
    Shr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    Sum,
    Max,
    Min,
}

/// A `#[device]` function that the kernel calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The path as the user wrote it; its last segment is the name in emitted code.
    pub path: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    pub stmts: Vec<Stmt>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// A value, at its place in program order.
    Value(ValueId),
    /// The value's axes are those that the index names, in that order.
    Store {
        tensor: TensorId,
        index: Vec<Int>,
        value: ValueId,
        line: u32,
    },
    Loop(Loop),
}

/// One axis of an inner `tile!`; several axes in one header nest, outer first.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    pub axis: AxisId,
    /// First coordinate, 0 where absent.
    pub from: Option<Int>,
    /// One past the last coordinate, clipped to the extent; the extent where absent.
    pub until: Option<Int>,
    pub carried: Vec<Carried>,
    pub body: Block,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    pub name: String,
    /// Before the loop.
    pub init: ValueId,
    /// [`Op::Carried`] at the head of the body.
    pub head: ValueId,
    /// The value that the body leaves for the next iteration.
    pub next: ValueId,
    /// [`Op::LoopResult`] after the loop.
    pub result: ValueId,
}

impl Nest {
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }
    pub fn axis(&self, id: AxisId) -> &Axis {
        &self.axes[id.index()]
    }
    pub fn dim(&self, id: DimId) -> &Dim {
        &self.dims[id.index()]
    }
    /// Whether the axis has as many elements as the dim.
    pub fn runs_over(&self, axis: AxisId, dim: DimId) -> bool {
        match &self.axis(axis).extent {
            Extent::Dim(own) => *own == dim,
            Extent::Flat(parts) => *parts == self.dim(dim).parts,
        }
    }
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }
    /// Whether the test holds for any index, bound or number of a predicate, or anything that these are made of.
    pub fn any_int(&self, test: &impl Fn(&Int) -> bool) -> bool {
        let in_value = |value: &Value| match &value.op {
            Op::Int(int) => int.any(test),
            Op::Predicate(predicate) => predicate.any_int(test),
            Op::Load { index, .. } => index.iter().any(|int| int.any(test)),
            _ => false,
        };
        self.values.iter().any(in_value) || self.body.any_int(test)
    }
}

impl Block {
    /// The same of loops' bounds, and of where results go.
    fn any_int(&self, test: &impl Fn(&Int) -> bool) -> bool {
        self.stmts.iter().any(|stmt| match stmt {
            Stmt::Loop(inner) => {
                let bounds = inner.from.iter().chain(&inner.until);
                bounds.into_iter().any(|bound| bound.any(test)) || inner.body.any_int(test)
            }
            Stmt::Store { index, .. } => index.iter().any(|int| int.any(test)),
            Stmt::Value(_) => false,
        })
    }

    /// All stores, those in loops too: of which tensors, and where.
    pub fn stores(&self) -> Vec<(TensorId, &[Int])> {
        let mut stores = Vec::new();
        for stmt in &self.stmts {
            match stmt {
                Stmt::Store { tensor, index, .. } => stores.push((*tensor, &index[..])),
                Stmt::Loop(inner) => stores.extend(inner.body.stores()),
                Stmt::Value(_) => {}
            }
        }
        stores
    }
}

impl Dtype {
    /// Size in memory.
    pub fn bytes(self) -> u32 {
        match self {
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::Tf32 | Dtype::F32 | Dtype::I32 => 4,
            Dtype::Bool => 1,
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::Tf32 => "tf32",
            Dtype::F32 => "f32",
            Dtype::I32 => "i32",
            Dtype::Bool => "bool",
        }
    }
}
