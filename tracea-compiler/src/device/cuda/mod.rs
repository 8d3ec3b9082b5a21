//! The body of a `#[device]` function as CUDA text.
//!
//! ```text
//! if x > 0.0 { x } else { a * x }        =>  x > 0.0f ? x : a * x
//! let t = x.tanh(); 0.5 * (1.0 + t)      =>  const float t = tanh(x);  return 0.5f * (1.0f + t);
//! sigmoid(x)                             =>  $sigmoid(x), the runtime puts that function's symbol in
//! ```
//!
//! An `if` whose branches are expressions becomes `?:`; one with statements becomes a C++ `if` that assigns or returns.

mod scalar;
#[cfg(test)]
mod tests;
mod words;

use super::Signature;
use crate::errors::Errors;
use crate::identifier;
use crate::nest::Dtype;
use proc_macro2::Ident;
use quote::ToTokens;
use scalar::{PRIMARY, Scalar, bare, is_ternary};
use std::fmt::Write;
use syn::{Block, Expr, ExprIf, ExprLit, Item, Lit, Local, Pat, Path, Stmt};
use words::{KEYWORDS, compound, cpp};

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
        let base = identifier::of(&name.to_string());
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
            self.fault(
                &local.pat,
                "a `let` without a value is not supported in a device function yet -- \
                give it one",
            );
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
}
