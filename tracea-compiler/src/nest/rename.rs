//! The same expressions and operations over other axes and values.

use super::{AxisId, Int, Op, Predicate, ValueId};

impl Int {
    pub fn renamed(&self, axis: &impl Fn(AxisId) -> AxisId) -> Int {
        match self {
            Int::Axis(old) => Int::Axis(axis(*old)),
            Int::FlatCoord(old, part) => Int::FlatCoord(axis(*old), *part),
            Int::BlockStart(old) => Int::BlockStart(axis(*old)),
            Int::BlockEnd(old) => Int::BlockEnd(axis(*old)),
            Int::Binary(op, a, b) => Int::Binary(*op, Box::new(a.renamed(axis)), Box::new(b.renamed(axis))),
            Int::Element(tensor, index) => {
                Int::Element(*tensor, index.iter().map(|component| component.renamed(axis)).collect())
            }
            Int::Const(_) | Int::Dim(_) | Int::Scalar(_) => self.clone(),
        }
    }
}

impl Predicate {
    pub fn renamed(&self, axis: &impl Fn(AxisId) -> AxisId) -> Predicate {
        match self {
            Predicate::Const(value) => Predicate::Const(*value),
            Predicate::Compare(op, a, b) => Predicate::Compare(*op, a.renamed(axis), b.renamed(axis)),
            Predicate::And(a, b) => Predicate::And(Box::new(a.renamed(axis)), Box::new(b.renamed(axis))),
            Predicate::Or(a, b) => Predicate::Or(Box::new(a.renamed(axis)), Box::new(b.renamed(axis))),
            Predicate::Not(inner) => Predicate::Not(Box::new(inner.renamed(axis))),
        }
    }
}

impl Op {
    pub fn renamed(&self, value: &impl Fn(ValueId) -> ValueId, axis: &impl Fn(AxisId) -> AxisId) -> Op {
        match self {
            Op::Int(int) => Op::Int(int.renamed(axis)),
            Op::Predicate(predicate) => Op::Predicate(predicate.renamed(axis)),
            Op::Load { tensor, index } => {
                Op::Load { tensor: *tensor, index: index.iter().map(|component| component.renamed(axis)).collect() }
            }
            Op::Dot { a, b } => Op::Dot { a: value(*a), b: value(*b) },
            Op::Transpose(a) => Op::Transpose(value(*a)),
            Op::Unary(op, a) => Op::Unary(*op, value(*a)),
            Op::Binary(op, a, b) => Op::Binary(*op, value(*a), value(*b)),
            Op::Compare(op, a, b) => Op::Compare(*op, value(*a), value(*b)),
            Op::Select(asked, a, b) => Op::Select(value(*asked), value(*a), value(*b)),
            Op::Cast(a) => Op::Cast(value(*a)),
            Op::Broadcast(a) => Op::Broadcast(value(*a)),
            Op::Call(function, arguments) => Op::Call(*function, arguments.iter().map(|id| value(*id)).collect()),
            Op::Reduce(op, a, along) => Op::Reduce(*op, value(*a), axis(*along)),
            Op::Carried(along, index) => Op::Carried(axis(*along), *index),
            Op::LoopResult(along, index) => Op::LoopResult(axis(*along), *index),
            Op::Fill(_) | Op::Scalar(_) => self.clone(),
        }
    }
}
