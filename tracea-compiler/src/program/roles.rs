//! Warp roles: who copies, the rings by which tiles pass from there, and the turns of those that multiply.

use super::shared::SharedId;
use super::{ConditionId, IntText, Stmt};

/// A warpgroup that only copies.
#[derive(Clone, Debug, PartialEq)]
pub struct Producer {
    pub threads: u32,
    pub registers: RoleRegisters,
    /// Rows that a thread copies at a time, where it copies by itself: their addresses take registers.
    pub rows_at_a_time: u32,
    /// The same of elements that come by themselves, by parts of their places.
    pub gathered_at_a_time: u32,
    /// Where this holds, one thread makes all copies and the others leave; `None` where some are threads' in any case.
    pub alone: Option<Alone>,
    pub body: Vec<Stmt>,
}

/// Of a thread of each role, for `setmaxnreg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleRegisters {
    pub producer: u32,
    pub consumer: u32,
}

/// TMA fills all rings, so that the producer needs few registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    pub condition: ConditionId,
    pub registers: RoleRegisters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RingId(pub u32);

/// Buffers that are filled and freed together: a full and an empty barrier for each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Ring {
    pub name: String,
    pub stages: u32,
    /// Where TMA fills it; `None` where it never does.
    pub bulk: Option<ConditionId>,
    /// Its slots are filled for all blocks of the cluster together, and so are free again when all of them have released them.
    pub joint: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counter {
    /// An integer.
    Plain(String),
    /// Turns of rings of so many slots.
    Turns { name: String, stages: u32 },
}

impl Counter {
    pub fn name(&self) -> &str {
        let (Counter::Plain(name) | Counter::Turns { name, .. }) = self;
        name
    }
}

/// Which slot of a ring, the parity of its current round, and whose tiles pass by it.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub ring: RingId,
    pub slot: IntText,
    pub phase: IntText,
    pub buffers: Vec<SharedId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnId(pub u32);

/// Panels of a tensor that each warpgroup asks TMA for by itself, to places of its own: the first ones of its tile, and the next one each time
/// it has read one.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnPanels {
    pub name: String,
    /// What counts those that a warpgroup has read.
    pub counter: String,
    pub shared: SharedId,
    /// Of each warpgroup.
    pub places: u32,
    /// Of a tile.
    pub panels: u32,
    /// How many lie beside each other; those of a warpgroup's next 64 rows follow.
    pub beside: u32,
    /// The parameter that describes the tensor, where the tile begins, for each of the tensor's axes, and along which of these its rows lie.
    pub map: String,
    pub at: Vec<IntText>,
    pub row_at: usize,
}

/// What two warpgroups that share a tile do at the end of a loop of so many steps, by a ring of so many stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stagger {
    /// Before it: the second one follows the first in its last steps.
    Begin { steps: String, last: u32, stages: u32 },
    /// Before a step: the second one waits, if these begin.
    Follow,
    /// After it: the first one has asked for all its products.
    Lead { steps: String, stages: u32 },
}

/// What a warpgroup does with the token that goes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingPong {
    /// Before the first turn, and after the last one.
    Begin,
    End,
    /// The same where warpgroups have tiles of their own, and any of them may have the last one.
    BeginTurns,
    EndAtTurn,
    /// Waits for its turn, and ends it.
    Take,
    Pass,
}
