//! Elements of tensors: indices, loads and stores.

use super::infer::OpenType;
use super::{Checker, Term};
use crate::nest::{AxisId, AxisKind, Dtype, Extent, Int, Op, Stmt, TensorId};
use syn::ExprIndex;

impl Checker<'_> {
    pub fn load(&mut self, at: &ExprIndex, tensor: Term, index: Term) -> Term {
        let Some((tensor, index)) = self.element(at, tensor, index) else { return Term::Poison };
        let axes = self.index_axes(&index);
        let dtype = self.infer.known(self.nest.tensor(tensor).dtype);
        self.accesses.read(tensor, &index, at);
        Term::Tile(self.push(Op::Load { tensor, index }, OpenType { dtype, axes }, at))
    }

    pub fn store(&mut self, at: &ExprIndex, tensor: Term, index: Term, value: Term) {
        let Some((tensor, index)) = self.element(at, tensor, index) else { return };
        let name = self.nest.tensor(tensor).name.clone();
        if index.iter().any(|component| self.tiled_axes(component).len() > 1) {
            self.fatal(&at.index, format!("an index of `{name}` runs along two loops at once, where nothing can be stored -- index an output with the loop variables themselves"));
            return;
        }
        if !self.nest.tensor(tensor).mutable {
            self.fatal(&at.expr, format!("`{name}` is an input and is written here -- take it as `&mut Tensor<…>`"));
            return;
        }
        let Some(value) = self.value(value, at) else { return };
        let axes = self.index_axes(&index);
        let stored = self.infer.known(self.nest.tensor(tensor).dtype);
        let OpenType { dtype, axes: own } = self.ty(value);
        if !self.infer.unify(dtype, stored) {
            let from = self.infer.dtype(dtype).map_or("?", Dtype::name);
            let text = format!(
                "`{name}` holds `{}`, the value is `{from}` -- convert it with `.to()`",
                self.nest.tensor(tensor).dtype.name()
            );
            self.rustc(at, text);
            return;
        }
        let Some(union) = self.infer.union(&own, &axes) else {
            let text = format!(
                "the value spans {}, the index {} -- turn the value with `.t()`",
                self.axis_names(&own),
                self.axis_names(&axes)
            );
            self.rustc(at, text);
            return;
        };
        if let Some(extra) = union.iter().find(|axis| !axes.iter().any(|known| self.infer.same_axis(*known, **axis))) {
            let text = format!(
                "the value spans `{}`, the index of `{name}` does not -- sum over it, or index with it",
                self.infer.name(*extra)
            );
            self.rustc(at, text);
            return;
        }
        let value = if own.len() < axes.len() { self.broadcast(value, axes, at) } else { value };
        self.accesses.write(tensor, &index, at);
        self.check_coverage(at, tensor, &index);
        self.emit(Stmt::Store { tensor, index, value, line: super::line_of(at) });
    }

    fn element(&mut self, at: &ExprIndex, tensor: Term, index: Term) -> Option<(TensorId, Vec<Int>)> {
        if tensor.is_poison() || index.is_poison() {
            return None;
        }
        let Term::Tensor(tensor) = tensor else {
            self.rustc(&at.expr, format!("only tensors are indexed, this is {}", tensor.describe()));
            return None;
        };
        let parts = match index {
            Term::Tuple(parts) => parts,
            single => vec![single],
        };
        if parts.iter().filter(|part| matches!(part, Term::Whole)).count() > 1 {
            self.fatal(
                &at.index,
                "`..` stands once in an index, more are not supported yet -- run over the \
                other axis with `tile!` or `each`",
            );
            return None;
        }
        let dims = self.nest.tensor(tensor).dims.clone();
        if parts.len() != dims.len() {
            let text =
                format!("`{}` has {} axes, this index {}", self.nest.tensor(tensor).name, dims.len(), parts.len());
            self.rustc(&at.index, text);
            return None;
        }
        let mut index = Vec::new();
        for (part, dim) in parts.into_iter().zip(dims) {
            index.push(self.component(at, part, Extent::Dim(dim))?);
        }
        Some((tensor, index))
    }

    fn component(&mut self, at: &ExprIndex, part: Term, extent: Extent) -> Option<Int> {
        match part {
            Term::Axis(axis) => {
                if self.infer.extent(axis) != Some(&extent) {
                    let text = format!("`{}` does not run over this axis of the tensor", self.infer.name(axis));
                    self.rustc(&at.index, text);
                    return None;
                }
                Some(Int::Axis(axis))
            }
            Term::Int(value) => Some(value),
            Term::Whole => self.whole(at, extent).map(Int::Axis),
            Term::Tile(_) => match self.looked_up(&part) {
                Some(value) => Some(value),
                None => {
                    self.fatal(
                        &at.index,
                        "an index is made of integers, loop variables and elements of tensors of `i32` -- store what is \
                        computed otherwise to a tensor, and index with that",
                    );
                    None
                }
            },
            Term::Range(..) => {
                self.fatal(
                    &at.index,
                    "a range in an index is not supported yet -- loop over it, `tile!(for j in K.range(a..b) { … })`",
                );
                None
            }
            other => match self.integer(&other) {
                Some(value) => Some(value),
                None => {
                    self.rustc(
                        &at.index,
                        format!("a tensor is indexed by loop variables and integers, this is {}", other.describe()),
                    );
                    None
                }
            },
        }
    }

    /// `..` on a tensor's axis.
    fn whole(&mut self, at: &ExprIndex, extent: Extent) -> Option<AxisId> {
        let Extent::Dim(dim) = &extent else { return None };
        let dim = self.nest.dim(*dim).clone();
        if dim.known.is_none() {
            let text = format!(
                "`..` takes the whole of an axis whose size the types fix, `{0}` is known at launch -- loop \
                    over it with `tile!(for j in {0} {{ … }})`, or make it `Const<…>`",
                dim.name
            );
            self.fatal(&at.index, text);
            return None;
        }
        Some(match self.infer.find_whole(&extent) {
            Some(axis) => axis,
            None => self.infer.add_axis(dim.name, AxisKind::Whole, Some(extent)),
        })
    }

    /// What a tile under this index spans: tiled axes in order of appearance, those of one component in the order of their loops.
    fn index_axes(&self, index: &[Int]) -> Vec<AxisId> {
        let mut axes = Vec::new();
        for component in index {
            for axis in self.infer.declared(self.tiled_axes(component)) {
                if !axes.contains(&axis) {
                    axes.push(axis);
                }
            }
        }
        axes
    }
}
