//! The kernel's generics and arguments.

use crate::ast::{DimRef, DtypeRef, Param, ParamKind, TensorParam};
use crate::errors::Errors;
use crate::nest::Dtype;
use proc_macro2::Ident;
use syn::{
    Expr, ExprLit, GenericArgument, GenericParam, Lit, Pat, PatType, Path, PathArguments, ReturnType, Signature, Type,
    TypeParamBound, WherePredicate,
};

pub struct Generics {
    /// Bounded by `Dim`.
    pub dims: Vec<Ident>,
    /// Bounded by `Float`.
    pub dtypes: Vec<Ident>,
    pub constants: Vec<Ident>,
}

/// What a kernel's `fn` line may not say.
pub fn check_form(signature: &Signature, errors: &mut Errors) {
    if let ReturnType::Type(_, ty) = &signature.output {
        errors.at(ty, "a kernel returns nothing -- write results to a `&mut Tensor` argument");
    }
    if let Some(token) = &signature.asyncness {
        errors.at(token, "a kernel is not `async` -- its launch is asynchronous by itself");
    }
    if let Some(token) = &signature.unsafety {
        errors.at(token, "a kernel is not `unsafe` -- drop the word");
    }
    if let Some(token) = &signature.constness {
        errors.at(token, "a kernel is not `const` -- drop the word");
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "a kernel has no ABI of its own -- drop `extern`");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "a kernel takes a fixed number of arguments -- drop `...`");
    }
}

impl Generics {
    pub fn read(generics: &syn::Generics, errors: &mut Errors) -> Generics {
        let mut read = Generics { dims: Vec::new(), dtypes: Vec::new(), constants: Vec::new() };
        for param in &generics.params {
            match param {
                GenericParam::Const(param) => read.constants.push(param.ident.clone()),
                GenericParam::Lifetime(param) => {
                    errors.at(
                        param,
                        "named lifetimes are not supported yet -- leave them out, arguments live as long \
                            as the launch",
                    );
                }
                GenericParam::Type(param) => {
                    let from_where =
                        generics.where_clause.iter().flat_map(|clause| &clause.predicates).filter_map(|predicate| {
                            match predicate {
                                WherePredicate::Type(bound) if names(&bound.bounded_ty, &param.ident) => {
                                    Some(&bound.bounds)
                                }
                                _ => None,
                            }
                        });
                    let bounds: Vec<&TypeParamBound> =
                        std::iter::once(&param.bounds).chain(from_where).flat_map(|bounds| bounds.iter()).collect();
                    if bounds.iter().any(|bound| bounded_by(bound, "Dim")) {
                        read.dims.push(param.ident.clone());
                    } else if bounds.iter().any(|bound| bounded_by(bound, "Float")) {
                        read.dtypes.push(param.ident.clone());
                    } else {
                        errors.at(
                            param,
                            "a kernel's type parameter is a dim or a dtype -- bound it by \
                                `Dim` or `Float`",
                        );
                    }
                }
            }
        }
        read
    }
}

fn names(ty: &Type, ident: &Ident) -> bool {
    matches!(ty, Type::Path(path) if path.qself.is_none() && path.path.is_ident(ident))
}

fn bounded_by(bound: &TypeParamBound, name: &str) -> bool {
    matches!(bound, TypeParamBound::Trait(bound) if bound.path.segments.last().is_some_and(|last| last.ident == name))
}

const ARGUMENTS: &str = "an argument is `&Tensor<…>`, `&mut Tensor<…>`, `f32`, `i32` or `bool`";

pub fn param(input: &PatType, generics: &Generics) -> syn::Result<Param> {
    let name = match &*input.pat {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() && pattern.mutability.is_none() => {
            pattern.ident.clone()
        }
        other => {
            return Err(syn::Error::new_spanned(
                other,
                "a kernel's argument is a plain name -- name it and take it apart in the body",
            ));
        }
    };
    let kind = match bare(&input.ty) {
        Type::Reference(reference) => {
            if let Some(lifetime) = &reference.lifetime {
                let text =
                    "named lifetimes are not supported yet -- leave it out, arguments live as long as the launch";
                return Err(syn::Error::new_spanned(lifetime, text));
            }
            ParamKind::Tensor(tensor(bare(&reference.elem), reference.mutability.is_some(), generics)?)
        }
        ty @ Type::Path(path) => match path.path.get_ident().map(Ident::to_string).as_deref() {
            Some("f32") => ParamKind::Scalar(Dtype::F32),
            Some("i32") => ParamKind::Scalar(Dtype::I32),
            Some("bool") => ParamKind::Flag,
            Some(other @ ("usize" | "isize" | "u32" | "i64" | "u64")) => {
                return Err(syn::Error::new_spanned(
                    ty,
                    format!("a `{other}` argument is not supported yet -- use `i32`"),
                ));
            }
            Some(other @ ("f16" | "bf16" | "f64")) => {
                return Err(syn::Error::new_spanned(
                    ty,
                    format!("a `{other}` argument is not supported yet -- use `f32`"),
                ));
            }
            _ if last_ident(&path.path).is_some_and(|last| last == "Tensor") => {
                return Err(syn::Error::new_spanned(
                    ty,
                    "a tensor is borrowed -- write `&Tensor<…>`, or `&mut Tensor<…>` for an output",
                ));
            }
            _ => {
                return Err(syn::Error::new_spanned(
                    ty,
                    format!("this type cannot be passed to a kernel -- {ARGUMENTS}"),
                ));
            }
        },
        other => {
            return Err(syn::Error::new_spanned(
                other,
                format!("this type cannot be passed to a kernel -- {ARGUMENTS}"),
            ));
        }
    };
    Ok(Param { name, kind })
}

