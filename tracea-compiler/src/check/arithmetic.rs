//! Operators on integers, constants, predicates and tiles.

use super::infer::OpenType;
use super::{Checker, Term, int};
use crate::nest::{AxisId, AxisKind, BinaryOp, CompareOp, Dtype, Extent, Int, IntOp, Op, Predicate, UnaryOp, ValueId};
use quote::ToTokens;
use syn::BinOp;

enum Operator {
    Arithmetic(BinaryOp),
    Compare(CompareOp),
    And,
    Or,
    Bits(BinaryOp),
}

impl Operator {
    fn of(op: &BinOp) -> Option<Operator> {
        Some(match op {
            BinOp::Add(_) | BinOp::AddAssign(_) => Operator::Arithmetic(BinaryOp::Add),
            BinOp::Sub(_) | BinOp::SubAssign(_) => Operator::Arithmetic(BinaryOp::Sub),
            BinOp::Mul(_) | BinOp::MulAssign(_) => Operator::Arithmetic(BinaryOp::Mul),
            BinOp::Div(_) | BinOp::DivAssign(_) => Operator::Arithmetic(BinaryOp::Div),
            BinOp::Rem(_) | BinOp::RemAssign(_) => Operator::Arithmetic(BinaryOp::Rem),
            BinOp::Lt(_) => Operator::Compare(CompareOp::Lt),
            BinOp::Le(_) => Operator::Compare(CompareOp::Le),
            BinOp::Gt(_) => Operator::Compare(CompareOp::Gt),
            BinOp::Ge(_) => Operator::Compare(CompareOp::Ge),
            BinOp::Eq(_) => Operator::Compare(CompareOp::Eq),
            BinOp::Ne(_) => Operator::Compare(CompareOp::Ne),
            BinOp::And(_) => Operator::And,
            BinOp::Or(_) => Operator::Or,
            BinOp::BitAnd(_) | BinOp::BitAndAssign(_) => Operator::Bits(BinaryOp::BitAnd),
            BinOp::BitOr(_) | BinOp::BitOrAssign(_) => Operator::Bits(BinaryOp::BitOr),
            BinOp::BitXor(_) | BinOp::BitXorAssign(_) => Operator::Bits(BinaryOp::BitXor),
            BinOp::Shl(_) | BinOp::ShlAssign(_) => Operator::Bits(BinaryOp::Shl),
            BinOp::Shr(_) | BinOp::ShrAssign(_) => Operator::Bits(BinaryOp::Shr),
            _ => return None,
        })
    }
}

