//! Rings as both roles see them: what passes by one, and how its turns are counted.

use super::loops::Resident;
use crate::nest::{AxisId, ValueId};
use crate::program::shared::SharedId;
use crate::program::{Divisor, IntText, RingId, Stmt, Turn};

/// A place in the nest where dots take operands from rings: a loop, or one dot outside of such loops.
#[derive(Clone, Debug)]
pub struct Site {
    pub key: SiteKey,
    /// Filled once each time the site is reached.
    pub fixed: Vec<Group>,
    /// Filled at each step.
    pub moving: Vec<Group>,
    /// From the last step to the first.
    pub backwards: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKey {
    Loop(AxisId),
    Dot(ValueId),
}

impl Site {
    /// What is filled once and that this dot, the last of a step, does not read.
    pub fn left_early(&self, dot: ValueId) -> impl Iterator<Item = &Group> {
        self.fixed.iter().filter(move |group| group.last != dot)
    }

    /// Which of so many steps it is the turn of.
    pub fn step(&self, steps: &str) -> IntText {
        let step = IntText::name("step");
        if self.backwards { IntText::name(steps).minus(IntText::Const(1)).minus(step) } else { step }
    }
}

/// Operands that share a ring.
#[derive(Clone, Debug)]
pub struct Group {
    pub ring: RingId,
    pub operands: Vec<Resident>,
    pub count: Count,
    /// The dots that read it first and last, within one step.
    pub first: ValueId,
    pub last: ValueId,
}

impl Group {
    pub fn turn(&self) -> Turn {
        self.count.turn(self.ring, self.operands.iter().map(|operand| operand.shared).collect())
    }

    /// The turn before the one that is counted next: while a turn's operands are read, or, of the last, once it is over.
    pub fn previous_turn(&self) -> Turn {
        Turn { slot: self.count.previous_slot(), ..self.turn() }
    }
}

/// How a role counts its turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    counter: String,
    pub stages: u32,
    /// The slot of the current turn, and the parity of its round: names that [`Count::position`] gives, but for a single stage.
    pub slot: IntText,
    phase: IntText,
}

impl Count {
    /// Through several stages, `slot` and `phase` being names.
    pub fn steps(counter: String, stages: u32, slot: &str, phase: &str) -> Count {
        Count { counter, stages, slot: IntText::name(slot), phase: IntText::name(phase) }
    }

    /// Through one stage.
    pub fn visits(counter: String) -> Count {
        let phase = IntText::Rem(Box::new(IntText::name(&counter)), 2);
        Count { counter, stages: 1, slot: IntText::Const(0), phase }
    }

    /// Each one that counts turns of the groups, once.
    pub fn of(groups: &[Group]) -> Vec<Count> {
        let mut counts: Vec<Count> = Vec::new();
        for Group { count, .. } in groups {
            if !counts.contains(count) {
                counts.push(count.clone());
            }
        }
        counts
    }

    pub fn counter(&self) -> &str {
        &self.counter
    }

    pub fn position(&self) -> Vec<Stmt> {
        let count = || Box::new(IntText::name(&self.counter));
        let round = IntText::Quotient(count(), Divisor::Const(i64::from(self.stages)));
        let values = [IntText::Rem(count(), self.stages), IntText::Rem(Box::new(round), 2)];
        let named = [&self.slot, &self.phase].into_iter().zip(values).filter_map(|(text, value)| match text {
            IntText::Name(name) => Some(Stmt::Let { name: name.clone(), value }),
            _ => None,
        });
        named.collect()
    }

    fn previous_slot(&self) -> IntText {
        let before = IntText::name(&self.counter).plus(IntText::Const(i64::from(self.stages) - 1));
        IntText::Rem(Box::new(before), self.stages)
    }

    /// A turn by which tiles of these buffers pass.
    pub fn turn(&self, ring: RingId, buffers: Vec<SharedId>) -> Turn {
        Turn { ring, slot: self.slot.clone(), phase: self.phase.clone(), buffers }
    }

    pub fn advance(&self) -> Stmt {
        Stmt::Advance(self.counter.clone())
    }
}
