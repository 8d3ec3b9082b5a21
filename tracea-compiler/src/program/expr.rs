//! What is computed an element at a time.

use super::{Part, Scalar, VarId};
use crate::nest::{BinaryOp, CompareOp, Int, Predicate, UnaryOp};

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Number(f64),
    Int(Int),
    Predicate(Predicate),
    /// A scalar parameter, by its position among the kernel's scalars.
    Param(usize),
    /// A scalar parameter as a factor that waits where it is positive: what multiplies at once, and what does later. One of them is 1.
    Factor(usize, When),
    /// How fast differences to the number become exponents of two: at most so fast, less of numbers that are too large.
    Rate {
        most: f64,
        of: Box<Expr>,
    },
    /// A variable read at the place that the enclosing domain is at: the same slot, or that slot's row or column.
    Var(VarId),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// The first over the sum of both others, of which the number is of ordinary size ([`is_ordinary`]), and the last one is not negative.
    OverSum(Box<Expr>, f64, Box<Expr>),
    /// Conversion with rounding to the type.
    Convert(Scalar, Box<Expr>),
    Call(String, Vec<Expr>),
    /// What a part has left of a value, at this place in the workspace.
    Left(Part, u32),
}

/// When a factor multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    AtOnce,
    Later,
}

impl Expr {
    /// What the expression is made of, one level down.
    pub fn parts(&self) -> Vec<&Expr> {
        match self {
            Expr::Unary(_, a) | Expr::Convert(_, a) | Expr::Rate { of: a, .. } => vec![a],
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) | Expr::OverSum(a, _, b) => vec![a, b],
            Expr::Select(c, a, b) => vec![c, a, b],
            Expr::Call(_, args) => args.iter().collect(),
            Expr::Number(_)
            | Expr::Int(_)
            | Expr::Predicate(_)
            | Expr::Param(_)
            | Expr::Factor(..)
            | Expr::Var(_)
            | Expr::Left(..) => Vec::new(),
        }
    }

    /// The same of other parts.
    pub fn map_parts(&self, mut of: impl FnMut(&Expr) -> Expr) -> Expr {
        let mut part = |inner: &Expr| Box::new(of(inner));
        match self {
            Expr::Unary(op, a) => Expr::Unary(*op, part(a)),
            Expr::Convert(ty, a) => Expr::Convert(*ty, part(a)),
            Expr::Rate { most, of } => Expr::Rate { most: *most, of: part(of) },
            Expr::Binary(op, a, b) => Expr::Binary(*op, part(a), part(b)),
            Expr::Compare(op, a, b) => Expr::Compare(*op, part(a), part(b)),
            Expr::OverSum(a, number, b) => Expr::OverSum(part(a), *number, part(b)),
            Expr::Select(c, a, b) => Expr::Select(part(c), part(a), part(b)),
            Expr::Call(name, args) => Expr::Call(name.clone(), args.iter().map(|arg| *part(arg)).collect()),
            other => other.clone(),
        }
    }

    /// `a / b` of floats.
    pub fn quotient(a: Expr, b: Expr) -> Expr {
        if let Expr::Binary(BinaryOp::Add, one, other) = &b {
            for (number, rest) in [(one, other), (other, one)] {
                if let Expr::Number(number) = **number
                    && is_ordinary(number)
                    && rest.is_never_negative()
                {
                    return Expr::OverSum(Box::new(a), number, rest.clone());
                }
            }
        }
        Expr::Binary(BinaryOp::Div, Box::new(a), Box::new(b))
    }

    /// Whatever its variables are, but for a NaN.
    fn is_never_negative(&self) -> bool {
        match self {
            Expr::Number(number) => *number >= 0.0,
            Expr::Unary(UnaryOp::Abs | UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Sqrt, _) => true,
            Expr::Binary(BinaryOp::Mul, a, b) => a == b || a.is_never_negative() && b.is_never_negative(),
            Expr::Binary(BinaryOp::Add, a, b) => a.is_never_negative() && b.is_never_negative(),
            _ => false,
        }
    }

    pub fn reads(&self, var: VarId) -> bool {
        *self == Expr::Var(var) || self.parts().into_iter().any(|part| part.reads(var))
    }

    /// The same with one variable in the place of another.
    pub fn with(&self, one: VarId, other: VarId) -> Expr {
        if *self == Expr::Var(one) { Expr::Var(other) } else { self.map_parts(|part| part.with(one, other)) }
    }
}

/// At least 1, so that what a quarter of a subnormal number has lost stays within a division's error, and far from the end of what a float holds.
pub fn is_ordinary(number: f64) -> bool {
    (1.0..=2f64.powi(100)).contains(&number)
}