impl Checker<'_> {
    pub fn operate(&mut self, op: &BinOp, left: Term, right: Term, at: &impl ToTokens) -> Term {
        if left.is_poison() || right.is_poison() {
            return Term::Poison;
        }
        match Operator::of(op) {
            Some(Operator::Arithmetic(op)) => self.arithmetic(op, left, right, at),
            Some(Operator::Compare(op)) => self.compare(op, left, right, at),
            Some(Operator::And) => self.logical(BinaryOp::And, left, right, at),
            Some(Operator::Or) => self.logical(BinaryOp::Or, left, right, at),
            Some(Operator::Bits(op)) => self.bits(op, left, right, at),
            None => self.ours(op, "a kernel has the operators + - * / % & | ^ << >> and comparisons"),
        }
    }

    pub fn arithmetic(&mut self, op: BinaryOp, left: Term, right: Term, at: &impl ToTokens) -> Term {
        if left.is_poison() || right.is_poison() {
            return Term::Poison;
        }
        if let (Some(a), Some(b)) = (self.integer(&left), self.integer(&right))
            && let Some(op) = int_op(op)
        {
            return Term::Int(int::binary(op, a, b));
        }
        if let (Term::Number(a, of), Term::Number(b, other)) = (&left, &right) {
            return Term::Number(fold(op, *a, *b), of.or(*other));
        }
        // Beside numbers that a tensor holds, a loop variable is its coordinates, and a dim its size.
        let number = |term: Term| self.integer(&term).map_or(term, Term::Int);
        let (left, right) = match (left, right) {
            (left, Term::Tile(numbers)) => (number(left), Term::Tile(numbers)),
            (Term::Tile(numbers), right) => (Term::Tile(numbers), number(right)),
            others => others,
        };
        let (Some(a), Some(b)) = (self.value(left, at), self.value(right, at)) else { return Term::Poison };
        self.elementwise(a, b, at, |a, b| Op::Binary(op, a, b))
    }

    /// Of conditions, `&` and `|` are what `and` and `or` are.
    fn bits(&mut self, op: BinaryOp, left: Term, right: Term, at: &impl ToTokens) -> Term {
        let of_integers = [&left, &right].into_iter().any(|term| match term {
            Term::Tile(value) => self.infer.dtype(self.drafts[value.index()].ty.dtype) == Some(Dtype::I32),
            Term::Number(..) => true,
            other => self.integer(other).is_some(),
        });
        match op {
            _ if of_integers => self.arithmetic(op, left, right, at),
            BinaryOp::BitAnd => self.logical(BinaryOp::And, left, right, at),
            BinaryOp::BitOr => self.logical(BinaryOp::Or, left, right, at),
            _ => self.rustc(at, "bits are those of tiles of `i32`"),
        }
    }

    pub fn compare(&mut self, op: CompareOp, left: Term, right: Term, at: &impl ToTokens) -> Term {
        if left.is_poison() || right.is_poison() {
            return Term::Poison;
        }
        // A coordinate beside a number that a tensor holds is a condition on coordinates all the same.
        let one_is_plain = self.integer(&left).is_some() || self.integer(&right).is_some();
        if let (true, Some(a), Some(b)) = (one_is_plain, self.number(&left), self.number(&right)) {
            return Term::Truth(int::compare(op, a, b));
        }
        if let (Term::Number(a, _), Term::Number(b, _)) = (&left, &right) {
            return Term::Truth(Predicate::Const(int::holds(op, *a, *b)));
        }
        if let (Term::Truth(Predicate::Const(a)), Term::Truth(Predicate::Const(b))) = (&left, &right) {
            return Term::Truth(Predicate::Const(int::holds(op, *a, *b)));
        }
        let (Some(a), Some(b)) = (self.value(left, at), self.value(right, at)) else { return Term::Poison };
        let Term::Tile(result) = self.elementwise(a, b, at, |a, b| Op::Compare(op, a, b)) else { return Term::Poison };
        self.drafts[result.index()].ty.dtype = self.infer.known(Dtype::Bool);
        Term::Tile(result)
    }

    pub fn logical(&mut self, op: BinaryOp, left: Term, right: Term, at: &impl ToTokens) -> Term {
        if let (Term::Truth(a), Term::Truth(b)) = (&left, &right) {
            let (a, b) = (a.clone(), b.clone());
            return Term::Truth(if op == BinaryOp::And { int::and(a, b) } else { int::or(a, b) });
        }
        // A flag beside a tile of bools folds away.
        for (flag, other) in [(&left, &right), (&right, &left)] {
            if let Term::Truth(Predicate::Const(flag)) = flag {
                return if *flag == (op == BinaryOp::And) {
                    other.clone()
                } else {
                    Term::Truth(Predicate::Const(*flag))
                };
            }
        }
        let (Some(a), Some(b)) = (self.value(left, at), self.value(right, at)) else { return Term::Poison };
        self.elementwise(a, b, at, |a, b| Op::Binary(op, a, b))
    }

    pub fn negate(&mut self, term: Term, at: &impl ToTokens) -> Term {
        if let Some(value) = self.integer(&term) {
            return Term::Int(int::negate(value));
        }
        match term {
            Term::Number(value, dtype) => Term::Number(-value, dtype),
            other => self.unary(UnaryOp::Neg, other, at),
        }
    }

    pub fn not(&mut self, term: Term, at: &impl ToTokens) -> Term {
        match term {
            Term::Truth(predicate) => Term::Truth(int::not(predicate)),
            other => self.unary(UnaryOp::Not, other, at),
        }
    }

    pub fn unary(&mut self, op: UnaryOp, term: Term, at: &impl ToTokens) -> Term {
        let Some(value) = self.value(term, at) else { return Term::Poison };
        let ty = self.ty(value);
        Term::Tile(self.push(Op::Unary(op, value), ty, at))
    }

    /// Operands are broadcast to the union of their axes.
    pub fn elementwise(
        &mut self,
        a: ValueId,
        b: ValueId,
        at: &impl ToTokens,
        op: impl FnOnce(ValueId, ValueId) -> Op,
    ) -> Term {
        let Some((a, b)) = self.same_dtype(a, b, at) else { return Term::Poison };
        let Some(axes) = self.union(a, b, at) else { return Term::Poison };
        let dtype = self.ty(a).dtype;
        Term::Tile(self.push(op(a, b), OpenType { dtype, axes }, at))
    }

    /// A launch-time `f32` scalar takes part in arithmetic of any float dtype; other mixes are faults.
    pub fn same_dtype(&mut self, a: ValueId, b: ValueId, at: &impl ToTokens) -> Option<(ValueId, ValueId)> {
        let (left, right) = (self.ty(a), self.ty(b));
        if self.infer.unify(left.dtype, right.dtype) {
            return Some((a, b));
        }
        let is_scalar =
            |ty: &OpenType, infer: &super::Inference| ty.axes.is_empty() && infer.dtype(ty.dtype) == Some(Dtype::F32);
        let is_float = |ty: &OpenType, infer: &super::Inference| {
            matches!(infer.dtype(ty.dtype), Some(Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::F32))
        };
        if is_scalar(&right, &self.infer) && is_float(&left, &self.infer) {
            let b = self.push(Op::Cast(b), OpenType { dtype: left.dtype, axes: Vec::new() }, at);
            return Some((a, b));
        }
        if is_scalar(&left, &self.infer) && is_float(&right, &self.infer) {
            let a = self.push(Op::Cast(a), OpenType { dtype: right.dtype, axes: Vec::new() }, at);
            return Some((a, b));
        }
        let name = |ty: &OpenType| self.infer.dtype(ty.dtype).map_or("?", Dtype::name);
        let text = format!("`{}` meets `{}` -- convert one with `.to::<…>()`", name(&left), name(&right));
        self.rustc(at, text);
        None
    }

    pub fn union(&mut self, a: ValueId, b: ValueId, at: &impl ToTokens) -> Option<Vec<AxisId>> {
        let (left, right) = (self.ty(a).axes, self.ty(b).axes);
        let union = self.infer.union(&left, &right);
        if union.is_none() {
            let text = format!(
                "{} meets {} -- turn one \
                with `.t()`",
                self.axis_names(&left),
                self.axis_names(&right)
            );
            self.rustc(at, text);
        }
        union
    }

    /// Makes two values of one type; false where they cannot be.
    pub fn agree(&mut self, a: ValueId, b: ValueId) -> bool {
        let (left, right) = (self.ty(a), self.ty(b));
        self.infer.unify(left.dtype, right.dtype)
            && left.axes.len() == right.axes.len()
            && left.axes.iter().zip(&right.axes).all(|(a, b)| self.infer.unify_axes(*a, *b))
    }

    /// As an integer, where it is one.
    pub fn integer(&self, term: &Term) -> Option<Int> {
        match term {
            Term::Int(value) => Some(value.clone()),
            Term::Axis(axis) => Some(Int::Axis(*axis)),
            Term::Extent(bounds) if bounds.from.is_none() && bounds.until.is_none() => Some(self.size(&bounds.extent)),
            _ => None,
        }
    }

    /// The same for one number, whether or not a tensor holds it.
    fn number(&self, term: &Term) -> Option<Int> {
        let is_one = |value: ValueId| self.drafts[value.index()].ty.axes.is_empty();
        self.looked_up(term).filter(|_| !matches!(term, Term::Tile(value) if !is_one(*value)))
    }

    /// As an integer, also where a tensor holds it: a coordinate looked up, for each element along one axis or one for all.
    pub fn looked_up(&self, term: &Term) -> Option<Int> {
        match term {
            Term::Tile(value) => self.lookup(*value),
            other => self.integer(other),
        }
    }

    fn lookup(&self, value: ValueId) -> Option<Int> {
        let draft = &self.drafts[value.index()];
        if self.infer.dtype(draft.ty.dtype) != Some(Dtype::I32) {
            return None;
        }
        match &draft.op {
            Op::Load { tensor, index } => Some(Int::Element(*tensor, index.clone())),
            Op::Int(int) => Some(int.clone()),
            Op::Fill(number) => (number.fract() == 0.0).then_some(Int::Const(*number as i64)),
            Op::Transpose(a) | Op::Broadcast(a) | Op::Cast(a) => self.lookup(*a),
            Op::Unary(UnaryOp::Neg, a) => Some(int::negate(self.lookup(*a)?)),
            Op::Binary(op, a, b) => Some(int::binary(int_op(*op)?, self.lookup(*a)?, self.lookup(*b)?)),
            _ => None,
        }
    }

    /// Number of elements along an extent.
    pub fn size(&self, extent: &Extent) -> Int {
        let dim = |dim: &crate::nest::DimId| self.nest.dim(*dim).known.map_or(Int::Dim(*dim), Int::Const);
        match extent {
            Extent::Dim(id) => dim(id),
            Extent::Flat(dims) => {
                dims.iter().map(dim).fold(Int::Const(1), |product, size| int::binary(IntOp::Mul, product, size))
            }
        }
    }

    /// As a tile (rank 0 for a constant or a scalar).
    pub fn value(&mut self, term: Term, at: &impl ToTokens) -> Option<ValueId> {
        match term {
            Term::Tile(value) => Some(value),
            Term::Number(number, dtype) => {
                let dtype = match dtype {
                    Some(dtype) => self.infer.known(dtype),
                    None => self.infer.open(),
                };
                Some(self.push(Op::Fill(number), OpenType { dtype, axes: Vec::new() }, at))
            }
            Term::Int(value) => {
                let axes = self.infer.declared(self.tiled_axes(&value));
                let dtype = self.infer.known(Dtype::I32);
                Some(self.push(Op::Int(value), OpenType { dtype, axes }, at))
            }
            Term::Truth(predicate) => {
                let axes = self.predicate_axes(&predicate);
                Some(self.predicate(predicate, axes, at))
            }
            Term::Poison => None,
            Term::Axis(_) => {
                self.rustc(at, "a loop variable is no tile -- `iota(i)` is the tile of its coordinates");
                None
            }
            Term::Tensor(_) => {
                self.rustc(at, "a tensor is no tile -- load one by an index, `x[(i, j)]`");
                None
            }
            Term::Function(path) => {
                self.rustc(&path, format!("`{}` is not known here", path.to_token_stream()));
                None
            }
            other => {
                self.rustc(at, format!("{} stands where a tile is needed", other.describe()));
                None
            }
        }
    }

    pub fn predicate(&mut self, predicate: Predicate, axes: Vec<AxisId>, at: &impl ToTokens) -> ValueId {
        let dtype = self.infer.known(Dtype::Bool);
        self.push(Op::Predicate(predicate), OpenType { dtype, axes }, at)
    }

    /// Tiled axes along which an integer varies, in order of appearance.
    pub fn tiled_axes(&self, value: &Int) -> Vec<AxisId> {
        let mut axes = int::coordinates(value);
        axes.retain(|axis| self.infer.kind(*axis) != AxisKind::Each);
        axes
    }

    fn predicate_axes(&self, predicate: &Predicate) -> Vec<AxisId> {
        let mut axes = Vec::new();
        int::predicate_leaves(predicate, &mut |leaf| {
            for axis in self.tiled_axes(leaf) {
                if !axes.contains(&axis) {
                    axes.push(axis);
                }
            }
        });
        self.infer.declared(axes)
    }
}

