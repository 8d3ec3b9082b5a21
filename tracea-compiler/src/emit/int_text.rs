//! Integers that are the same for all threads: names of axes, extents, limits, and arithmetic on them.

use super::Emitter;
use crate::nest::{AxisId, AxisKind, Extent};
use crate::program::{Divisor, Domain, IntText, TurnPart};

impl<'a> Emitter<'a> {
    pub(super) fn axis_name(&self, axis: AxisId) -> &'a str {
        &self.program.names.axes[axis.index()]
    }

    pub(super) fn block_name(&self, axis: AxisId) -> String {
        format!("BLOCK_{}", self.axis_name(axis).to_uppercase())
    }

    pub(super) fn extent(&self, axis: AxisId) -> String {
        match &self.nest.axis(axis).extent {
            Extent::Dim(dim) => self.program.names.dims[dim.index()].clone(),
            Extent::Flat(dims) => {
                let parts: Vec<&str> = dims.iter().map(|dim| self.program.names.dims[dim.index()].as_str()).collect();
                parts.join(" * ")
            }
        }
    }

    pub(super) fn start(&self, axis: AxisId) -> String {
        if self.from_begin == Some(axis) {
            return "0".into();
        }
        match self.nest.axis(axis).kind {
            AxisKind::Whole => "0".into(),
            AxisKind::Each => self.axis_name(axis).into(),
            AxisKind::Tiled => format!("{}0", self.axis_name(axis)),
        }
    }

    pub(super) fn limit(&self, axis: AxisId) -> String {
        if self.program.limited.contains(&axis) { format!("{}_end", self.axis_name(axis)) } else { self.extent(axis) }
    }

    pub(super) fn int_text(&self, text: &IntText) -> String {
        match text {
            IntText::Const(value) => value.to_string(),
            IntText::Name(name) => name.clone(),
            IntText::OfTurn(turn, TurnPart::Slot) => format!("{turn}.slot()"),
            IntText::OfTurn(turn, TurnPart::Phase) => format!("{turn}.phase()"),
            IntText::OfTurn(turn, TurnPart::SlotBefore) => format!("{turn}.slot_before()"),
            IntText::Int(int) => self.int(int, Domain::Once),
            IntText::Extent(axis) => self.extent(*axis),
            IntText::Start(axis) => self.start(*axis),
            IntText::Limit(axis) => self.limit(*axis),
            IntText::Add(a, b) => sum(self.int_text(a), &self.int_text(b)),
            IntText::Sub(a, b) => format!("{} - {}", self.int_text(a), self.factor(b)),
            IntText::Mul(a, b) => format!("{} * {}", self.factor(a), self.factor(b)),
            IntText::Min(a, b) => format!("min({}, {})", self.int_text(a), self.int_text(b)),
            IntText::Max(a, b) => format!("max({}, {})", self.int_text(a), self.int_text(b)),
            IntText::Share { steps, part, parts, by_all_parts } => {
                let (steps, part, parts) = (self.factor(steps), self.factor(part), self.factor(parts));
                format!("share({steps}, {part}, {parts}, {by_all_parts})")
            }
            IntText::CeilDiv(a, by) => format!("({} + {}) / {by}", self.int_text(a), by - 1),
            IntText::Rem(a, by) => format!("{} % {by}", self.factor(a)),
            IntText::Less(a, b) => format!("{} < {}", self.int_text(a), self.int_text(b)),
            IntText::Quotient(a, Divisor::Param(name)) => format!("{name}.div({})", self.int_text(a)),
            IntText::Remainder(a, Divisor::Param(name)) => format!("{name}.rem({})", self.int_text(a)),
            IntText::Quotient(a, Divisor::Const(by)) => format!("{} / {by}", self.factor(a)),
            IntText::Remainder(a, Divisor::Const(by)) => format!("{} % {by}", self.factor(a)),
        }
    }

    /// Text that binds as tightly as a factor.
    pub(super) fn factor(&self, text: &IntText) -> String {
        let plain = match text {
            IntText::Const(_)
            | IntText::Name(_)
            | IntText::OfTurn(..)
            | IntText::Start(_)
            | IntText::Limit(_)
            | IntText::Min(..)
            | IntText::Max(..) => true,
            IntText::Extent(axis) => matches!(self.nest.axis(*axis).extent, Extent::Dim(_)),
            IntText::Quotient(_, divisor) | IntText::Remainder(_, divisor) => matches!(divisor, Divisor::Param(_)),
            _ => false,
        };
        let inner = self.int_text(text);
        if plain { inner } else { format!("({inner})") }
    }
}

/// `a + b`, or what is left of it beside a 0.
pub(super) fn sum(a: String, b: &str) -> String {
    if a == "0" { b.to_string() } else { format!("{a} + {b}") }
}
