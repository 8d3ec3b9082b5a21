//! Tiles that TMA copies, and where it may.
//!
//! A tensor's alignment is known at launch only, so that the source is compiled for it: each copy by TMA stands under a condition, a
//! constant of the source, beside the same copy by threads.

use super::shared::SharedId;
use super::{IntText, Program, Stmt};
use crate::nest::{DimId, TensorId};

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
    /// This other condition holds.
    Condition(ConditionId),
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
    /// Where the tile is the same for all blocks of a cluster: what this one fetches, for all of them.
    pub part: Option<BulkPart>,
    /// The variable that says how many of a panel's columns boxes hold, where they are no wider than the tensor.
    pub columns: Option<String>,
    /// The same of rows, where they are no taller.
    pub rows: Option<String>,
}

/// A buffer that TMA fills by boxes no wider than a tensor's last axis. Its other columns are zeros from the beginning: products read them.
#[derive(Clone, Debug, PartialEq)]
pub struct Narrow {
    pub shared: SharedId,
    pub condition: ConditionId,
    /// Along which dim, and the variable that says how many columns of a panel there are.
    pub dim: DimId,
    pub columns: String,
}

/// A buffer that TMA fills by boxes no taller than a tensor. Its other rows hold anything, and so do the same rows of what is made of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Short {
    pub shared: SharedId,
    /// Along which dim of the tensor, and the variable that says how many rows there are.
    pub tensor: TensorId,
    pub dim: DimId,
    pub rows: String,
}

/// A part of a tile, by the block's rank: `at` is where it begins in the tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkPart {
    pub panels: u32,
    /// Elements from the tile's first to the part's.
    pub offset: IntText,
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
    /// Where the last of the panels beside each other has less of the tile than others, its position among them and the parameter that
    /// describes its box.
    pub last: Option<(u32, String)>,
}

impl Program {
    pub fn condition(&self, id: ConditionId) -> &Condition {
        &self.conditions[id.0 as usize]
    }

    /// The condition that asks for so much, by this name or one like it.
    pub fn require(&mut self, name: &str, all: Vec<Premise>) -> ConditionId {
        let named = |condition: &Condition| condition.name.starts_with(name);
        let at = self.conditions.iter().position(|condition| named(condition) && condition.all == all);
        let at = at.unwrap_or_else(|| {
            let name = match self.conditions.iter().filter(|condition| named(condition)).count() {
                0 => name.to_string(),
                others => format!("{name}_{}", others + 1),
            };
            for premise in &all {
                if let Premise::Aligned(tensor) = premise
                    && !self.aligned.contains(tensor)
                {
                    self.aligned.push(*tensor);
                }
            }
            self.conditions.push(Condition { name, all });
            self.conditions.len() - 1
        });
        ConditionId(at as u32)
    }

    /// The condition under which TMA fills all rings, where it may.
    pub fn all_by_tma(&mut self) -> Option<ConditionId> {
        let mut all: Vec<ConditionId> = self.rings.iter().map(|ring| ring.bulk).collect::<Option<_>>()?;
        all.dedup();
        match all[..] {
            [] => None,
            [one] => Some(one),
            _ => Some(self.require("ALL_BY_TMA", all.into_iter().map(Premise::Condition).collect())),
        }
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

#[cfg(test)]
mod tests {
    use super::Premise;
    use crate::nest::TensorId;
    use crate::testing::{gemm, program};
    use quote::quote;

    #[test]
    fn a_condition_is_named_once_and_another_apart() {
        let mut program = program(gemm(quote!(sm_80, i = 16, j = 16, k = 16, stages = 2, warps = (1, 1))));
        let aligned = |tensor| vec![Premise::Aligned(TensorId(tensor))];
        let first = program.require("A_BY_TMA", aligned(0));
        let other = program.require("A_BY_TMA", vec![Premise::Condition(first), Premise::Aligned(TensorId(0))]);
        assert_eq!(program.require("A_BY_TMA", aligned(0)), first);
        assert_eq!([first, other].map(|id| program.condition(id).name.clone()), ["A_BY_TMA", "A_BY_TMA_2"]);
    }
}
