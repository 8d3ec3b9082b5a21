//! Expressions, with as few parentheses as C++ needs.

use super::Writer;
use super::words::{FLOAT_FUNCTIONS, compound, cpp, float, int, operator};
use crate::ast::{DtypeRef, SMALL_POWERS};
use crate::constant::{self, Constant};
use crate::nest::Dtype;
use crate::program::is_ordinary;
use quote::ToTokens;
use syn::{BinOp, Block, Expr, ExprCall, ExprCast, ExprIf, ExprLit, ExprMethodCall, Lit, Path, Stmt, Type, UnOp};

/// An expression's text and type; `binds` is its precedence, so that parentheses stand only where they must.
pub(super) struct Scalar {
    pub(super) text: String,
    pub(super) dtype: Dtype,
    pub(super) binds: u8,
}

pub(super) const PRIMARY: u8 = 15;
pub(super) const UNARY: u8 = 14;

impl Writer<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Scalar {
        match expr {
            Expr::Paren(inner) => self.expr(&inner.expr),
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Reference(inner) => self.expr(&inner.expr),
            Expr::Lit(lit) => self.literal(lit),
            Expr::Path(path) => self.path(&path.path),
            Expr::Unary(unary) => {
                let value = self.expr(&unary.expr);
                let sign = match unary.op {
                    UnOp::Neg(_) => "-",
                    UnOp::Not(_) if value.dtype == Dtype::Bool => "!",
                    UnOp::Not(_) => "~",
                    _ => return value,
                };
                // `--x` would be a decrement.
                let operand =
                    if value.text.starts_with('-') { format!("({})", value.text) } else { inside(&value, UNARY) };
                Scalar { text: format!("{sign}{operand}"), dtype: value.dtype, binds: UNARY }
            }
            Expr::Binary(binary) => {
                let Some((sign, binds, compares)) = operator(&binary.op) else {
                    return self.fault(binary.op, "this operator is not supported in a device function yet");
                };
                if let (BinOp::Div(_), Some((number, rest))) = (&binary.op, sum_with_a_number(&binary.right)) {
                    let (left, rest) = (self.expr(&binary.left), self.expr(rest));
                    let text = format!("tracea::over_sum({}, {}, {})", left.text, float(number), rest.text);
                    return Scalar { text, dtype: Dtype::F32, binds: PRIMARY };
                }
                let (left, right) = (self.expr(&binary.left), self.expr(&binary.right));
                if sign == "%" && left.dtype == Dtype::F32 {
                    return self.fault(binary.op, "`%` of floats is not supported yet -- `x - (x / y).floor() * y`");
                }
                let dtype = if compares { Dtype::Bool } else { left.dtype };
                let text = format!("{} {sign} {}", inside(&left, binds), inside(&right, binds + 1));
                Scalar { text, dtype, binds }
            }
            Expr::Cast(cast) => self.cast(cast),
            Expr::If(branch) => self.choice(branch),
            Expr::Block(block) => match block.block.stmts.as_slice() {
                [Stmt::Expr(value, None)] => self.expr(value),
                _ => self.fault(
                    block,
                    "a block with statements inside an expression is not supported yet -- give it a `let` of its own",
                ),
            },
            Expr::MethodCall(call) => self.method(call),
            Expr::Call(call) => self.call(call),
            Expr::ForLoop(form) => self.fault(form.for_token, "loops are not supported in a device function yet"),
            Expr::While(form) => self.fault(form.while_token, "loops are not supported in a device function yet"),
            Expr::Loop(form) => self.fault(form.loop_token, "loops are not supported in a device function yet"),
            Expr::Match(form) => {
                self.fault(form.match_token, "`match` is not supported in a device function yet -- use `if`")
            }
            Expr::Return(form) => self.fault(
                form.return_token,
                "`return` inside an expression is not supported yet -- make it the last expression",
            ),
            other => self.fault(other, "this expression is not supported in a device function yet"),
        }
    }

    fn literal(&mut self, lit: &ExprLit) -> Scalar {
        let (text, dtype) = match &lit.lit {
            Lit::Float(number) => (number.base10_parse::<f32>().map(float), Dtype::F32),
            Lit::Int(number) if number.suffix() == "f32" => (
                number.base10_digits().parse::<f32>().map(float).map_err(|error| syn::Error::new_spanned(lit, error)),
                Dtype::F32,
            ),
            Lit::Int(number) => (number.base10_parse::<i32>().map(|value| value.to_string()), Dtype::I32),
            Lit::Bool(flag) => (Ok(flag.value.to_string()), Dtype::Bool),
            other => return self.fault(other, "a device function knows numbers and bools only"),
        };
        match text {
            Ok(text) => Scalar { text, dtype, binds: PRIMARY },
            Err(error) => {
                self.errors.push(error);
                Scalar { text: "0".into(), dtype, binds: PRIMARY }
            }
        }
    }

    fn path(&mut self, path: &Path) -> Scalar {
        if let Some(name) = path.get_ident() {
            if let Some((_, symbol, dtype)) = self.variables.iter().rev().find(|(known, ..)| known == name) {
                return Scalar { text: symbol.clone(), dtype: *dtype, binds: PRIMARY };
            }
            let text = format!(
                "the value of `{name}` is not known while the function is translated -- pass it as an argument, \
                    or put the `const` inside"
            );
            return self.fault(path, &text);
        }
        let known = constant::lookup(path, DtypeRef::named);
        match known {
            Some(Constant::Float(value, _)) => Scalar { text: float(value as f32), dtype: Dtype::F32, binds: PRIMARY },
            Some(Constant::Int(value)) => Scalar { text: int(value), dtype: Dtype::I32, binds: PRIMARY },
            None => self.fault(
                path,
                "the value of this constant is not known while the function is translated -- write it as a literal",
            ),
        }
    }

    fn cast(&mut self, cast: &ExprCast) -> Scalar {
        let value = self.expr(&cast.expr);
        let to = match &*cast.ty {
            Type::Path(path) if path.path.is_ident("f32") => Dtype::F32,
            Type::Path(path) if path.path.is_ident("i32") => Dtype::I32,
            other => {
                return self
                    .fault(other, "a device function computes in `f32`, `i32` and `bool` -- cast to one of them");
            }
        };
        match (value.dtype, to) {
            (from, to) if from == to => value,
            (Dtype::F32, Dtype::I32) => self.fault(
                cast,
                "a float as an integer is not supported in a device \
                function yet -- `floor` and `round` give whole floats",
            ),
            _ => Scalar { text: format!("{}({})", cpp(to), value.text), dtype: to, binds: PRIMARY },
        }
    }

    /// `cond ? a : b`.
    fn choice(&mut self, branch: &ExprIf) -> Scalar {
        if !is_ternary(branch) {
            return self.fault(
                branch.if_token,
                "an `if` with statements inside an expression is not supported yet -- give it a `let` of its own",
            );
        }
        let condition = self.expr(&branch.cond);
        let (Some(Stmt::Expr(then, None)), Some((_, otherwise))) =
            (branch.then_branch.stmts.first(), &branch.else_branch)
        else {
            return self.fault(branch.if_token, "this `if` has no value");
        };
        let (then, otherwise) = (self.expr(then), self.expr(otherwise));
        let text = format!("{} ? {} : {}", inside(&condition, 2), inside(&then, 2), inside(&otherwise, 1));
        Scalar { text, dtype: then.dtype, binds: 1 }
    }

    fn method(&mut self, call: &ExprMethodCall) -> Scalar {
        let receiver = self.expr(&call.receiver);
        let arguments: Vec<Scalar> = call.args.iter().map(|argument| self.expr(argument)).collect();
        let name = call.method.to_string();
        self.function_of(&name, receiver, arguments, call)
    }

    fn function_of(&mut self, name: &str, receiver: Scalar, arguments: Vec<Scalar>, at: &impl ToTokens) -> Scalar {
        let dtype = receiver.dtype;
        let made = |text: String| Scalar { text, dtype, binds: PRIMARY };
        match (name, arguments.as_slice()) {
            ("clone", []) => receiver,
            ("ln", []) if dtype == Dtype::F32 => made(format!("tracea::log({})", receiver.text)),
            ("max" | "min", [other]) => made(format!("tracea::{name}({}, {})", receiver.text, other.text)),
            ("abs", []) => made(format!("tracea::abs({})", receiver.text)),
            ("clamp", [low, high]) => {
                made(format!("tracea::min(tracea::max({}, {}), {})", receiver.text, low.text, high.text))
            }
            ("powf" | "pow", [power]) if dtype == Dtype::F32 => {
                made(format!("tracea::pow({}, {})", receiver.text, power.text))
            }
            ("powi", [power]) if power.text.parse().is_ok_and(|power| SMALL_POWERS.contains(&power)) => {
                let count = power.text.parse().unwrap_or(1);
                // Pure, so that it may be computed before the expression that it stands in.
                self.temporaries += 1;
                let base = format!("base_{}", self.temporaries);
                self.line(&format!("const {} {base} = {};", cpp(dtype), receiver.text));
                Scalar {
                    text: vec![base.as_str(); count].join(" * "),
                    dtype,
                    binds: if count > 1 { 12 } else { PRIMARY },
                }
            }
            ("is_nan", []) if dtype == Dtype::F32 => {
                let x = inside(&receiver, 9);
                Scalar { text: format!("{x} != {x}"), dtype: Dtype::Bool, binds: 8 }
            }
            ("mul_add", [factor, addend]) => Scalar {
                text: format!("{} * {} + {}", inside(&receiver, 12), inside(factor, 13), inside(addend, 12)),
                dtype,
                binds: 11,
            },
            (_, []) if dtype == Dtype::F32 && FLOAT_FUNCTIONS.contains(&name) => {
                made(format!("tracea::{name}({})", receiver.text))
            }
            _ => {
                let text = format!(
                    "`{name}` is no function of a device scalar -- there are max, min, clamp, powf, powi, mul_add, is_nan, {}",
                    FLOAT_FUNCTIONS.join(", ")
                );
                self.fault(at, &text)
            }
        }
    }

    fn call(&mut self, call: &ExprCall) -> Scalar {
        let Expr::Path(function) = bare(&call.func) else {
            return self.fault(&call.func, "a device function calls functions by name only");
        };
        let path = &function.path;
        let mut arguments: Vec<Scalar> = call.args.iter().map(|argument| self.expr(argument)).collect();
        if path.is_ident(&self.signature.name) {
            return self.fault(
                path,
                &format!(
                    "`{}` calls itself, and recursion is not allowed: the device has no stack for it",
                    self.signature.name
                ),
            );
        }
        let Some(last) = path.segments.last().map(|segment| segment.ident.to_string()) else {
            return self.fault(path, "this path names nothing");
        };
        let owner = path.segments.iter().rev().nth(1).map(|segment| segment.ident.to_string());
        if matches!(owner.as_deref(), Some("f32" | "i32" | "cmp" | "Real")) && !arguments.is_empty() {
            let receiver = arguments.remove(0);
            return self.function_of(&last, receiver, arguments, call);
        }
        let alias = self.alias(&last, path);
        let arguments: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
        // Its result is a float unless a `let` says otherwise: only the callee's own signature knows.
        Scalar { text: format!("${alias}({})", arguments.join(", ")), dtype: Dtype::F32, binds: PRIMARY }
    }

    fn alias(&mut self, last: &str, path: &Path) -> String {
        let written = path.to_token_stream().to_string();
        if let Some((alias, _)) = self.uses.iter().find(|(_, known)| known.to_token_stream().to_string() == written) {
            return alias.clone();
        }
        self.temporaries += 1;
        // `$name` is the function itself.
        let clash = last == "name" || self.uses.iter().any(|(alias, _)| alias == last);
        let alias = if clash { format!("{last}_{}", self.temporaries) } else { last.to_string() };
        self.uses.push((alias.clone(), path.clone()));
        alias
    }
}

