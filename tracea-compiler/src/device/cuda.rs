//! The body of a `#[device]` function as CUDA text.
//!
//! ```text
//! if x > 0.0 { x } else { a * x }        =>  x > 0.0f ? x : a * x
//! let t = x.tanh(); 0.5 * (1.0 + t)      =>  const float t = tanh(x);  return 0.5f * (1.0f + t);
//! sigmoid(x)                             =>  $sigmoid(x), the runtime puts that function's symbol in
//! ```
//!
//! An `if` whose branches are expressions becomes `?:`; one with statements becomes a C++ `if` that assigns or returns.

use super::Signature;
use crate::errors::Errors;
use crate::nest::Dtype;
use proc_macro2::Ident;
use quote::ToTokens;
use std::fmt::Write;
use syn::{
    BinOp, Block, Expr, ExprCall, ExprCast, ExprIf, ExprLit, ExprMethodCall, Item, Lit, Local, Pat, Path, Stmt, Type,
    UnOp,
};

pub struct Text {
    pub source: String,
    /// Device functions that this one calls, by the alias in the text.
    pub uses: Vec<(String, Path)>,
}

pub fn translate(signature: &Signature, block: &Block, errors: &mut Errors) -> Text {
    let mut writer = Writer {
        signature,
        errors,
        out: String::new(),
        indent: 1,
        uses: Vec::new(),
        variables: Vec::new(),
        temporaries: 0,
    };
    for (name, dtype) in &signature.params {
        let symbol = writer.symbol(name);
        writer.variables.push((name.clone(), symbol, *dtype));
    }
    writer.block(block, &Sink::Return);
    let params: Vec<String> = writer
        .variables
        .iter()
        .take(signature.params.len())
        .map(|(_, symbol, dtype)| format!("{} {symbol}", cpp(*dtype)))
        .collect();
    let (body, uses) = (writer.out, writer.uses);
    let head = format!("__device__ __forceinline__ {} $name({})", cpp(signature.result), params.join(", "));
    let lines: Vec<&str> = body.lines().collect();
    let source = match lines.as_slice() {
        [single] => format!("{head} {{ {} }}\n", single.trim()),
        _ => format!("{head} {{\n{body}}}\n"),
    };
    Text { source, uses }
}

/// Where a block's value goes.
enum Sink {
    Return,
    Assign(String),
    Drop,
}

/// An expression's text and type; `binds` is its precedence, so that parentheses stand only where they must.
struct Scalar {
    text: String,
    dtype: Dtype,
    binds: u8,
}

const PRIMARY: u8 = 15;
const UNARY: u8 = 14;

