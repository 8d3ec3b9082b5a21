//! One product of tiles: by which unit, and where its operands are.

use super::shared::SharedId;
use super::{IntText, VarId};
use crate::nest::Dtype;

#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// Accumulated into, or overwritten.
    pub target: VarId,
    pub overwrite: bool,
    pub k: u32,
    pub a: Operand,
    pub b: Operand,
    pub unit: MathUnit,
    /// Another product of the same first operand, that the same instructions multiply.
    pub beside: Option<Beside>,
}

impl Dot {
    /// All that are read, from left to right.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        [&self.a, &self.b].into_iter().chain(self.beside.iter().map(|beside| &beside.b))
    }

    /// All results.
    pub fn targets(&self) -> impl Iterator<Item = VarId> {
        std::iter::once(self.target).chain(self.beside.iter().map(|beside| beside.target))
    }
}

/// Its tile lies behind the other product's in shared memory, stage by stage, and its result goes on as that one's columns do.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    pub target: VarId,
    pub b: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathUnit {
    /// `mma.sync` by 16-bit or tf32 operands.
    Mma,
    /// `wgmma`: asynchronous, by warpgroups.
    Wgmma,
    /// Fused multiply-add in f32.
    Fma,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Shared {
        shared: SharedId,
        slot: Option<IntText>,
        major: Major,
    },
    /// A shared tile that lies across the sum, whose fragments threads read: so `wgmma` takes 32-bit types as its first operand.
    Fragments {
        shared: SharedId,
        slot: Option<IntText>,
    },
    /// An accumulator's registers, rounded to the type.
    Registers {
        value: VarId,
        ty: Dtype,
    },
    /// The same as the product reads them, put there before.
    Packed {
        operand: VarId,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// The contracted axis is contiguous.
    K,
    /// The other axis is contiguous.
    Mn,
}