/// What `over_sum` divides by: a number of ordinary size, and what is never negative.
fn sum_with_a_number(expr: &Expr) -> Option<(f32, &Expr)> {
    let Expr::Binary(sum) = bare(expr) else { return None };
    if !matches!(sum.op, BinOp::Add(_)) {
        return None;
    }
    let of = |number: &Expr, rest: &'_ Expr| {
        let number = float_value(number).filter(|number| is_ordinary(f64::from(*number)))?;
        is_never_negative(rest).then_some(number)
    };
    of(&sum.left, &sum.right)
        .map(|number| (number, &*sum.right))
        .or_else(|| of(&sum.right, &sum.left).map(|number| (number, &*sum.left)))
}

fn float_value(expr: &Expr) -> Option<f32> {
    match bare(expr) {
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => number.base10_parse().ok(),
        _ => None,
    }
}

/// Whatever its variables are, but for a NaN.
fn is_never_negative(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::MethodCall(call) if matches!(call.method.to_string().as_str(), "exp" | "exp2" | "abs" | "sqrt") => true,
        Expr::Binary(binary) => match binary.op {
            BinOp::Mul(_) | BinOp::Add(_) if is_never_negative(&binary.left) && is_never_negative(&binary.right) => {
                true
            }
            BinOp::Mul(_) => bare(&binary.left) == bare(&binary.right),
            _ => false,
        },
        expr => float_value(expr).is_some_and(|number| number >= 0.0),
    }
}

/// Both branches are plain expressions.
pub(super) fn is_ternary(branch: &ExprIf) -> bool {
    let plain = |block: &Block| matches!(block.stmts.as_slice(), [Stmt::Expr(expr, None)] if is_plain(expr));
    plain(&branch.then_branch)
        && match &branch.else_branch {
            Some((_, otherwise)) => match &**otherwise {
                Expr::Block(block) => plain(&block.block),
                Expr::If(nested) => is_ternary(nested),
                _ => false,
            },
            None => false,
        }
}

pub(super) fn is_plain(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::If(branch) => is_ternary(branch),
        Expr::Assign(_) | Expr::Return(_) => false,
        Expr::Binary(binary) => compound(&binary.op).is_none(),
        Expr::Block(block) => matches!(block.block.stmts.as_slice(), [Stmt::Expr(expr, None)] if is_plain(expr)),
        _ => true,
    }
}

pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        other => other,
    }
}

/// Parenthesised where it binds less than its surroundings ask.
pub(super) fn inside(value: &Scalar, asked: u8) -> String {
    if value.binds < asked { format!("({})", value.text) } else { value.text.clone() }
}