struct Writer<'a> {
    signature: &'a Signature,
    errors: &'a mut Errors,
    out: String,
    indent: usize,
    uses: Vec<(String, Path)>,
    /// Name, C++ name, type; innermost last.
    variables: Vec<(Ident, String, Dtype)>,
    temporaries: usize,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.indent * 4);
    }

    fn fault(&mut self, at: impl ToTokens, text: &str) -> Scalar {
        self.errors.at(at, text);
        Scalar { text: "0".into(), dtype: Dtype::F32, binds: PRIMARY }
    }

    /// A C++ name that is no keyword and hides no variable: Rust lets `let x` follow `let x`.
    fn symbol(&self, name: &Ident) -> String {
        let base = name.to_string().trim_start_matches("r#").to_string();
        let base = if KEYWORDS.contains(&base.as_str()) { format!("{base}_") } else { base };
        let taken = |symbol: &String| self.variables.iter().any(|(_, known, _)| known == symbol);
        std::iter::once(base.clone())
            .chain((2..).map(|count| format!("{base}_{count}")))
            .find(|symbol| !taken(symbol))
            .unwrap_or(base)
    }

    fn block(&mut self, block: &Block, sink: &Sink) {
        let mark = self.variables.len();
        for (position, stmt) in block.stmts.iter().enumerate() {
            let last = position + 1 == block.stmts.len();
            match stmt {
                Stmt::Local(local) => self.local(local),
                Stmt::Item(Item::Const(item)) => {
                    let value = self.expr(&item.expr);
                    self.declare(&item.ident, value, false);
                }
                Stmt::Item(item) => {
                    self.fault(item, "this item is not supported inside a device function yet -- move it out");
                }
                Stmt::Macro(stmt) => {
                    self.fault(&stmt.mac.path, "a device function calls no macro");
                }
                Stmt::Expr(Expr::Return(form), _) => match &form.expr {
                    Some(value) => self.sink(value, &Sink::Return),
                    None => {
                        self.fault(form.return_token, "a device function returns a scalar -- give `return` a value");
                    }
                },
                Stmt::Expr(expr, None) if last => self.sink(expr, sink),
                Stmt::Expr(expr, _) => self.statement(expr),
            }
        }
        // Names of an inner block stay taken until it ends, as in C++.
        self.variables.truncate(mark.max(self.signature.params.len()));
    }

    fn sink(&mut self, expr: &Expr, sink: &Sink) {
        match bare(expr) {
            Expr::If(branch) if !is_ternary(branch) => self.branch(branch, sink),
            Expr::Block(block) => {
                self.line("{");
                self.indent += 1;
                self.block(&block.block, sink);
                self.indent -= 1;
                self.line("}");
            }
            Expr::Assign(_) | Expr::Binary(_) if matches!(sink, Sink::Drop) => self.statement(expr),
            expr => {
                let value = self.expr(expr);
                match sink {
                    Sink::Return => self.line(&format!("return {};", value.text)),
                    Sink::Assign(target) => self.line(&format!("{target} = {};", value.text)),
                    Sink::Drop => {}
                }
            }
        }
    }

    fn statement(&mut self, expr: &Expr) {
        match expr {
            Expr::If(branch) => self.branch(branch, &Sink::Drop),
            Expr::Assign(assign) => {
                let target = self.expr(&assign.left);
                let value = self.expr(&assign.right);
                self.line(&format!("{} = {};", target.text, value.text));
            }
            Expr::Binary(binary) if compound(&binary.op).is_some() => {
                let target = self.expr(&binary.left);
                let value = self.expr(&binary.right);
                let sign = compound(&binary.op).unwrap_or("=");
                self.line(&format!("{} {sign} {};", target.text, value.text));
            }
            Expr::Block(block) => {
                self.line("{");
                self.indent += 1;
                self.block(&block.block, &Sink::Drop);
                self.indent -= 1;
                self.line("}");
            }
            other => {
                self.expr(other);
            }
        }
    }

    fn branch(&mut self, branch: &ExprIf, sink: &Sink) {
        let condition = self.expr(&branch.cond);
        self.line(&format!("if ({}) {{", condition.text));
        self.indent += 1;
        self.block(&branch.then_branch, sink);
        self.indent -= 1;
        if let Some((_, otherwise)) = &branch.else_branch {
            self.line("} else {");
            self.indent += 1;
            match &**otherwise {
                Expr::Block(block) => self.block(&block.block, sink),
                other => self.sink(other, sink),
            }
            self.indent -= 1;
        }
        self.line("}");
    }

    fn local(&mut self, local: &Local) {
        let (pattern, annotated) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            other => (other, None),
        };
        let Pat::Ident(name) = pattern else {
            self.fault(pattern, "this pattern is not supported in a device function yet -- bind plain names");
            return;
        };
        let Some(init) = &local.init else {
            self.fault(&local.pat, "a `let` without a value is not supported in a device function yet -- give it one");
            return;
        };
        let annotated = annotated.and_then(super::scalar);
        if let Expr::If(branch) = bare(&init.expr)
            && !is_ternary(branch)
        {
            let dtype = annotated.unwrap_or_else(|| self.branch_dtype(branch));
            let symbol = self.symbol(&name.ident);
            self.line(&format!("{} {symbol};", cpp(dtype)));
            self.branch(branch, &Sink::Assign(symbol.clone()));
            self.variables.push((name.ident.clone(), symbol, dtype));
            return;
        }
        let mut value = self.expr(&init.expr);
        value.dtype = annotated.unwrap_or(value.dtype);
        self.declare(&name.ident, value, name.mutability.is_some());
    }

    fn declare(&mut self, name: &Ident, value: Scalar, mutable: bool) {
        let symbol = self.symbol(name);
        let word = if mutable { "" } else { "const " };
        self.line(&format!("{word}{} {symbol} = {};", cpp(value.dtype), value.text));
        self.variables.push((name.clone(), symbol, value.dtype));
    }

    /// The type of a branch with statements, read off its last expression where that stands alone; else a float.
    fn branch_dtype(&mut self, branch: &ExprIf) -> Dtype {
        match branch.then_branch.stmts.last() {
            Some(Stmt::Expr(Expr::Lit(ExprLit { lit: Lit::Int(number), .. }), None)) if number.suffix() != "f32" => {
                Dtype::I32
            }
            Some(Stmt::Expr(Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }), None)) => Dtype::Bool,
            Some(Stmt::Expr(Expr::Path(path), None)) => {
                let known = path
                    .path
                    .get_ident()
                    .and_then(|name| self.variables.iter().rev().find(|(known, ..)| known == name));
                known.map_or(Dtype::F32, |(_, _, dtype)| *dtype)
            }
            _ => Dtype::F32,
        }
    }

    fn expr(&mut self, expr: &Expr) -> Scalar {
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
                "the value of `{name}` is not known while the function is translated -- pass it as an argument, or put the `const` inside"
            );
            return self.fault(path, &text);
        }
        let known = crate::constant::lookup(path, crate::ast::DtypeRef::named);
        match known {
            Some(crate::constant::Constant::Float(value, _)) => {
                Scalar { text: float(value as f32), dtype: Dtype::F32, binds: PRIMARY }
            }
            Some(crate::constant::Constant::Int(value)) => {
                Scalar { text: int(value), dtype: Dtype::I32, binds: PRIMARY }
            }
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
            (Dtype::F32, Dtype::I32) => self.fault(cast, "a float as an integer is not supported in a device function yet -- `floor` and `round` give whole floats"),
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
                    "`{name}` is no function of a device scalar -- there are max, min, clamp, powf, mul_add, {}",
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

const FLOAT_FUNCTIONS: [&str; 16] = [
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "recip", "tanh", "sin", "cos", "erf", "abs", "floor", "ceil",
    "round", "ln",
];

/// Rust names that C++ or CUDA reads otherwise.
const KEYWORDS: [&str; 40] = [
    "alignas",
    "and",
    "asm",
    "auto",
    "bool",
    "case",
    "catch",
    "char",
    "class",
    "default",
    "delete",
    "double",
    "explicit",
    "export",
    "float",
    "friend",
    "goto",
    "inline",
    "int",
    "long",
    "namespace",
    "new",
    "not",
    "operator",
    "or",
    "private",
    "public",
    "register",
    "short",
    "signed",
    "sizeof",
    "switch",
    "template",
    "this",
    "throw",
    "typedef",
    "union",
    "unsigned",
    "void",
    "xor",
];

/// Both branches are plain expressions.
fn is_ternary(branch: &ExprIf) -> bool {
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

fn is_plain(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::If(branch) => is_ternary(branch),
        Expr::Assign(_) | Expr::Return(_) => false,
        Expr::Binary(binary) => compound(&binary.op).is_none(),
        Expr::Block(block) => matches!(block.block.stmts.as_slice(), [Stmt::Expr(expr, None)] if is_plain(expr)),
        _ => true,
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        other => other,
    }
}

/// Parenthesised where it binds less than its surroundings ask.
fn inside(value: &Scalar, asked: u8) -> String {
    if value.binds < asked { format!("({})", value.text) } else { value.text.clone() }
}

/// Sign, C++ precedence, and whether the result is a bool.
fn operator(op: &BinOp) -> Option<(&'static str, u8, bool)> {
    Some(match op {
        BinOp::Mul(_) => ("*", 12, false),
        BinOp::Div(_) => ("/", 12, false),
        BinOp::Rem(_) => ("%", 12, false),
        BinOp::Add(_) => ("+", 11, false),
        BinOp::Sub(_) => ("-", 11, false),
        BinOp::Lt(_) => ("<", 9, true),
        BinOp::Le(_) => ("<=", 9, true),
        BinOp::Gt(_) => (">", 9, true),
        BinOp::Ge(_) => (">=", 9, true),
        BinOp::Eq(_) => ("==", 8, true),
        BinOp::Ne(_) => ("!=", 8, true),
        BinOp::And(_) => ("&&", 4, true),
        BinOp::Or(_) => ("||", 3, true),
        _ => return None,
    })
}

fn compound(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::AddAssign(_) => "+=",
        BinOp::SubAssign(_) => "-=",
        BinOp::MulAssign(_) => "*=",
        BinOp::DivAssign(_) => "/=",
        BinOp::RemAssign(_) => "%=",
        _ => return None,
    })
}

