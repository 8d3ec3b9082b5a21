//! Expressions, by their syntactic form.

use super::infer::OpenType;
use super::term::Bounds;
use super::{Checker, Term, int};
use crate::ast::{ConstArgument, DtypeRef, const_argument, is_assignment, literal_dim};
use crate::constant::{self, Constant};
use crate::nest::{Dtype, Extent, Int, Op, Predicate, ValueId};
use proc_macro2::Ident;
use quote::ToTokens;
use syn::{
    Expr, ExprIf, ExprLit, ExprPath, ExprRange, GenericArgument, Lit, Path, PathArguments, RangeLimits, Type, UnOp,
};

impl Checker<'_> {
    pub fn expr(&mut self, expr: &Expr) -> Term {
        match expr {
            Expr::Paren(inner) => self.expr(&inner.expr),
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Reference(inner) => self.expr(&inner.expr),
            Expr::Block(block) if block.label.is_none() => self.block(&block.block),
            Expr::Lit(lit) => self.literal(lit),
            Expr::Path(path) => self.path(path),
            Expr::Tuple(tuple) => Term::Tuple(tuple.elems.iter().map(|part| self.expr(part)).collect()),
            Expr::Unary(unary) => {
                let term = self.expr(&unary.expr);
                match unary.op {
                    UnOp::Neg(_) => self.negate(term, unary),
                    UnOp::Not(_) => self.not(term, unary),
                    _ => term,
                }
            }
            Expr::Binary(binary) if is_assignment(&binary.op) => self.assign_operation(binary),
            Expr::Binary(binary) => {
                let left = self.expr(&binary.left);
                let right = self.expr(&binary.right);
                self.operate(&binary.op, left, right, binary)
            }
            Expr::Assign(assign) => self.assign(assign),
            Expr::Cast(cast) => {
                let term = self.expr(&cast.expr);
                self.cast(term, &cast.ty, cast)
            }
            Expr::If(branch) => self.branch(branch),
            Expr::Index(index) => {
                let tensor = self.expr(&index.expr);
                let at = self.expr(&index.index);
                self.load(index, tensor, at)
            }
            Expr::Range(range) => self.range(range),
            Expr::MethodCall(call) => self.method(call),
            Expr::Call(call) => self.call(call),
            Expr::Closure(closure) => Term::Closure(closure.clone()),
            Expr::Macro(call) => self.macro_call(&call.mac),
            Expr::Field(field) => {
                let base = self.expr(&field.base);
                match (base, &field.member) {
                    (Term::Tuple(parts), syn::Member::Unnamed(index)) if (index.index as usize) < parts.len() => {
                        parts[index.index as usize].clone()
                    }
                    (Term::Poison, _) => Term::Poison,
                    _ => self.rustc(field, "only tuples have fields in a kernel"),
                }
            }
            Expr::ForLoop(form) => self.fatal(
                form.for_token,
                "`for` is not allowed in a kernel -- a loop is \
                `tile!(for k in K { … })`, a scalar one `tile!(for r in each(R) { … })`",
            ),
            Expr::While(form) => self.fatal(
                form.while_token,
                "`while` is not allowed in a kernel: the device \
                must know its loops -- use `tile!` over a dim or a range of it",
            ),
            Expr::Loop(form) => self.fatal(
                form.loop_token,
                "`loop` is not allowed in a kernel: the device must \
                know its loops -- use `tile!` over a dim or a range of it",
            ),
            Expr::Match(form) => self.fatal(
                form.match_token,
                "`match` is not supported in a kernel yet -- use \
                `if` on a flag, or `select`",
            ),
            Expr::Return(form) => self.fatal(
                form.return_token,
                "`return` is not allowed in a kernel: every \
                element is computed -- use `if` on a flag, or `select`",
            ),
            Expr::Break(form) => self.fatal(
                form.break_token,
                "`break` is not allowed in a kernel -- bound the \
                loop's range, `T.until(…)`",
            ),
            Expr::Continue(form) => self.fatal(
                form.continue_token,
                "`continue` is not allowed in a kernel -- \
                bound the loop's range, or mask the tile",
            ),
            Expr::Unsafe(form) => self.fatal(form.unsafe_token, "`unsafe` is not allowed in a kernel"),
            Expr::Array(form) => self.fatal(
                form,
                "arrays are not supported in a kernel yet -- use a \
                tensor argument",
            ),
            Expr::Try(form) => self.fatal(
                form.question_token,
                "`?` is not allowed in a kernel: nothing in \
                it can fail",
            ),
            other => self.fatal(other, "this expression is not supported in a kernel yet"),
        }
    }

    fn literal(&mut self, lit: &ExprLit) -> Term {
        match &lit.lit {
            Lit::Int(number) if DtypeRef::named(number.suffix()).is_some_and(|dtype| dtype != Dtype::I32) => {
                number.base10_digits().parse().map_or(Term::Poison, |value| Term::Number(value, Some(Dtype::F32)))
            }
            Lit::Int(number) => match number.base10_parse::<i64>() {
                Ok(value) if i32::try_from(value).is_ok() => Term::Int(Int::Const(value)),
                _ => self.ours(lit, "integers in a kernel are `i32`, and this number is larger"),
            },
            Lit::Float(number) => match number.base10_parse::<f64>() {
                Ok(value) => Term::Number(value, DtypeRef::named(number.suffix())),
                Err(error) => {
                    self.failure.ours.push(error);
                    Term::Poison
                }
            },
            Lit::Bool(flag) => Term::Truth(Predicate::Const(flag.value)),
            other => self.fatal(other, "a kernel knows numbers and bools only"),
        }
    }

    fn path(&mut self, expr: &ExprPath) -> Term {
        let Some(name) = expr.path.get_ident() else {
            if let Some(size) = self.constant_dim(&expr.path) {
                return size;
            }
            return match constant::lookup(&expr.path, |name| self.named_dtype(name)) {
                Some(Constant::Float(value, dtype)) => Term::Number(value, dtype),
                Some(Constant::Int(value)) => Term::Int(Int::Const(value)),
                None => Term::Function(expr.path.clone()),
            };
        };
        if let Some(place) = self.scopes.find(name) {
            let depth = self.depth;
            let variable = self.scopes.get_mut(place);
            variable.read_in_loop |= variable.depth < depth;
            return variable.term.clone();
        }
        let text = name.to_string();
        if text.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_') {
            return self.fatal(
                name,
                format!(
                    "the value of `{name}` is not known while the kernel is compiled -- \
                pass it as an argument, or put the `const` inside the kernel"
                ),
            );
        }
        Term::Function(expr.path.clone())
    }

    /// `Const::<64>` as a dim to loop over.
    fn constant_dim(&mut self, path: &Path) -> Option<Term> {
        match const_argument(path)? {
            ConstArgument::Size(size) => {
                let dim = self.dim(literal_dim(size), Some(size));
                Some(Term::Extent(Bounds::of(Extent::Dim(dim))))
            }
            ConstArgument::Name(name) => {
                let place = self.scopes.find(name)?;
                Some(self.scopes.get(place).term.clone())
            }
        }
    }

    pub fn named_dtype(&self, name: &Ident) -> Option<Dtype> {
        self.instance.dtype(&DtypeRef::Generic(name.clone())).or_else(|| DtypeRef::named(name))
    }

    /// `f32`, `T`, `T::Acc`; `None` for `_` and for what is no dtype.
    pub fn dtype_of(&mut self, ty: &Type) -> Option<Dtype> {
        match ty {
            Type::Paren(inner) => self.dtype_of(&inner.elem),
            Type::Group(inner) => self.dtype_of(&inner.elem),
            Type::Path(path) => {
                let segments = &path.path.segments;
                let named = segments.last().and_then(|last| self.named_dtype(&last.ident));
                let is_acc =
                    segments.len() == 2 && segments[1].ident == "Acc" && self.named_dtype(&segments[0].ident).is_some();
                named.or(is_acc.then_some(Dtype::F32))
            }
            _ => None,
        }
    }

    /// The dtype of `::<f32>`, open where it is left out.
    pub fn turbofish(&mut self, arguments: Option<&syn::AngleBracketedGenericArguments>) -> super::infer::Slot {
        match arguments.and_then(|arguments| arguments.args.first()) {
            Some(GenericArgument::Type(Type::Infer(_))) | None => self.infer.open(),
            Some(GenericArgument::Type(ty)) => match self.dtype_of(ty) {
                Some(dtype) => self.infer.known(dtype),
                None => {
                    self.rustc(
                        ty,
                        "this is no dtype -- `f16`, `bf16`, `tf32`, `f32`, `i32`, or a generic bounded by `Float`",
                    );
                    self.infer.open()
                }
            },
            Some(other) => {
                self.rustc(other, "this is no dtype");
                self.infer.open()
            }
        }
    }

    /// `e as f32`, `e as i32`.
    pub fn cast(&mut self, term: Term, ty: &Type, at: &impl ToTokens) -> Term {
        let integers = ["usize", "isize", "i64", "u32", "u64"];
        let integer = matches!(ty, Type::Path(path) if integers.iter().any(|name| path.path.is_ident(name)));
        let dtype = if integer { Some(Dtype::I32) } else { self.dtype_of(ty) };
        let Some(dtype) = dtype else {
            return match term {
                // `f64` is wide enough for any constant; its use gives the dtype.
                Term::Number(value, _) if matches!(ty, Type::Path(path) if path.path.is_ident("f64")) => {
                    Term::Number(value, None)
                }
                Term::Poison => Term::Poison,
                _ => self.ours(
                    ty,
                    "a kernel computes in `f16`, `bf16`, `tf32`, `f32` and `i32` -- cast to \
                        one of them",
                ),
            };
        };
        self.convert(term, dtype, at)
    }

    pub fn convert(&mut self, term: Term, dtype: Dtype, at: &impl ToTokens) -> Term {
        if let (Dtype::I32, Some(value)) = (dtype, self.integer(&term)) {
            return Term::Int(value);
        }
        match (term, dtype) {
            (Term::Number(value, _), Dtype::I32) => Term::Int(Int::Const(f64_to_i32(value))),
            (Term::Number(value, _), dtype) => Term::Number(value, Some(dtype)),
            (Term::Int(Int::Const(value)), dtype) => Term::Number(value as f64, Some(dtype)),
            (term, dtype) => {
                let term = self.integer(&term).map_or(term, Term::Int);
                let slot = self.infer.known(dtype);
                let Some(value) = self.value(term, at) else { return Term::Poison };
                let axes = self.ty(value).axes;
                Term::Tile(self.push(Op::Cast(value), OpenType { dtype: slot, axes }, at))
            }
        }
    }

    /// `let x: f32 = 2.0` fixes a constant's dtype.
    pub fn annotated(&mut self, term: Term, ty: &Type) -> Term {
        match (term, self.dtype_of(ty)) {
            (Term::Number(value, None), dtype @ Some(_)) => Term::Number(value, dtype),
            (Term::Tile(value), _) => {
                if let Some(dtype) = tile_dtype(ty).and_then(|ty| self.dtype_of(&ty)) {
                    let known = self.infer.known(dtype);
                    let own = self.ty(value).dtype;
                    self.infer.unify(own, known);
                }
                Term::Tile(value)
            }
            (other, _) => other,
        }
    }

    fn range(&mut self, range: &ExprRange) -> Term {
        if range.start.is_none() && range.end.is_none() {
            return Term::Whole;
        }
        let mut end = |end: &Option<Box<Expr>>| -> Result<Option<Int>, ()> {
            let Some(expr) = end else { return Ok(None) };
            let term = self.expr(expr);
            match self.looked_up(&term) {
                Some(value) => Ok(Some(value)),
                None => {
                    if !term.is_poison() {
                        self.rustc(expr, format!("a range ends at integers, this is {}", term.describe()));
                    }
                    Err(())
                }
            }
        };
        let (Ok(from), Ok(until)) = (end(&range.start), end(&range.end)) else { return Term::Poison };
        let until = match range.limits {
            RangeLimits::HalfOpen(_) => until,
            RangeLimits::Closed(_) => until.map(|last| int::binary(crate::nest::IntOp::Add, last, Int::Const(1))),
        };
        Term::Range(from, until)
    }

    /// Folded where the condition is known; in a closure, a choice by element.
    fn branch(&mut self, branch: &ExprIf) -> Term {
        if let Expr::Let(form) = &*branch.cond {
            return self.fatal(form.let_token, "`if let` is not allowed in a kernel: no value of it has variants");
        }
        let condition = self.expr(&branch.cond);
        match condition {
            Term::Poison => Term::Poison,
            Term::Truth(Predicate::Const(true)) => self.block(&branch.then_branch),
            Term::Truth(Predicate::Const(false)) => match &branch.else_branch {
                Some((_, otherwise)) => self.expr(otherwise),
                None => Term::UNIT,
            },
            Term::Truth(_) | Term::Tile(_) if self.closures > 0 => {
                let then = self.block(&branch.then_branch);
                let Some((_, otherwise)) = &branch.else_branch else {
                    return self.rustc(branch.if_token, "this `if` has no `else`, so some elements have no value");
                };
                let otherwise = self.expr(otherwise);
                self.choose(condition, then, otherwise, branch)
            }
            Term::Truth(_) => self.fatal(
                &branch.cond,
                "`if` on a number that is known only at launch is not \
                supported yet -- use `min` and `max` on integers, `mask` or `select` on tiles",
            ),
            Term::Tile(_) => self.fatal(
                &branch.cond,
                "`if` on a tile has an answer for each element -- use \
                `select(cond, a, b)` or `map` with a closure",
            ),
            other => self.rustc(&branch.cond, format!("`if` asks for a bool, this is {}", other.describe())),
        }
    }

    /// Element-wise choice.
    pub fn choose(&mut self, condition: Term, then: Term, otherwise: Term, at: &impl ToTokens) -> Term {
        if condition.is_poison() || then.is_poison() || otherwise.is_poison() {
            return Term::Poison;
        }
        match (&condition, &then, &otherwise) {
            (Term::Truth(Predicate::Const(true)), ..) => return then,
            (Term::Truth(Predicate::Const(false)), ..) => return otherwise,
            (Term::Truth(asked), Term::Truth(a), Term::Truth(b)) => {
                let yes = int::and(asked.clone(), a.clone());
                let no = int::and(int::not(asked.clone()), b.clone());
                return Term::Truth(int::or(yes, no));
            }
            _ => {}
        }
        let values = (self.value(condition, at), self.value(then, at), self.value(otherwise, at));
        let (Some(condition), Some(then), Some(otherwise)) = values else { return Term::Poison };
        self.select(condition, then, otherwise, at)
    }

    pub fn select(&mut self, condition: ValueId, then: ValueId, otherwise: ValueId, at: &impl ToTokens) -> Term {
        let Some((then, otherwise)) = self.same_dtype(then, otherwise, at) else { return Term::Poison };
        let Some(arms) = self.union(then, otherwise, at) else { return Term::Poison };
        let asked = self.ty(condition).axes;
        let Some(axes) = self.infer.union(&asked, &arms) else {
            let text = format!(
                "{} chooses among {} -- turn one \
                    with `.t()`",
                self.axis_names(&asked),
                self.axis_names(&arms)
            );
            return self.rustc(at, text);
        };
        let dtype = self.ty(then).dtype;
        Term::Tile(self.push(Op::Select(condition, then, otherwise), OpenType { dtype, axes }, at))
    }
}

/// `f32` of `Tile<f32, _>`.
fn tile_dtype(ty: &Type) -> Option<Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Tile")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(ty)) => Some(ty.clone()),
        _ => None,
    }
}

/// As Rust's `as`.
fn f64_to_i32(value: f64) -> i64 {
    i64::from(value as i32)
}
