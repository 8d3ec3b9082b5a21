//! Integers that statements compute as they run.

use crate::nest::{AxisId, Int};

/// Integer text over names that are in scope: loop steps, block starts, limits.
///
/// A small tree of its own, so that nothing downstream parses strings.
#[derive(Clone, Debug, PartialEq)]
pub enum IntText {
    Const(i64),
    Name(String),
    /// Of the turn that a counter of a ring's turns stands at.
    OfTurn(String, TurnPart),
    /// The nest's arithmetic on scalars.
    Int(Int),
    /// An axis' extent.
    Extent(AxisId),
    /// First coordinate of the axis' current block.
    Start(AxisId),
    /// One past the last coordinate that the current loop visits on the axis.
    Limit(AxisId),
    Add(Box<IntText>, Box<IntText>),
    Sub(Box<IntText>, Box<IntText>),
    Mul(Box<IntText>, Box<IntText>),
    Min(Box<IntText>, Box<IntText>),
    Max(Box<IntText>, Box<IntText>),
    /// The first of the steps that a part has: `steps * part / parts`.
    Share {
        steps: Box<IntText>,
        part: Box<IntText>,
        parts: Box<IntText>,
        /// A parameter that divides by how many parts there are, where there are several.
        by_all_parts: String,
    },
    /// Rounded up.
    CeilDiv(Box<IntText>, u32),
    Rem(Box<IntText>, u32),
    Less(Box<IntText>, Box<IntText>),
    /// Quotient and remainder by a `FastDiv` parameter, or by a constant.
    Quotient(Box<IntText>, Divisor),
    Remainder(Box<IntText>, Divisor),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnPart {
    Slot,
    /// The parity of its round.
    Phase,
    /// The slot of the turn before.
    SlotBefore,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Divisor {
    Param(String),
    Const(i64),
}

impl IntText {
    pub fn name(name: impl Into<String>) -> IntText {
        IntText::Name(name.into())
    }
    pub fn plus(self, other: IntText) -> IntText {
        match (&self, &other) {
            (IntText::Const(0), _) => other,
            (_, IntText::Const(0)) => self,
            _ => IntText::Add(Box::new(self), Box::new(other)),
        }
    }
    pub fn minus(self, other: IntText) -> IntText {
        IntText::Sub(Box::new(self), Box::new(other))
    }
    pub fn times(self, factor: u32) -> IntText {
        match factor {
            1 => self,
            _ => IntText::Mul(Box::new(self), Box::new(IntText::Const(factor.into()))),
        }
    }
}