fn cpp(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::I32 => "int",
        Dtype::Bool => "bool",
        _ => "float",
    }
}

/// The shortest decimal that reads back as the same f32.
fn float(value: f32) -> String {
    if value.is_finite() { format!("{value:?}f") } else { format!("__int_as_float(0x{:08x})", value.to_bits()) }
}

/// The least integer has no literal of its own.
fn int(value: i64) -> String {
    if value == i64::from(i32::MIN) { "(-2147483647 - 1)".into() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nest::Dtype::{Bool, F32, I32};

    /// The text below the head, on one line.
    fn body(params: &[(&str, Dtype)], block: &str) -> Result<String, String> {
        let params = params.iter().map(|(name, dtype)| (quote::format_ident!("{name}"), *dtype)).collect();
        let signature = Signature { name: quote::format_ident!("f"), params, result: F32 };
        let block: Block = syn::parse_str(block).map_err(|error| error.to_string())?;
        let mut errors = Errors::default();
        let text = translate(&signature, &block, &mut errors);
        errors.finish().map_err(|error| error.to_string())?;
        let (_, inside) = text.source.split_once('{').ok_or("no body")?;
        Ok(inside.trim_end().trim_end_matches('}').split_whitespace().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn expressions_keep_their_meaning() {
        let x = [("x", F32), ("a", F32)];
        assert_eq!(body(&x, "{ if x > 0.0 { x } else { a * x } }").as_deref(), Ok("return x > 0.0f ? x : a * x;"));
        assert_eq!(body(&x, "{ (x + 1.0) * -(a - x) }").as_deref(), Ok("return (x + 1.0f) * -(a - x);"));
        assert_eq!(body(&x, "{ x - (a - 1e-6) }").as_deref(), Ok("return x - (a - 1e-6f);"));
        assert_eq!(body(&x, "{ - -x }").as_deref(), Ok("return -(-x);"));
        assert_eq!(
            body(&x, "{ x.clamp(0.0, f32::INFINITY).powf(2.0) }").as_deref(),
            Ok("return tracea::pow(tracea::min(tracea::max(x, 0.0f), __int_as_float(0x7f800000)), 2.0f);")
        );
        assert_eq!(
            body(&[("n", I32), ("b", Bool)], "{ if b && n != 3 { n as f32 } else { 0.5 } }").as_deref(),
            Ok("return b && n != 3 ? float(n) : 0.5f;")
        );
    }

    #[test]
    fn statements_become_statements() {
        let x = [("x", F32)];
        assert_eq!(body(&x, "{ let x = x * 2.0; x }").as_deref(), Ok("const float x_2 = x * 2.0f; return x_2;"));
        assert_eq!(
            body(&x, "{ let mut r = 0.0; if x > 1.0 { r += x; } r }").as_deref(),
            Ok("float r = 0.0f; if (x > 1.0f) { r += x; } return r;")
        );
        assert_eq!(
            body(&x, "{ let y = if x > 1.0 { let z = x.exp(); z * z } else { x }; y }").as_deref(),
            Ok("float y; if (x > 1.0f) { const float z = tracea::exp(x); y = z * z; } else { y = x; } return y;")
        );
        assert_eq!(body(&[("float", F32)], "{ float }").as_deref(), Ok("return float_;"));
    }

    #[test]
    fn other_functions_are_called_by_alias() {
        assert_eq!(
            body(&[("x", F32)], "{ x * sigmoid(x) + act::name(x) }").as_deref(),
            Ok("return x * $sigmoid(x) + $name_2(x);")
        );
    }

    #[test]
    fn what_the_device_cannot_do_is_told() {
        for (block, part) in [
            ("{ f(x) }", "recursion"),
            ("{ x.gamma() }", "`gamma`"),
            ("{ x as i32 as f32 }", "not supported"),
            ("{ C * x }", "`C`"),
        ] {
            let told = body(&[("x", F32)], block).expect_err(block);
            assert!(told.contains(part), "{told}");
        }
    }
}
