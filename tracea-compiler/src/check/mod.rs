//! `ast::Kernel` to one typed [`Nest`] for each instance.
//!
//! The body is evaluated symbolically, once an instance: integers and flags fold, closures are inlined at their use, tile
//! operations become values in program order. Dtypes and `..` that the user left open are inferred from their use
//! ([`infer`]), and [`tidy`] leaves no value that nothing needs.
//!
//! Faults are told on the user's tokens. What rustc says better about the same tokens (a dim or dtype mismatch, an unknown
//! name) is gathered apart, as [`Failure::left_to_rustc`].

mod access;
mod arithmetic;
mod call;
mod closure;
mod expr;
mod infer;
mod instance;
mod int;
mod late;
mod load_store;
mod mentioned;
mod method;
mod options;
mod scope;
mod stmt;
mod term;
mod tidy;
mod tile_loop;

use crate::ast::{DimRef, Kernel, ParamKind, literal_dim};
use crate::errors::Failure;
use crate::nest::{
    Block, Dim, DimId, Extent, InstanceValue, Nest, Op, Predicate, ScalarId, ScalarParam, Stmt, Tensor, TensorId,
    ValueId,
};
use access::Accesses;
use infer::{Inference, OpenType};
use instance::Instance;
use int::leaves;
use mentioned::Mentioned;
use proc_macro2::Ident;
use quote::ToTokens;
use scope::Scopes;
use std::fmt::Display;
use syn::spanned::Spanned;
use term::{Bounds, Term};

/// One nest for each instance, in the order of the attribute's product.
pub fn check_kernel(kernel: &Kernel) -> Result<Vec<Nest>, Box<Failure>> {
    let mut failure = Failure::default();
    check_dims(kernel, &mut failure);
    let mut nests = Vec::new();
    for instance in Instance::all(kernel) {
        nests.extend(Checker::new(kernel, &instance, &mut failure).run());
    }
    options::check_options(kernel, &nests, &mut failure);
    if failure.is_empty() { Ok(nests) } else { Err(Box::new(failure)) }
}

/// The launcher reads every size off a tensor.
fn check_dims(kernel: &Kernel, failure: &mut Failure) {
    for dim in &kernel.dims {
        let stands = kernel.params.iter().any(|param| match &param.kind {
            ParamKind::Tensor(tensor) => {
                tensor.dims.iter().any(|used| matches!(used, DimRef::Generic(name) if name == dim))
            }
            _ => false,
        });
        if !stands {
            failure.fatal.at(
                dim,
                format!(
                    "dim `{dim}` stands in no tensor, so no argument tells its size -- \
                use it in a tensor's shape or drop it"
                ),
            );
        }
    }
    let tensors = kernel.params.iter().filter(|param| matches!(param.kind, ParamKind::Tensor(_))).count();
    let scalars = kernel.params.iter().filter(|param| matches!(param.kind, ParamKind::Scalar(_))).count();
    for (count, limit, what) in
        [(tensors, 16, "tensors"), (scalars, 16, "scalars"), (kernel.selectors.len(), 8, "selectors")]
    {
        if count > limit {
            failure.fatal.at(kernel.name(), format!("{count} {what} are too many -- a kernel takes at most {limit}"));
        }
    }
}

/// A value whose type may still be open.
struct Draft {
    op: Op,
    ty: OpenType,
    name: Option<String>,
    line: u32,
}

/// Walks one instance of a kernel.
struct Checker<'a> {
    kernel: &'a Kernel,
    instance: &'a Instance,
    failure: &'a mut Failure,
    /// Values and axes are put in at the end.
    nest: Nest,
    drafts: Vec<Draft>,
    infer: Inference,
    scopes: Scopes,
    /// Blocks under construction, innermost last.
    blocks: Vec<Block>,
    /// Inner `tile!` loops around the current statement.
    depth: usize,
    /// Closures around the current expression: there, a tile stands for one of its elements.
    closures: usize,
    in_grid: bool,
    accesses: Accesses,
    /// Of the whole body, whatever the instance.
    names: Mentioned,
}

