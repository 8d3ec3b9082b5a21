//! Numbers that a plan leaves to the launch.

use super::arg::Scalar;
use super::check::{Scalars, Sizes};
use crate::plan::{IntOp, Number};

impl Number {
    /// Nothing where the number is out of range or divides by zero.
    pub(super) fn evaluate(&self, sizes: &Sizes, scalars: &Scalars) -> Option<i64> {
        match self {
            Number::Const(value) => Some(*value),
            Number::Dim(dim) => i64::try_from(sizes.get(*dim)).ok(),
            Number::Scalar(scalar) => match scalars.get(*scalar)? {
                Scalar::I32(value) => Some(i64::from(value)),
                Scalar::F32(_) => None,
            },
            Number::Binary(op, a, b) => {
                let (a, b) = (a.evaluate(sizes, scalars)?, b.evaluate(sizes, scalars)?);
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(op: IntOp, a: Number, b: Number) -> Number {
        Number::Binary(op, Box::leak(Box::new(a)), Box::leak(Box::new(b)))
    }

    #[test]
    fn numbers_follow_rusts_arithmetic() {
        let mut scalars = Scalars::new();
        scalars.push(Scalar::I32(-7));
        scalars.push(Scalar::F32(1.0));
        let value = |number: Number| number.evaluate(&Sizes::of(&[3]), &scalars);
        let binary = |op, b| value(of(op, Number::Scalar(0), b));
        assert_eq!(binary(IntOp::Div, Number::Const(2)), Some(-3));
        assert_eq!(binary(IntOp::Rem, Number::Const(2)), Some(-1));
        assert_eq!(binary(IntOp::Mul, Number::Dim(0)), Some(-21));
        assert_eq!(binary(IntOp::Min, Number::Dim(0)), Some(-7));
        assert_eq!(binary(IntOp::Max, Number::Dim(0)), Some(3));
        assert_eq!(binary(IntOp::Div, Number::Const(0)), None);
        assert_eq!(binary(IntOp::Mul, Number::Const(i64::MIN)), None);
        assert_eq!(value(Number::Scalar(1)), None);
        assert_eq!(value(Number::Scalar(2)), None);
    }
}
