//! Method calls on dims, loop variables, integers, constants and tiles.

use super::infer::OpenType;
use super::term::Bounds;
use super::{Checker, Term, int};
use crate::ast::SMALL_POWERS;
use crate::nest::{AxisId, AxisKind, BinaryOp, CompareOp, Dtype, Extent, Int, IntOp, Op, ReduceOp, UnaryOp};
use quote::ToTokens;
use syn::{AngleBracketedGenericArguments, ExprMethodCall};

impl Checker<'_> {
    pub fn method(&mut self, call: &ExprMethodCall) -> Term {
        let receiver = self.expr(&call.receiver);
        let arguments: Vec<Term> = call.args.iter().map(|argument| self.expr(argument)).collect();
        let generics = call.turbofish.as_ref();
        self.method_by_name(&call.method.to_string(), receiver, arguments, generics, &Named { call })
    }

    pub fn method_by_name(
        &mut self,
        name: &str,
        receiver: Term,
        arguments: Vec<Term>,
        generics: Option<&AngleBracketedGenericArguments>,
        at: &impl ToTokens,
    ) -> Term {
        if receiver.is_poison() || arguments.iter().any(Term::is_poison) {
            return Term::Poison;
        }
        if matches!(name, "clone" | "value" | "into" | "size" | "len" | "get") && arguments.is_empty() {
            return match (name, &receiver) {
                ("clone" | "into", _) => receiver,
                _ => self.integer(&receiver).map_or(receiver, Term::Int),
            };
        }
        match receiver {
            Term::Extent(bounds) if is_bound(name) => self.bound(name, bounds, &arguments, at),
            Term::Axis(axis) if matches!(name, "start" | "end" | "coords") && arguments.is_empty() => {
                self.coordinate(name, axis, at)
            }
            Term::Int(Int::Axis(axis)) if name == "coords" && self.infer.kind(axis) == AxisKind::Each => {
                self.coordinate(name, axis, at)
            }
            Term::Tuple(_) | Term::Closure(_) | Term::Whole | Term::Range(..) | Term::Each(_) => {
                self.rustc(at, format!("{} has no method `{name}`", receiver.describe()))
            }
            receiver => self.operation(name, receiver, arguments, generics, at),
        }
    }

    /// `T.until(e)`, `T.from(e)`, `T.range(a..b)`.
    fn bound(&mut self, name: &str, bounds: Bounds, arguments: &[Term], at: &impl ToTokens) -> Term {
        let (from, until) = match (name, arguments) {
            ("range", [Term::Range(from, until)]) => (from.clone(), until.clone()),
            ("from", [from]) => (self.looked_up(from), None),
            ("until", [until]) => (None, self.looked_up(until)),
            _ => {
                return self.rustc(
                    at,
                    format!(
                        "`{name}` bounds a dim -- `T.from(a)`, `T.until(b)`, \
                `T.range(a..b)`"
                    ),
                );
            }
        };
        if from.is_none() && until.is_none() && !matches!(arguments, [Term::Range(None, None)]) {
            return self.rustc(at, format!("`{name}` takes integers"));
        }
        for bound in from.iter().chain(&until) {
            if let Some(axis) = self.tiled_axes(bound).first() {
                let text = format!(
                    "`{0}` stands for many coordinates, a bound is one number -- write `{0}.start()` or `{0}.end()`",
                    self.infer.name(*axis)
                );
                return self.fatal(at, text);
            }
        }
        let narrowed = |op: IntOp, old: Option<Int>, new: Option<Int>| match (old, new) {
            (Some(old), Some(new)) => Some(int::binary(op, old, new)),
            (old, new) => old.or(new),
        };
        Term::Extent(Bounds {
            extent: bounds.extent,
            from: narrowed(IntOp::Max, bounds.from, from),
            until: narrowed(IntOp::Min, bounds.until, until),
        })
    }

    fn coordinate(&mut self, name: &str, axis: AxisId, at: &impl ToTokens) -> Term {
        match name {
            "start" => Term::Int(Int::BlockStart(axis)),
            "end" => Term::Int(Int::BlockEnd(axis)),
            _ => match self.infer.extent(axis) {
                Some(Extent::Flat(dims)) => {
                    Term::Tuple((0..dims.len()).map(|part| Term::Int(Int::FlatCoord(axis, part))).collect())
                }
                _ => self.rustc(at, "only the variable of a `flat(…)` loop has `coords()`"),
            },
        }
    }

    fn operation(
        &mut self,
        name: &str,
        receiver: Term,
        arguments: Vec<Term>,
        generics: Option<&AngleBracketedGenericArguments>,
        at: &impl ToTokens,
    ) -> Term {
        if let Some(term) = self.integer_method(name, &receiver, &arguments) {
            return term;
        }
        if let (Some(op), []) = (unary(name), arguments.as_slice()) {
            return match receiver {
                Term::Number(value, dtype) if fold(op, value).is_some() => {
                    Term::Number(fold(op, value).unwrap_or(value), dtype)
                }
                other => self.unary(op, other, at),
            };
        }
        if let Some(op) = compare(name).filter(|_| arguments.len() == 1) {
            return self.compare(op, receiver, arguments[0].clone(), at);
        }
        match (name, arguments.as_slice()) {
            ("neg", []) => self.negate(receiver, at),
            ("not", []) => self.not(receiver, at),
            ("max", [other]) => self.arithmetic(BinaryOp::Max, receiver, other.clone(), at),
            ("min", [other]) => self.arithmetic(BinaryOp::Min, receiver, other.clone(), at),
            ("pow" | "powf", [other]) => self.arithmetic(BinaryOp::Pow, receiver, other.clone(), at),
            ("powi", [other]) => self.power(receiver, other.clone(), at),
            ("clamp", [low, high]) => {
                let raised = self.arithmetic(BinaryOp::Max, receiver, low.clone(), at);
                self.arithmetic(BinaryOp::Min, raised, high.clone(), at)
            }
            ("is_nan", []) => self.compare(CompareOp::Ne, receiver.clone(), receiver, at),
            ("mul_add", [factor, addend]) => {
                let product = self.arithmetic(BinaryOp::Mul, receiver, factor.clone(), at);
                self.arithmetic(BinaryOp::Add, product, addend.clone(), at)
            }
            ("and", [other]) => self.logical(BinaryOp::And, receiver, other.clone(), at),
            ("or", [other]) => self.logical(BinaryOp::Or, receiver, other.clone(), at),
            ("select", [then, otherwise]) => self.choose(receiver, then.clone(), otherwise.clone(), at),
            ("mask", [Term::Closure(condition), fill]) => self.mask(receiver, condition, fill.clone(), at),
            ("map", [function]) => self.map(vec![receiver], function.clone(), at),
            ("zip_map", [other, function]) => self.map(vec![receiver, other.clone()], function.clone(), at),
            ("t", []) => self.transpose(receiver, at),
            ("to", []) => self.to(receiver, generics, at),
            ("sum" | "max_over" | "min_over", [axis]) => self.reduce(reduction(name), receiver, Along::Named(axis), at),
            ("row_sum" | "row_max" | "row_min", []) => self.reduce(reduction(name), receiver, Along::Last, at),
            ("col_sum" | "col_max" | "col_min", []) => self.reduce(reduction(name), receiver, Along::First, at),
            _ => self.rustc(
                at,
                format!("{} has no method `{name}` with {} arguments", receiver.describe(), arguments.len()),
            ),
        }
    }

    fn integer_method(&mut self, name: &str, receiver: &Term, arguments: &[Term]) -> Option<Term> {
        let value = self.integer(receiver)?;
        let mut integers = Vec::new();
        for argument in arguments {
            integers.push(self.integer(argument)?);
        }
        Some(Term::Int(match (name, integers.as_slice()) {
            ("min", [other]) => int::binary(IntOp::Min, value, other.clone()),
            ("max", [other]) => int::binary(IntOp::Max, value, other.clone()),
            ("clamp", [low, high]) => {
                int::binary(IntOp::Min, int::binary(IntOp::Max, value, low.clone()), high.clone())
            }
            ("abs", []) => int::binary(IntOp::Max, value.clone(), int::negate(value)),
            ("pow", [Int::Const(power)]) if (0..=8).contains(power) => {
                (0..*power).fold(Int::Const(1), |product, _| int::binary(IntOp::Mul, product, value.clone()))
            }
            ("div_ceil", [other]) => {
                let raised = int::binary(IntOp::Sub, int::binary(IntOp::Add, value, other.clone()), Int::Const(1));
                int::binary(IntOp::Div, raised, other.clone())
            }
            ("rem_euclid", [other @ Int::Const(1..)]) => {
                let rest = int::binary(IntOp::Rem, value, other.clone());
                int::binary(IntOp::Rem, int::binary(IntOp::Add, rest, other.clone()), other.clone())
            }
            _ => return None,
        }))
    }

    /// A small constant power is a product.
    fn power(&mut self, base: Term, power: Term, at: &impl ToTokens) -> Term {
        match power {
            Term::Int(Int::Const(power)) if u32::try_from(power).is_ok_and(|power| SMALL_POWERS.contains(&power)) => {
                let mut product = base.clone();
                for _ in 1..power {
                    product = self.arithmetic(BinaryOp::Mul, product, base.clone(), at);
                }
                product
            }
            _ => self.fatal(at, "`powi` takes 1, 2, 3 or 4 -- other exponents are `powf`'s"),
        }
    }

    fn transpose(&mut self, receiver: Term, at: &impl ToTokens) -> Term {
        let Some(value) = self.value(receiver, at) else { return Term::Poison };
        let OpenType { dtype, mut axes } = self.ty(value);
        if axes.len() != 2 {
            return self.rustc(at, format!("`t` turns a tile of two axes, this one spans {}", self.axis_names(&axes)));
        }
        axes.reverse();
        Term::Tile(self.push(Op::Transpose(value), OpenType { dtype, axes }, at))
    }

    fn to(&mut self, receiver: Term, generics: Option<&AngleBracketedGenericArguments>, at: &impl ToTokens) -> Term {
        let dtype = self.turbofish(generics);
        if let Some(known) = self.infer.dtype(dtype) {
            return self.convert(receiver, known, at);
        }
        let Some(value) = self.value(receiver, at) else { return Term::Poison };
        let axes = self.ty(value).axes;
        Term::Tile(self.push(Op::Cast(value), OpenType { dtype, axes }, at))
    }

    fn reduce(&mut self, op: ReduceOp, receiver: Term, along: Along<'_>, at: &impl ToTokens) -> Term {
        let Some(value) = self.value(receiver, at) else { return Term::Poison };
        let OpenType { dtype, mut axes } = self.ty(value);
        let position = match &along {
            Along::Last => axes.len().checked_sub(1),
            Along::First => (!axes.is_empty()).then_some(0),
            Along::Named(Term::Axis(wanted)) => axes.iter().position(|axis| self.infer.same_axis(*axis, *wanted)),
            Along::Named(Term::Whole) => axes.iter().rposition(|axis| self.infer.kind(*axis) == AxisKind::Whole),
            Along::Named(other) => {
                let text = format!("a reduction runs over a loop variable or `..`, this is {}", other.describe());
                return self.rustc(at, text);
            }
        };
        let Some(position) = position else {
            return self.rustc(
                at,
                format!(
                    "this tile spans {}, not the axis \
                that is reduced",
                    self.axis_names(&axes)
                ),
            );
        };
        if self.infer.dtype(dtype) == Some(Dtype::Bool) {
            return self
                .ours(at, "a reduction of bools is not supported yet -- turn them into numbers with `.to::<f32>()`");
        }
        let axis = axes.remove(position);
        Term::Tile(self.push(Op::Reduce(op, value, axis), OpenType { dtype, axes }, at))
    }
}