impl<'a> Checker<'a> {
    fn new(kernel: &'a Kernel, instance: &'a Instance, failure: &'a mut Failure) -> Self {
        let start = kernel.name().span();
        let nest = Nest {
            name: kernel.name().to_string(),
            instance: instance.values.clone(),
            file: start.file(),
            line: start.start().line as u32,
            dims: Vec::new(),
            tensors: Vec::new(),
            scalars: Vec::new(),
            axes: Vec::new(),
            values: Vec::new(),
            functions: Vec::new(),
            grid: Vec::new(),
            body: Block::default(),
        };
        Checker {
            kernel,
            instance,
            failure,
            nest,
            drafts: Vec::new(),
            infer: Inference::default(),
            scopes: Scopes::default(),
            blocks: vec![Block::default()],
            depth: 0,
            closures: 0,
            in_grid: false,
            accesses: Accesses::default(),
            names: mentioned::in_block(&kernel.item.block),
        }
    }

    fn run(mut self) -> Option<Nest> {
        self.declare_signature();
        self.declare_body_dims();
        self.top_level();
        self.check_accesses();
        self.finish()
    }

    fn declare_signature(&mut self) {
        for selector in &self.kernel.selectors {
            let term = match self.instance.get(&selector.name) {
                Some(InstanceValue::Int(value)) => Term::Int(crate::nest::Int::Const(*value)),
                Some(InstanceValue::Bool(value)) => Term::Truth(Predicate::Const(*value)),
                Some(InstanceValue::Dtype(_)) | None => continue,
            };
            self.scopes.declare_argument(&selector.name, term);
        }
        for name in &self.kernel.dims {
            let dim = self.dim(name.to_string(), None);
            self.scopes.declare_argument(name, Term::Extent(Bounds::of(Extent::Dim(dim))));
        }
        for (position, param) in self.kernel.params.iter().enumerate() {
            match &param.kind {
                ParamKind::Tensor(tensor) => {
                    let dims = tensor
                        .dims
                        .iter()
                        .enumerate()
                        .map(|(axis, dim)| self.tensor_dim(&param.name, axis, dim))
                        .collect();
                    // Parsing lists only dtypes that the instance names.
                    let Some(dtype) = self.instance.dtype(&tensor.dtype) else { continue };
                    let id = TensorId(self.nest.tensors.len() as u32);
                    self.nest.tensors.push(Tensor {
                        name: param.name.to_string(),
                        dtype,
                        dims,
                        mutable: tensor.mutable,
                        position,
                        precomputed: false,
                        turned: false,
                    });
                    self.scopes.declare_argument(&param.name, Term::Tensor(id));
                }
                ParamKind::Scalar(dtype) => {
                    let id = ScalarId(self.nest.scalars.len() as u32);
                    self.nest.scalars.push(ScalarParam { name: param.name.to_string(), dtype: *dtype, position });
                    let term = match dtype {
                        crate::nest::Dtype::I32 => Term::Int(crate::nest::Int::Scalar(id)),
                        _ => Term::Tile(self.scalar(id, &param.name)),
                    };
                    self.scopes.declare_argument(&param.name, term);
                }
                ParamKind::Flag => {}
            }
        }
    }

    /// Dims that only the body names: the same ones, in the same order, for every instance.
    fn declare_body_dims(&mut self) {
        for size in &self.names.sizes {
            let (name, known) = (literal_dim(*size), Some(*size));
            if !self.nest.dims.iter().any(|dim| dim.name == name) {
                self.nest.dims.push(Dim { name, known, parts: Vec::new() });
            }
        }
    }

    fn scalar(&mut self, id: ScalarId, name: &Ident) -> ValueId {
        let dtype = self.infer.known(self.nest.scalars[id.index()].dtype);
        let value = self.push(Op::Scalar(id), OpenType { dtype, axes: Vec::new() }, name);
        self.drafts[value.index()].name = Some(name.to_string());
        value
    }

