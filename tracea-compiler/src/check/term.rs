//! What an expression of a kernel's body evaluates to while it is checked.

use crate::nest::{AxisId, Dtype, Extent, Int, Predicate, TensorId, ValueId};
use syn::{ExprClosure, Path};

#[derive(Clone, Debug)]
pub enum Term {
    Tile(ValueId),
    /// A constant: a literal, `f32::EPSILON`, what folds from them. A literal takes its dtype from its use.
    Number(f64, Option<Dtype>),
    /// An `i32`, a coordinate, or a tile of coordinates (`iota`).
    Int(Int),
    /// The variable of a tiled loop.
    Axis(AxisId),
    /// A flag, or a comparison of integers.
    Truth(Predicate),
    /// `M`, `flat(N, P, Q)`, `T.until(i.end())`.
    Extent(Bounds),
    /// `each(R)`.
    Each(Bounds),
    /// `a..b`.
    Range(Option<Int>, Option<Int>),
    /// `..`.
    Whole,
    Tensor(TensorId),
    Tuple(Vec<Term>),
    Closure(ExprClosure),
    Function(Path),
    /// An error was told already.
    Poison,
}

/// An extent, bounded by a range.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub extent: Extent,
    pub from: Option<Int>,
    pub until: Option<Int>,
}

impl Term {
    pub const UNIT: Term = Term::Tuple(Vec::new());

    pub fn is_poison(&self) -> bool {
        match self {
            Term::Poison => true,
            Term::Tuple(parts) => parts.iter().any(Term::is_poison),
            _ => false,
        }
    }

    /// As an error names it.
    pub fn describe(&self) -> &'static str {
        match self {
            Term::Tile(_) => "a tile",
            Term::Number(..) => "a number",
            Term::Int(_) => "an integer",
            Term::Axis(_) => "a loop variable",
            Term::Truth(_) => "a bool",
            Term::Extent(_) => "a dim",
            Term::Each(_) => "`each(…)`",
            Term::Range(..) => "a range",
            Term::Whole => "`..`",
            Term::Tensor(_) => "a tensor",
            Term::Tuple(parts) if parts.is_empty() => "`()`",
            Term::Tuple(_) => "a tuple",
            Term::Closure(_) => "a closure",
            Term::Function(_) => "a function",
            Term::Poison => "a faulty expression",
        }
    }
}

impl Bounds {
    pub fn of(extent: Extent) -> Bounds {
        Bounds { extent, from: None, until: None }
    }
}