enum Along<'a> {
    Named(&'a Term),
    First,
    Last,
}

/// A method call as errors show it: from the name on, the receiver being faultless.
struct Named<'a> {
    call: &'a ExprMethodCall,
}

impl ToTokens for Named<'_> {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        self.call.method.to_tokens(tokens);
        self.call.turbofish.to_tokens(tokens);
        self.call.paren_token.surround(tokens, |inner| self.call.args.to_tokens(inner));
    }
}

fn is_bound(name: &str) -> bool {
    matches!(name, "until" | "from" | "range")
}

fn reduction(name: &str) -> ReduceOp {
    match name {
        "max_over" | "row_max" | "col_max" => ReduceOp::Max,
        "min_over" | "row_min" | "col_min" => ReduceOp::Min,
        _ => ReduceOp::Sum,
    }
}

fn compare(name: &str) -> Option<CompareOp> {
    Some(match name {
        "lt" => CompareOp::Lt,
        "le" => CompareOp::Le,
        "gt" => CompareOp::Gt,
        "ge" => CompareOp::Ge,
        "eq" => CompareOp::Eq,
        "ne" => CompareOp::Ne,
        _ => return None,
    })
}

pub fn unary(name: &str) -> Option<UnaryOp> {
    Some(match name {
        "abs" => UnaryOp::Abs,
        "exp" => UnaryOp::Exp,
        "exp2" => UnaryOp::Exp2,
        "log" | "ln" => UnaryOp::Log,
        "log2" => UnaryOp::Log2,
        "sqrt" => UnaryOp::Sqrt,
        "rsqrt" => UnaryOp::Rsqrt,
        "recip" => UnaryOp::Recip,
        "tanh" => UnaryOp::Tanh,
        "sin" => UnaryOp::Sin,
        "cos" => UnaryOp::Cos,
        "erf" => UnaryOp::Erf,
        "floor" => UnaryOp::Floor,
        "ceil" => UnaryOp::Ceil,
        "round" => UnaryOp::Round,
        _ => return None,
    })
}

fn fold(op: UnaryOp, value: f64) -> Option<f64> {
    Some(match op {
        UnaryOp::Neg => -value,
        UnaryOp::Abs => value.abs(),
        UnaryOp::Exp => value.exp(),
        UnaryOp::Exp2 => value.exp2(),
        UnaryOp::Log => value.ln(),
        UnaryOp::Log2 => value.log2(),
        UnaryOp::Sqrt => value.sqrt(),
        UnaryOp::Rsqrt => 1.0 / value.sqrt(),
        UnaryOp::Recip => 1.0 / value,
        UnaryOp::Tanh => value.tanh(),
        UnaryOp::Sin => value.sin(),
        UnaryOp::Cos => value.cos(),
        UnaryOp::Floor => value.floor(),
        UnaryOp::Ceil => value.ceil(),
        UnaryOp::Round => value.round(),
        UnaryOp::Erf | UnaryOp::Not => return None,
    })
}