    fn tensor_dim(&mut self, tensor: &Ident, axis: usize, dim: &DimRef) -> DimId {
        match dim {
            DimRef::Generic(name) => self.dim(name.to_string(), None),
            DimRef::Literal(size) => self.dim(literal_dim(*size), Some(*size)),
            DimRef::Dyn => self.dim(format!("{tensor}_{axis}"), None),
            DimRef::Constant(name) => {
                let known = match self.instance.get(name) {
                    Some(InstanceValue::Int(size)) => Some(*size),
                    _ => None,
                };
                if known.is_some_and(|size| size < 0) {
                    self.ours(name, format!("`{name}` is the size of an axis -- list no negative value"));
                }
                let dim = self.dim(name.to_string(), known);
                self.scopes.declare_argument(name, Term::Extent(Bounds::of(Extent::Dim(dim))));
                dim
            }
        }
    }

    fn dim(&mut self, name: String, known: Option<i64>) -> DimId {
        let found = self.nest.dims.iter().position(|dim| dim.name == name);
        DimId(found.unwrap_or_else(|| {
            self.nest.dims.push(Dim { name, known, parts: Vec::new() });
            self.nest.dims.len() - 1
        }) as u32)
    }

    /// A new value at this place in the program.
    fn push(&mut self, op: Op, ty: OpenType, at: &impl ToTokens) -> ValueId {
        if ty.axes.len() > 2 {
            let names: Vec<&str> = ty.axes.iter().map(|axis| self.infer.name(*axis)).collect();
            let text = format!(
                "this tile spans {} axes ({}), and more than two are not supported yet -- run over some of them \
                    with `each(…)`, or flatten them",
                names.len(),
                names.join(", ")
            );
            self.ours(at, text);
        }
        if !self.in_grid && !matches!(op, Op::Scalar(_)) {
            self.fatal(at, "tiles exist inside the kernel's `tile!` only -- move this into its block");
        }
        let id = self.define(op, ty, at);
        self.emit(Stmt::Value(id));
        id
    }

    /// A value that a loop defines: it has no statement of its own.
    fn define(&mut self, op: Op, ty: OpenType, at: &impl ToTokens) -> ValueId {
        let id = ValueId(self.drafts.len() as u32);
        self.drafts.push(Draft { op, ty, name: None, line: line_of(at) });
        id
    }

    fn emit(&mut self, stmt: Stmt) {
        if let Some(block) = self.blocks.last_mut() {
            block.stmts.push(stmt);
        }
    }

    fn ty(&self, value: ValueId) -> OpenType {
        self.drafts[value.index()].ty.clone()
    }

    fn ours(&mut self, at: impl ToTokens, text: impl Display) -> Term {
        self.failure.ours.at(at, text);
        Term::Poison
    }

    fn fatal(&mut self, at: impl ToTokens, text: impl Display) -> Term {
        self.failure.fatal.at(at, text);
        Term::Poison
    }

    fn rustc(&mut self, at: impl ToTokens, text: impl Display) -> Term {
        self.failure.left_to_rustc.at(at, text);
        Term::Poison
    }

    fn axis_names(&self, axes: &[crate::nest::AxisId]) -> String {
        let names: Vec<&str> = axes.iter().map(|axis| self.infer.name(*axis)).collect();
        format!("({})", names.join(", "))
    }

    /// As a person would write the index.
    fn mentions(&self, value: &crate::nest::Int, wanted: crate::nest::AxisId) -> bool {
        let mut found = false;
        leaves(value, &mut |leaf| {
            if let crate::nest::Int::Axis(axis) | crate::nest::Int::FlatCoord(axis, _) = leaf {
                found |= self.infer.same_axis(*axis, wanted);
            }
        });
        found
    }
}

fn line_of(tokens: &impl ToTokens) -> u32 {
    tokens.span().start().line as u32
}
