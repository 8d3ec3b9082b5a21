//! Where a tile's elements lie in a tensor, and what of that is worked out apart.

use super::IntText;
use super::shared::SharedId;
use crate::nest::{AxisId, Int, TensorId};

/// How the elements of a tile lie in a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    pub tensor: TensorId,
    pub index: Vec<Int>,
    pub form: AccessForm,
    /// Axes whose coordinate is checked against their limit.
    pub limits: Vec<AxisId>,
    /// Tensor axes whose index is checked against 0 and the size.
    pub inside: Vec<usize>,
    /// All of the block's columns exist.
    pub whole_cols: bool,
    /// So many neighbouring columns, a power of two, have one element between them.
    pub alike: u32,
    /// Where a part of its rows' places is worked out before the loops around.
    pub held: Option<Held>,
}

/// That part, and the other one: by tensor axis, what a row has for itself, which each thread has in registers of this name, and what a
/// step adds to all of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub name: String,
    pub own: Vec<Int>,
    pub step: Vec<Int>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AccessForm {
    /// One pointer a row, columns contiguous from the block's start.
    Contiguous { rows: Option<AxisId>, cols: AxisId },
    /// A pointer for each element.
    Scattered { rows: Option<AxisId>, cols: Option<AxisId> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub shared: SharedId,
    pub slot: Option<IntText>,
    pub source: Access,
    /// Of scattered elements, where their places come apart.
    pub parts: Option<Parts>,
}

/// An index as a sum, one for each tensor axis: what rows have a share in, and what columns have.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    pub rows: Vec<Int>,
    pub columns: Vec<Int>,
}
