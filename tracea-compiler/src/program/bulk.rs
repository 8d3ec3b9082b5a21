//! Tiles that TMA copies, and where it may.
//!
//! A tensor's alignment is known at launch only, so that the source is compiled for it: each copy by TMA stands under a condition, a
//! constant of the source, beside the same copy by threads.

use super::shared::SharedId;
use super::{IntText, Program, Stmt};
use crate::nest::TensorId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConditionId(pub u32);

/// A constant of the source: whether all of these hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub name: String,
    pub all: Vec<Premise>,
}

/// What TMA asks of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Premise {
    /// Its rows begin on multiples of 16 bytes.
    Aligned(TensorId),
    /// Its windows are within what a tensor map can say.
    Windows(TensorId),
}

/// A tile that TMA copies, one panel of columns at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkCopy {
    pub shared: SharedId,
    pub slot: Option<IntText>,
    pub tensor: TensorId,
    /// The parameter that describes the tensor.
    pub map: String,
    /// Where the first panel begins, for each tensor axis.
    pub at: Vec<IntText>,
    pub form: BulkForm,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BulkForm {
    /// A box of the tensor.
    Box,
    /// Rows along a flat axis (im2col). For each tensor axis but the first and the last, how far past `at` they are read: `at` lies
    /// within the corners that the map knows, so that a walk turns to the next line at the right place wherever the window is.
    Window { offsets: Vec<IntText> },
}

/// A tile as boxes that TMA writes.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkStore {
    /// The parameter that describes the tensor, its leading axes merged into one where the tile's rows run along several.
    pub map: String,
    /// Where the tile begins, for each of the map's axes, and along which of them its rows run.
    pub at: Vec<IntText>,
    pub row_at: usize,
}

impl Program {
    pub fn condition(&self, id: ConditionId) -> &Condition {
        &self.conditions[id.0 as usize]
    }

    /// The condition of this name, which asks for so much.
    pub fn require(&mut self, name: String, all: Vec<Premise>) -> ConditionId {
        let known = self.conditions.iter().position(|condition| condition.name == name);
        let at = known.unwrap_or_else(|| {
            self.conditions.push(Condition { name, all });
            self.conditions.len() - 1
        });
        ConditionId(at as u32)
    }

    /// Whether a store reads the map.
    pub fn is_stored_by(&self, map: &str) -> bool {
        fn walk(stmts: &[Stmt], map: &str) -> bool {
            stmts.iter().any(|stmt| match stmt {
                Stmt::SendPanel { store, .. } => store.map == map,
                _ => stmt.bodies().into_iter().any(|body| walk(body, map)),
            })
        }
        walk(&self.body, map)
    }
}
