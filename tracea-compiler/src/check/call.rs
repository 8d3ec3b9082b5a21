//! Calls of functions: the language's own, and `#[device]` functions inside closures.

use super::infer::OpenType;
use super::term::Bounds;
use super::{Checker, Term};
use crate::nest::{AxisId, AxisKind, Dtype, Extent, Function, FunctionId, Int, Op, ValueId};
use quote::ToTokens;
use syn::{AngleBracketedGenericArguments, Expr, ExprCall, ExprPath, Path, PathArguments};

impl Checker<'_> {
    pub fn call(&mut self, call: &ExprCall) -> Term {
        let Expr::Path(function) = bare(&call.func) else {
            return self.fatal(&call.func, "a kernel calls functions by name only");
        };
        let Some(last) = function.path.segments.last() else { return Term::Poison };
        let name = last.ident.to_string();
        if self.is_own_name(function) {
            let text = format!(
                "`{name}` calls itself, and recursion is not allowed in a kernel: the device has no stack for it"
            );
            return self.fatal(&call.func, text);
        }
        let generics = match &last.arguments {
            PathArguments::AngleBracketed(arguments) => Some(arguments),
            _ => None,
        };
        let local = function.path.get_ident().and_then(|name| self.scopes.find(name));
        if let Some(Term::Closure(closure)) = local.map(|place| self.scopes.get(place).term.clone()) {
            let arguments: Vec<Term> = call.args.iter().map(|argument| self.expr(argument)).collect();
            return self.inline(&closure, arguments);
        }
        if function.path.segments.len() >= 2 && !self.is_language_path(&function.path) {
            return self.associated(call, &function.path, &name);
        }
        let arguments: Vec<Term> = call.args.iter().map(|argument| self.expr(argument)).collect();
        if arguments.iter().any(Term::is_poison) {
            return Term::Poison;
        }
        match (name.as_str(), arguments.as_slice()) {
            ("zeros", [axes]) => self.filled(axes.clone(), Term::Number(0.0, None), generics, call),
            ("full", [axes, value]) => self.filled(axes.clone(), value.clone(), generics, call),
            ("iota", [coordinates]) => self.iota(coordinates.clone(), call),
            ("dot", [a, b]) => self.dot(a.clone(), b.clone(), call),
            ("select", [condition, then, otherwise]) => {
                self.choose(condition.clone(), then.clone(), otherwise.clone(), call)
            }
            ("flat", dims) => self.flat(dims, call),
            ("each", [dim]) => match dim {
                Term::Extent(bounds) => Term::Each(bounds.clone()),
                other => self.rustc(&call.args, format!("`each` runs over a dim, this is {}", other.describe())),
            },
            ("zeros" | "full" | "iota" | "dot" | "each", _) => {
                self.rustc(&call.args, format!("`{name}` takes another number of arguments"))
            }
            _ if self.closures > 0 => self.device_call(&function.path, arguments, call),
            _ => {
                let text = format!(
                    "a kernel does not call `{name}` on tiles: functions work element by element -- write \
                        `x.map({name})`, with `#[device]` on `{name}`"
                );
                self.fatal(&call.func, text)
            }
        }
    }

    fn is_own_name(&self, function: &ExprPath) -> bool {
        function.path.is_ident(self.kernel.name())
            && function.path.get_ident().is_none_or(|name| self.scopes.find(name).is_none())
    }

    /// `tracea::dot`, `prelude::zeros`.
    fn is_language_path(&self, path: &Path) -> bool {
        path.segments
            .iter()
            .rev()
            .skip(1)
            .all(|segment| ["tracea", "prelude", "crate", "self"].iter().any(|name| segment.ident == name))
            && path.segments.last().is_some_and(|last| {
                ["zeros", "full", "iota", "dot", "select", "flat", "each"].iter().any(|name| last.ident == name)
            })
    }

    /// `f32::max(a, b)`, `i32::min(a, b)`, `core::cmp::max(a, b)`: the method of that name. Anything else by path is a
    /// `#[device]` function.
    fn associated(&mut self, call: &ExprCall, path: &Path, name: &str) -> Term {
        let owner = &path.segments[path.segments.len() - 2].ident;
        let arguments: Vec<Term> = call.args.iter().map(|argument| self.expr(argument)).collect();
        if arguments.iter().any(Term::is_poison) {
            return Term::Poison;
        }
        if self.named_dtype(owner).is_some() || owner == "cmp" || owner == "Real" {
            let mut arguments = arguments.into_iter();
            let Some(receiver) = arguments.next() else {
                return self.rustc(call, format!("`{name}` takes an argument"));
            };
            return self.method_by_name(name, receiver, arguments.collect(), None, call);
        }
        if self.closures > 0 {
            return self.device_call(path, arguments, call);
        }
        let shown = path.to_token_stream().to_string().replace(' ', "");
        self.fatal(
            &call.func,
            format!(
                "a kernel does not call `{shown}` on tiles: functions work element by \
            element -- write `x.map({shown})`, with `#[device]` on it"
            ),
        )
    }

    /// Element by element; the result has the dtype of the first float argument.
    pub fn device_call(&mut self, path: &Path, arguments: Vec<Term>, at: &impl ToTokens) -> Term {
        let mut values = Vec::new();
        for argument in arguments {
            let Some(value) = self.value(argument, at) else { return Term::Poison };
            values.push(value);
        }
        let mut axes: Vec<AxisId> = Vec::new();
        for value in &values {
            let Some(union) = self.infer.union(&axes, &self.drafts[value.index()].ty.axes.clone()) else {
                return self.rustc(at, "these tiles order their axes differently -- turn one with `.t()`");
            };
            axes = union;
        }
        let mut dtype = None;
        for value in &values {
            let own = self.ty(*value).dtype;
            if matches!(self.infer.dtype(own), Some(Dtype::I32 | Dtype::Bool)) {
                continue;
            }
            let result = *dtype.get_or_insert(own);
            self.infer.unify(result, own);
        }
        let dtype = dtype.unwrap_or_else(|| self.infer.known(Dtype::F32));
        let function = self.function(path);
        Term::Tile(self.push(Op::Call(function, values), OpenType { dtype, axes }, at))
    }

    fn function(&mut self, path: &Path) -> FunctionId {
        let written = path.to_token_stream().to_string().replace(' ', "");
        if let Some(found) = self.nest.functions.iter().position(|function| function.path == written) {
            return FunctionId(found as u32);
        }
        let last = path.segments.last().map_or_else(|| written.clone(), |segment| segment.ident.to_string());
        let taken = |name: &String| self.nest.functions.iter().any(|function| function.name == *name);
        let name = std::iter::once(last.clone())
            .chain((2..).map(|count| format!("{last}_{count}")))
            .find(|name| !taken(name))
            .unwrap_or(last);
        self.nest.functions.push(Function { path: written, name });
        FunctionId(self.nest.functions.len() as u32 - 1)
    }

    /// `zeros::<f32>((i, ..))`, `full(i, m)`.
    fn filled(
        &mut self,
        axes: Term,
        value: Term,
        generics: Option<&AngleBracketedGenericArguments>,
        at: &impl ToTokens,
    ) -> Term {
        let dtype = self.turbofish(generics);
        let Some(axes) = self.axis_list(axes, at) else { return Term::Poison };
        if let Term::Number(number, of) = value {
            if let Some(of) = of {
                let of = self.infer.known(of);
                if !self.infer.unify(dtype, of) {
                    return self.rustc(at, "the value has another dtype than the tile");
                }
            }
            return Term::Tile(self.push(Op::Fill(number), OpenType { dtype, axes }, at));
        }
        let Some(value) = self.value(value, at) else { return Term::Poison };
        let own = self.ty(value);
        if !own.axes.is_empty() {
            return self.rustc(at, "`full` takes one value for all elements");
        }
        let value = if self.infer.unify(own.dtype, dtype) {
            value
        } else {
            self.push(Op::Cast(value), OpenType { dtype, axes: Vec::new() }, at)
        };
        Term::Tile(self.broadcast(value, axes, at))
    }

    pub fn broadcast(&mut self, value: ValueId, axes: Vec<AxisId>, at: &impl ToTokens) -> ValueId {
        let dtype = self.ty(value).dtype;
        self.push(Op::Broadcast(value), OpenType { dtype, axes }, at)
    }

    fn axis_list(&mut self, term: Term, at: &impl ToTokens) -> Option<Vec<AxisId>> {
        let parts = match term {
            Term::Tuple(parts) => parts,
            single => vec![single],
        };
        let mut axes: Vec<AxisId> = Vec::new();
        for part in parts {
            let axis = match part {
                Term::Axis(axis) => axis,
                Term::Whole => self.infer.add_axis("..".into(), AxisKind::Whole, None),
                Term::Int(crate::nest::Int::Axis(_)) => {
                    self.rustc(
                        at,
                        "an `each` loop has one coordinate at a time, a tile does not span it -- leave it out",
                    );
                    return None;
                }
                other => {
                    self.rustc(at, format!("a tile spans loop variables and `..`, this is {}", other.describe()));
                    return None;
                }
            };
            if axes.contains(&axis) {
                self.rustc(at, format!("a tile spans `{}` once", self.infer.name(axis)));
                return None;
            }
            axes.push(axis);
        }
        Some(axes)
    }

    fn iota(&mut self, coordinates: Term, at: &impl ToTokens) -> Term {
        match coordinates {
            Term::Axis(axis) => Term::Int(Int::Axis(axis)),
            Term::Int(number) if self.tiled_axes(&number).len() == 1 => Term::Int(number),
            other => {
                let is = other.describe();
                self.rustc(
                    at,
                    format!("`iota` numbers the elements along a loop variable, or by its coordinates, this is {is}"),
                )
            }
        }
    }

    fn flat(&mut self, parts: &[Term], at: &impl ToTokens) -> Term {
        let mut dims = Vec::new();
        for part in parts {
            match part {
                Term::Extent(Bounds { extent: Extent::Dim(dim), from: None, until: None }) => dims.push(*dim),
                Term::Extent(_) => {
                    return self.ours(
                        at,
                        "`flat` of a range or of another `flat` is not supported yet -- \
                            flatten whole dims",
                    );
                }
                other => return self.rustc(at, format!("`flat` takes dims, this is {}", other.describe())),
            }
        }
        if dims.len() < 2 {
            return self.rustc(at, "`flat` takes two dims or more");
        }
        Term::Extent(Bounds::of(Extent::Flat(dims)))
    }

    fn dot(&mut self, a: Term, b: Term, at: &impl ToTokens) -> Term {
        let (Some(a), Some(b)) = (self.value(a, at), self.value(b, at)) else { return Term::Poison };
        let (left, right) = (self.ty(a), self.ty(b));
        let ([m, inner], [k, n]) = (left.axes.as_slice(), right.axes.as_slice()) else {
            return self.rustc(
                at,
                format!(
                    "`dot` multiplies (m, k) by (k, n), these are {} and {} -- a sum of products along one axis is \
                    `(a * b).sum(k)`",
                    self.axis_names(&left.axes),
                    self.axis_names(&right.axes)
                ),
            );
        };
        if !self.infer.unify_axes(*inner, *k) {
            let text = format!(
                "`dot` sums over `{}` on the left and over `{}` on the right -- turn one with `.t()`",
                self.infer.name(*inner),
                self.infer.name(*k)
            );
            return self.rustc(at, text);
        }
        if self.infer.same_axis(*m, *n) {
            return self.rustc(
                at,
                format!(
                    "this `dot` spans `{}` twice -- run a second loop variable \
                    over the dim",
                    self.infer.name(*m)
                ),
            );
        }
        if !self.infer.unify(left.dtype, right.dtype) {
            let name = |slot| self.infer.dtype(slot).map_or("?", Dtype::name);
            let text = format!(
                "`dot` of `{}` and `{}` -- convert one with \
                    `.to::<…>()`",
                name(left.dtype),
                name(right.dtype)
            );
            return self.rustc(at, text);
        }
        if matches!(self.infer.dtype(left.dtype), Some(Dtype::I32 | Dtype::Bool)) {
            return self.ours(at, "`dot` of integers is not supported yet -- convert both with `.to::<f32>()`");
        }
        let dtype = self.infer.known(Dtype::F32);
        Term::Tile(self.push(Op::Dot { a, b }, OpenType { dtype, axes: vec![*m, *n] }, at))
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        other => other,
    }
}
