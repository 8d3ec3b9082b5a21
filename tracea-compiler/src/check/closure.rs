//! `map`, `zip_map` and `mask`: closures are inlined, a parameter standing for the tile's element.

use super::infer::OpenType;
use super::{Checker, Term, method};
use crate::nest::{AxisId, Dtype, Int, Op, Predicate, ValueId};
use quote::ToTokens;
use syn::{ExprClosure, Path};

impl Checker<'_> {
    /// The closure's value for these arguments.
    pub fn inline(&mut self, closure: &ExprClosure, arguments: Vec<Term>) -> Term {
        if closure.inputs.len() != arguments.len() {
            return self.rustc(
                closure,
                format!("this closure takes {} arguments and is given {}", closure.inputs.len(), arguments.len()),
            );
        }
        let mark = self.scopes.mark();
        for (input, argument) in closure.inputs.iter().zip(arguments) {
            self.bind(input, Some(argument));
        }
        self.closures += 1;
        let result = self.expr(&closure.body);
        self.closures -= 1;
        self.leave(mark);
        result
    }

    /// Closures and device functions compute in f32, whatever the tiles hold; the result is rounded back.
    pub fn map(&mut self, tiles: Vec<Term>, function: Term, at: &impl ToTokens) -> Term {
        let (mut axes, mut elements, mut dtype) = (Vec::new(), Vec::new(), None);
        for tile in tiles {
            let Some(value) = self.value(tile, at) else { return Term::Poison };
            let own = self.ty(value);
            let Some(union) = self.infer.union(&axes, &own.axes) else {
                return self.rustc(at, "these tiles order their axes differently -- turn one with `.t()`");
            };
            axes = union;
            if !self.infer.unify(*dtype.get_or_insert(own.dtype), own.dtype) {
                return self.rustc(at, "these tiles have different dtypes -- convert one with `.to::<…>()`");
            }
            elements.push(Term::Tile(self.widened(value, at)));
        }
        let result = match function {
            Term::Closure(closure) => self.inline(&closure, elements),
            Term::Function(path) => self.named(&path, elements, at),
            other => {
                return self.rustc(
                    at,
                    format!("`map` takes a closure or a `#[device]` function, this is {}", other.describe()),
                );
            }
        };
        if result.is_poison() {
            return Term::Poison;
        }
        let (Some(result), Some(dtype)) = (self.value(result, at), dtype) else { return Term::Poison };
        let own = self.ty(result);
        let rounded = self.push(Op::Cast(result), OpenType { dtype, axes: own.axes }, at);
        Term::Tile(self.spread(rounded, axes, at))
    }

    fn widened(&mut self, value: ValueId, at: &impl ToTokens) -> ValueId {
        let OpenType { dtype, axes } = self.ty(value);
        if matches!(self.infer.dtype(dtype), Some(Dtype::I32 | Dtype::Bool)) {
            return value;
        }
        let dtype = self.infer.known(Dtype::F32);
        self.push(Op::Cast(value), OpenType { dtype, axes }, at)
    }

    /// `map(relu)`, `map(f32::exp)`.
    fn named(&mut self, path: &Path, elements: Vec<Term>, at: &impl ToTokens) -> Term {
        let mut segments = path.segments.iter().rev().map(|segment| &segment.ident);
        let (name, owner) = (segments.next().map(ToString::to_string).unwrap_or_default(), segments.next());
        let of_float = owner.is_some_and(|owner| owner == "Real" || self.named_dtype(owner).is_some());
        if path.is_ident(self.kernel.name()) {
            return self.fatal(path, format!("`{name}` maps itself, and recursion is not allowed in a kernel"));
        }
        if !of_float {
            return self.device_call(path, elements, at);
        }
        self.closures += 1;
        let mut elements = elements.into_iter();
        let result = match elements.next() {
            Some(first) if method::unary(&name).is_some() || elements.len() > 0 => {
                self.method_by_name(&name, first, elements.collect(), None, at)
            }
            _ => self.rustc(path, format!("there is no function `{name}` of a float")),
        };
        self.closures -= 1;
        result
    }

    /// A closure may ignore its argument; its result spans the tile all the same.
    fn spread(&mut self, value: ValueId, axes: Vec<AxisId>, at: &impl ToTokens) -> ValueId {
        if self.ty(value).axes.len() < axes.len() { self.broadcast(value, axes, at) } else { value }
    }

    /// Keeps the elements where the condition holds.
    pub fn mask(&mut self, tile: Term, condition: &ExprClosure, fill: Term, at: &impl ToTokens) -> Term {
        let Some(value) = self.value(tile, at) else { return Term::Poison };
        let OpenType { dtype, axes } = self.ty(value);
        let coordinates = axes.iter().map(|axis| Term::Int(Int::Axis(*axis))).collect();
        let condition = match self.inline(condition, coordinates) {
            Term::Truth(Predicate::Const(true)) => return Term::Tile(value),
            Term::Truth(predicate) => self.predicate(predicate, axes.clone(), at),
            Term::Poison => return Term::Poison,
            other => match self.value(other, at) {
                Some(condition) => condition,
                None => return Term::Poison,
            },
        };
        let Some(fill) = self.value(fill, at) else { return Term::Poison };
        let Some((_, fill)) = self.same_dtype(value, fill, at) else { return Term::Poison };
        Term::Tile(self.push(Op::Select(condition, value, fill), OpenType { dtype, axes }, at))
    }
}