fn int_op(op: BinaryOp) -> Option<IntOp> {
    Some(match op {
        BinaryOp::Add => IntOp::Add,
        BinaryOp::Sub => IntOp::Sub,
        BinaryOp::Mul => IntOp::Mul,
        BinaryOp::Div => IntOp::Div,
        BinaryOp::Rem => IntOp::Rem,
        BinaryOp::Min => IntOp::Min,
        BinaryOp::Max => IntOp::Max,
        BinaryOp::Pow | BinaryOp::And | BinaryOp::Or => return None,
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr => return None,
    })
}

fn fold(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Rem => a % b,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Pow => a.powf(b),
        BinaryOp::And | BinaryOp::Or => f64::NAN,
        BinaryOp::BitAnd => f64::from(a as i32 & b as i32),
        BinaryOp::BitOr => f64::from(a as i32 | b as i32),
        BinaryOp::BitXor => f64::from(a as i32 ^ b as i32),
        BinaryOp::Shl => f64::from((a as i32).wrapping_shl(b as i32 as u32)),
        BinaryOp::Shr => f64::from((a as i32).wrapping_shr(b as i32 as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::{BinaryOp, fold};

    #[test]
    fn constants_are_shifted_as_tiles_are() {
        assert_eq!(fold(BinaryOp::Shl, 1.0, 33.0), 2.0);
        assert_eq!(fold(BinaryOp::Shl, 1.0, -1.0), f64::from(i32::MIN));
        assert_eq!(fold(BinaryOp::Shr, -8.0, 1.0), -4.0);
        assert_eq!(fold(BinaryOp::BitXor, -1.0, 5.0), -6.0);
    }
}
