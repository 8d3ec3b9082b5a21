//! A kernel as the user wrote it: the signature taken apart, the body still syn's.
//!
//! Parsing builds a [`Kernel`]; checking reads meaning out of it and expansion writes its tokens back, so every name keeps
//! its span. `tile!(for pat in range {…})` stays an opaque macro inside the body until [`Tile::parse`] opens it.

use crate::nest::{Dtype, InstanceValue};
use crate::schedule::spec::ScheduleSpec;
use proc_macro2::Ident;
use std::ops::RangeInclusive;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{BinOp, Block, Expr, ExprLit, GenericArgument, ItemFn, Lit, Macro, Pat, Path, PathArguments, Token, Type};

#[derive(Clone, Debug)]
pub struct Kernel {
    /// Without its `#[schedule]` attributes.
    pub item: ItemFn,
    /// What picks an instance, in the attribute's order.
    pub selectors: Vec<Selector>,
    pub schedules: Vec<ScheduleSpec>,
    /// Generics bounded by `Dim`.
    pub dims: Vec<Ident>,
    pub params: Vec<Param>,
}

/// `D = [64, 128]`, `causal = [false, true]`, `T = [f16, bf16]`.
#[derive(Clone, Debug)]
pub struct Selector {
    pub name: Ident,
    pub kind: SelectorKind,
    pub values: Vec<InstanceValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorKind {
    /// `const D: usize`.
    Constant,
    /// `T: Float`.
    Dtype,
    /// A `bool` argument.
    Flag,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub name: Ident,
    pub kind: ParamKind,
}

#[derive(Clone, Debug)]
pub enum ParamKind {
    Tensor(TensorParam),
    /// `f32` or `i32`.
    Scalar(Dtype),
    /// A `bool` that the attribute lists.
    Flag,
}

#[derive(Clone, Debug)]
pub struct TensorParam {
    pub mutable: bool,
    pub dtype: DtypeRef,
    pub dims: Vec<DimRef>,
}

#[derive(Clone, Debug)]
pub enum DtypeRef {
    Known(Dtype),
    Generic(Ident),
}

#[derive(Clone, Debug)]
pub enum DimRef {
    /// `M`.
    Generic(Ident),
    /// `Const<D>`.
    Constant(Ident),
    /// `Const<3>`.
    Literal(i64),
    /// `Dyn`: a size of its own.
    Dyn,
}

/// `for (i, j) in (M, N) { … }` inside `tile!`.
#[derive(Clone, Debug)]
pub struct Tile {
    /// One header for each loop variable, outer first.
    pub headers: Vec<Header>,
    pub body: Block,
}

#[derive(Clone, Debug)]
pub struct Header {
    pub axis: Ident,
    pub range: Expr,
}

impl Kernel {
    pub fn name(&self) -> &Ident {
        &self.item.sig.ident
    }

    pub fn selector(&self, name: &Ident) -> Option<&Selector> {
        self.selectors.iter().find(|selector| selector.name == *name)
    }
}

impl Tile {
    pub fn is(mac: &Macro) -> bool {
        mac.path.segments.last().is_some_and(|segment| segment.ident == "tile")
    }

    pub fn open(mac: &Macro) -> syn::Result<Tile> {
        Tile::parse.parse2(mac.tokens.clone())
    }
}

impl Parse for Tile {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        if !input.peek(Token![for]) {
            return Err(input.error("tile! holds one loop -- write `tile!(for (i, j) in (M, N) { … })`"));
        }
        input.parse::<Token![for]>()?;
        let pattern = Pat::parse_multi(input)?;
        input.parse::<Token![in]>()?;
        let range = Expr::parse_without_eager_brace(input)?;
        let body = input.parse::<Block>()?;
        input.parse::<Option<Token![;]>>()?;
        if !input.is_empty() {
            return Err(input.error("unexpected tokens after the loop's block -- one loop to a tile!"));
        }
        Ok(Tile { headers: headers(pattern, range)?, body })
    }
}

/// Pairs `(i, j)` with `(M, N)`.
fn headers(pattern: Pat, range: Expr) -> syn::Result<Vec<Header>> {
    match (pattern, bare(range)) {
        (Pat::Tuple(names), Expr::Tuple(ranges)) => {
            if names.elems.len() != ranges.elems.len() {
                let text = format!(
                    "{} loop variables over {} ranges -- name one variable for each range",
                    names.elems.len(),
                    ranges.elems.len()
                );
                return Err(syn::Error::new_spanned(names, text));
            }
            if names.elems.is_empty() {
                return Err(syn::Error::new_spanned(names, "a loop without a variable -- name one for each axis"));
            }
            names
                .elems
                .into_iter()
                .zip(ranges.elems)
                .map(|(name, range)| Ok(Header { axis: variable(name)?, range }))
                .collect()
        }
        (Pat::Tuple(names), _) => Err(syn::Error::new_spanned(
            names,
            "several loop variables need a tuple of ranges -- write `for (i, j) in (M, N)`",
        )),
        (name, range) => Ok(vec![Header { axis: variable(name)?, range }]),
    }
}

/// Without parentheses around it.
fn bare(expr: Expr) -> Expr {
    match expr {
        Expr::Paren(inner) => bare(*inner.expr),
        Expr::Group(inner) => bare(*inner.expr),
        other => other,
    }
}

fn variable(pattern: Pat) -> syn::Result<Ident> {
    match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.mutability.is_none() && name.subpat.is_none() => {
            Ok(name.ident)
        }
        Pat::Paren(inner) => variable(*inner.pat),
        other => Err(syn::Error::new_spanned(other, "a loop variable is a plain name -- it becomes the axis' name")),
    }
}

impl DtypeRef {
    pub fn named(name: &(impl PartialEq<str> + ?Sized)) -> Option<Dtype> {
        [Dtype::F16, Dtype::Bf16, Dtype::Tf32, Dtype::F32, Dtype::I32, Dtype::Bool]
            .into_iter()
            .find(|dtype| *name == *dtype.name())
    }
}

/// The argument of `Const::<64>` or `Const::<D>` in an expression.
pub enum ConstArgument<'a> {
    Size(i64),
    Name(&'a Ident),
}

pub fn const_argument(path: &Path) -> Option<ConstArgument<'_>> {
    let last = path.segments.last().filter(|last| last.ident == "Const")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Const(Expr::Lit(ExprLit { lit: Lit::Int(size), .. })) => {
            size.base10_parse().ok().map(ConstArgument::Size)
        }
        GenericArgument::Type(Type::Path(name)) => name.path.get_ident().map(ConstArgument::Name),
        _ => None,
    }
}

/// `+=` and its like.
pub fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// Powers that `powi` writes out as products.
pub const SMALL_POWERS: RangeInclusive<u32> = 1..=4;

/// The name of the dim that `Const<3>` stands for.
pub fn literal_dim(size: i64) -> String {
    format!("const_{size}")
}
