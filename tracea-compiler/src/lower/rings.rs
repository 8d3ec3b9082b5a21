//! Rings as both roles see them: what passes by one, and how its turns are counted.

use super::loops::Resident;
use crate::nest::{AxisId, ValueId};
use crate::program::shared::SharedId;
use crate::program::{Counter, IntText, RingId, Stmt, Turn, TurnPart};

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
    counter: Counter,
    pub stages: u32,
    /// The slot of the current turn, and the parity of its round: names that [`Count::position`] gives, but for a single stage.
    pub slot: IntText,
    phase: IntText,
}

impl Count {
    /// Through several stages, `slot` and `phase` being names. The turn is counted as a slot and a phase: a division of a count
    /// of steps would come between one step's products and the next one's.
    pub fn steps(name: String, stages: u32, slot: &str, phase: &str) -> Count {
        let counter = Counter::Turns { name, stages };
        Count { counter, stages, slot: IntText::name(slot), phase: IntText::name(phase) }
    }

    /// Through one stage.
    pub fn visits(name: String) -> Count {
        let phase = IntText::Rem(Box::new(IntText::name(&name)), 2);
        Count { counter: Counter::Plain(name), stages: 1, slot: IntText::Const(0), phase }
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

    pub fn counter(&self) -> &Counter {
        &self.counter
    }

    /// The same turns under other names.
    pub fn named(&self, slot: &str, phase: &str) -> Count {
        Count { slot: IntText::name(slot), phase: IntText::name(phase), ..self.clone() }
    }

    pub fn position(&self) -> Vec<Stmt> {
        let named = [(&self.slot, TurnPart::Slot), (&self.phase, TurnPart::Phase)].into_iter();
        let named = named.filter_map(|(text, part)| match text {
            IntText::Name(name) => Some(Stmt::Let { name: name.clone(), value: self.of_turn(part) }),
            _ => None,
        });
        named.collect()
    }

    fn previous_slot(&self) -> IntText {
        self.of_turn(TurnPart::SlotBefore)
    }

    fn of_turn(&self, part: TurnPart) -> IntText {
        IntText::OfTurn(self.counter.name().to_string(), part)
    }

    /// A turn by which tiles of these buffers pass.
    pub fn turn(&self, ring: RingId, buffers: Vec<SharedId>) -> Turn {
        Turn { ring, slot: self.slot.clone(), phase: self.phase.clone(), buffers }
    }

    pub fn advance(&self) -> Stmt {
        Stmt::Advance(self.counter.name().to_string())
    }
}
