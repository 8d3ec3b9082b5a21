//! Integer arithmetic over coordinates: construction with folding, and questions about it.

use crate::nest::{AxisId, CompareOp, Int, IntOp, Predicate};

pub fn binary(op: IntOp, left: Int, right: Int) -> Int {
    match (op, &left, &right) {
        (_, Int::Const(a), Int::Const(b)) => {
            if let Some(folded) = fold(op, *a, *b) {
                return Int::Const(folded);
            }
        }
        (IntOp::Add | IntOp::Sub, _, Int::Const(0)) | (IntOp::Mul | IntOp::Div, _, Int::Const(1)) => return left,
        (IntOp::Add, Int::Const(0), _) | (IntOp::Mul, Int::Const(1), _) => return right,
        (IntOp::Mul, Int::Const(0), _) | (IntOp::Mul, _, Int::Const(0)) => return Int::Const(0),
        _ => {}
    }
    Int::Binary(op, Box::new(left), Box::new(right))
}

/// `None` where Rust would panic.
fn fold(op: IntOp, a: i64, b: i64) -> Option<i64> {
    match op {
        IntOp::Add => a.checked_add(b),
        IntOp::Sub => a.checked_sub(b),
        IntOp::Mul => a.checked_mul(b),
        IntOp::Div => a.checked_div(b),
        IntOp::Rem => a.checked_rem(b),
        IntOp::Min => Some(a.min(b)),
        IntOp::Max => Some(a.max(b)),
    }
}

pub fn negate(value: Int) -> Int {
    binary(IntOp::Sub, Int::Const(0), value)
}

pub fn compare(op: CompareOp, left: Int, right: Int) -> Predicate {
    match (&left, &right) {
        (Int::Const(a), Int::Const(b)) => Predicate::Const(holds(op, a, b)),
        _ => Predicate::Compare(op, left, right),
    }
}

pub fn holds<T: PartialOrd>(op: CompareOp, a: T, b: T) -> bool {
    match op {
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
    }
}

pub fn and(left: Predicate, right: Predicate) -> Predicate {
    match (left, right) {
        (Predicate::Const(true), other) | (other, Predicate::Const(true)) => other,
        (Predicate::Const(false), _) | (_, Predicate::Const(false)) => Predicate::Const(false),
        (left, right) => Predicate::And(Box::new(left), Box::new(right)),
    }
}

pub fn or(left: Predicate, right: Predicate) -> Predicate {
    match (left, right) {
        (Predicate::Const(false), other) | (other, Predicate::Const(false)) => other,
        (Predicate::Const(true), _) | (_, Predicate::Const(true)) => Predicate::Const(true),
        (left, right) => Predicate::Or(Box::new(left), Box::new(right)),
    }
}

pub fn not(predicate: Predicate) -> Predicate {
    match predicate {
        Predicate::Const(value) => Predicate::Const(!value),
        Predicate::Not(inner) => *inner,
        Predicate::Compare(op, left, right) => {
            let opposite = match op {
                CompareOp::Lt => CompareOp::Ge,
                CompareOp::Le => CompareOp::Gt,
                CompareOp::Gt => CompareOp::Le,
                CompareOp::Ge => CompareOp::Lt,
                CompareOp::Eq => CompareOp::Ne,
                CompareOp::Ne => CompareOp::Eq,
            };
            Predicate::Compare(opposite, left, right)
        }
        other => Predicate::Not(Box::new(other)),
    }
}

/// Calls `visit` on every leaf.
pub fn leaves<'a>(value: &'a Int, visit: &mut impl FnMut(&'a Int)) {
    let parts = value.parts();
    if parts.is_empty() {
        visit(value);
    }
    for part in parts {
        leaves(part, visit);
    }
}

pub fn predicate_leaves<'a>(predicate: &'a Predicate, visit: &mut impl FnMut(&'a Int)) {
    match predicate {
        Predicate::Const(_) => {}
        Predicate::Compare(_, left, right) => {
            leaves(left, visit);
            leaves(right, visit);
        }
        Predicate::And(left, right) | Predicate::Or(left, right) => {
            predicate_leaves(left, visit);
            predicate_leaves(right, visit);
        }
        Predicate::Not(inner) => predicate_leaves(inner, visit),
    }
}

/// Axes along which the value varies within a tile or over a scalar loop, in order of appearance.
pub fn coordinates(value: &Int) -> Vec<AxisId> {
    let mut axes = Vec::new();
    leaves(value, &mut |leaf| {
        if let Int::Axis(axis) | Int::FlatCoord(axis, _) = leaf
            && !axes.contains(axis)
        {
            axes.push(*axis);
        }
    });
    axes
}

/// The value mentions nothing that changes with any loop.
pub fn is_uniform(value: &Int) -> bool {
    let mut uniform = true;
    leaves(value, &mut |leaf| {
        uniform &= !matches!(leaf, Int::Axis(_) | Int::FlatCoord(..) | Int::BlockStart(_) | Int::BlockEnd(_));
    });
    uniform
}

/// Never below 0, as far as its form tells.
pub fn is_natural(value: &Int) -> bool {
    match value {
        Int::Const(number) => *number >= 0,
        Int::Dim(_) | Int::Axis(_) | Int::FlatCoord(..) | Int::BlockStart(_) | Int::BlockEnd(_) => true,
        Int::Scalar(_) | Int::Element(..) => false,
        Int::Binary(IntOp::Max, left, right) => is_natural(left) || is_natural(right),
        Int::Binary(IntOp::Sub, ..) => false,
        Int::Binary(IntOp::Rem, left, _) => is_natural(left),
        Int::Binary(IntOp::Add | IntOp::Mul | IntOp::Div | IntOp::Min, left, right) => {
            is_natural(left) && is_natural(right)
        }
    }
}