fn tensor(ty: &Type, mutable: bool, generics: &Generics) -> syn::Result<TensorParam> {
    let form = || syn::Error::new_spanned(ty, "a borrowed argument is a tensor -- write `Tensor<f16, (M, K)>`");
    let Type::Path(path) = ty else { return Err(form()) };
    let last = path.path.segments.last().filter(|last| last.ident == "Tensor").ok_or_else(form)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Err(form()) };
    let mut arguments = arguments.args.iter();
    let (Some(GenericArgument::Type(dtype)), Some(GenericArgument::Type(shape)), None) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err(form());
    };
    let Type::Tuple(shape) = bare(shape) else {
        return Err(syn::Error::new_spanned(shape, "a shape is a tuple of dims -- `(M, K)`, `(N,)`"));
    };
    if shape.elems.is_empty() || shape.elems.len() > 6 {
        return Err(syn::Error::new_spanned(shape, "a tensor has one to six axes"));
    }
    let dims = shape.elems.iter().map(|dim| dim_of(dim, generics)).collect::<syn::Result<_>>()?;
    Ok(TensorParam { mutable, dtype: dtype_of(bare(dtype), generics)?, dims })
}

fn dtype_of(ty: &Type, generics: &Generics) -> syn::Result<DtypeRef> {
    let unknown = || {
        syn::Error::new_spanned(
            ty,
            "this is no element type of a tensor -- use `f16`, `bf16`, `f32`, `i32` or a generic bounded by `Float`",
        )
    };
    let Type::Path(path) = ty else { return Err(unknown()) };
    let name = last_ident(&path.path).ok_or_else(unknown)?;
    if generics.dtypes.contains(name) && path.path.segments.len() == 1 {
        return Ok(DtypeRef::Generic(name.clone()));
    }
    match DtypeRef::named(name) {
        Some(dtype @ (Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::I32)) => Ok(DtypeRef::Known(dtype)),
        Some(Dtype::Tf32) => Err(syn::Error::new_spanned(
            ty,
            "tf32 is a way to multiply, not to store -- keep the tensor `f32` and write `.to::<tf32>()` on the \
                dot's operands",
        )),
        Some(Dtype::Bool) => Err(syn::Error::new_spanned(ty, "a tensor of `bool` is not supported yet -- use `i32`")),
        None => Err(unknown()),
    }
}

fn dim_of(ty: &Type, generics: &Generics) -> syn::Result<DimRef> {
    let unknown = || {
        syn::Error::new_spanned(
            ty,
            "this is no dim -- use a generic bounded by `Dim`, `Const<64>`, or `Const<D>` with `const D: usize`",
        )
    };
    let Type::Path(path) = bare(ty) else { return Err(unknown()) };
    let last = path.path.segments.last().ok_or_else(unknown)?;
    if last.ident == "Dyn" && last.arguments.is_none() {
        return Ok(DimRef::Dyn);
    }
    if last.ident != "Const" {
        return path
            .path
            .get_ident()
            .filter(|name| generics.dims.contains(name))
            .cloned()
            .map(DimRef::Generic)
            .ok_or_else(unknown);
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Err(unknown()) };
    match arguments.args.first() {
        Some(GenericArgument::Type(Type::Path(name))) => name
            .path
            .get_ident()
            .filter(|name| generics.constants.contains(name))
            .cloned()
            .map(DimRef::Constant)
            .ok_or_else(unknown),
        Some(GenericArgument::Const(Expr::Lit(ExprLit { lit: Lit::Int(size), .. }))) => {
            Ok(DimRef::Literal(size.base10_parse()?))
        }
        Some(GenericArgument::Const(Expr::Block(block))) => match block.block.stmts.as_slice() {
            [syn::Stmt::Expr(Expr::Lit(ExprLit { lit: Lit::Int(size), .. }), None)] => {
                Ok(DimRef::Literal(size.base10_parse()?))
            }
            [syn::Stmt::Expr(Expr::Path(name), None)] => name
                .path
                .get_ident()
                .filter(|name| generics.constants.contains(name))
                .cloned()
                .map(DimRef::Constant)
                .ok_or_else(unknown),
            _ => Err(syn::Error::new_spanned(
                block,
                "arithmetic on dims is not supported yet -- give the size a `const` generic of its own",
            )),
        },
        _ => Err(unknown()),
    }
}

fn last_ident(path: &Path) -> Option<&Ident> {
    path.segments.last().map(|segment| &segment.ident)
}

fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Paren(inner) => bare(&inner.elem),
        Type::Group(inner) => bare(&inner.elem),
        other => other,
    }
}
