//! `#[kernel(D = [64, 128], causal = [false, true], T = [f16, bf16])]`: the values that instances are made for.

use super::signature::Generics;
use crate::ast::{DtypeRef, Selector, SelectorKind};
use crate::errors::Errors;
use crate::nest::{Dtype, InstanceValue};
use proc_macro2::{Ident, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, ExprUnary, Lit, Token, UnOp};

struct Listed {
    name: Ident,
    values: Expr,
}

impl Parse for Listed {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Listed { name, values: input.parse()? })
    }
}

/// Every constant, dtype and flag of the signature must be listed, and nothing else.
pub fn selectors(attr: TokenStream, generics: &Generics, flags: &[Ident], errors: &mut Errors) -> Vec<Selector> {
    let listed = match Punctuated::<Listed, Token![,]>::parse_terminated.parse2(attr) {
        Ok(listed) => listed,
        Err(error) => {
            errors.push(syn::Error::new(
                error.span(),
                format!("the attribute lists instances, `#[kernel(D = [64, 128])]` -- {error}"),
            ));
            return Vec::new();
        }
    };
    let mut selectors: Vec<Selector> = Vec::new();
    for Listed { name, values } in &listed {
        if selectors.iter().any(|earlier| earlier.name == *name) {
            errors.at(name, format!("`{name}` is listed twice -- put all its values into one list"));
            continue;
        }
        let kind = if generics.constants.contains(name) {
            SelectorKind::Constant
        } else if generics.dtypes.contains(name) {
            SelectorKind::Dtype
        } else if flags.contains(name) {
            SelectorKind::Flag
        } else {
            let cure = "an instance is made for a `const` generic, a dtype generic or a `bool` argument";
            errors.at(name, format!("`{name}` picks no instance -- {cure}"));
            continue;
        };
        let values = read_values(name, kind, values, errors);
        selectors.push(Selector { name: name.clone(), kind, values });
    }
    let unlisted = |name: &&Ident| !listed.iter().any(|listed| listed.name == **name);
    for name in generics.constants.iter().filter(unlisted) {
        errors.at(name, format!("the device must know `{name}` -- list its values, `#[kernel({name} = [64, 128])]`"));
    }
    for name in generics.dtypes.iter().filter(unlisted) {
        errors.at(
            name,
            format!(
                "the device must know `{name}` -- list its dtypes, `#[kernel({name} = \
            [f16, bf16])]`"
            ),
        );
    }
    for name in flags.iter().filter(unlisted) {
        errors.at(
            name,
            format!("the device must know the flag `{name}` -- list its values, `#[kernel({name} = [false, true])]`"),
        );
    }
    selectors
}

fn read_values(name: &Ident, kind: SelectorKind, values: &Expr, errors: &mut Errors) -> Vec<InstanceValue> {
    let Expr::Array(list) = values else {
        errors.at(
            values,
            format!(
                "the values of `{name}` are a list -- write \
                `{name} = [{}]`",
                quote::quote!(#values)
            ),
        );
        return Vec::new();
    };
    if list.elems.is_empty() {
        errors.at(values, format!("`{name}` has no values, so there is no instance -- list at least one"));
    }
    let mut read = Vec::new();
    for value in &list.elems {
        if let Some(known) = errors.keep(read_value(kind, value)) {
            if read.contains(&known) {
                errors.at(value, format!("this value of `{name}` stands twice -- keep one"));
            }
            read.push(known);
        }
    }
    read
}

fn read_value(kind: SelectorKind, value: &Expr) -> syn::Result<InstanceValue> {
    match (kind, value) {
        (SelectorKind::Constant, Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) => {
            Ok(InstanceValue::Int(number.base10_parse()?))
        }
        (SelectorKind::Constant, Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. })) => {
            match read_value(kind, expr)? {
                InstanceValue::Int(number) => Ok(InstanceValue::Int(-number)),
                _ => Err(syn::Error::new_spanned(value, "a constant's values are whole numbers")),
            }
        }
        (SelectorKind::Constant | SelectorKind::Flag, Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. })) => {
            Ok(InstanceValue::Bool(flag.value))
        }
        (SelectorKind::Dtype, Expr::Path(path)) => {
            let dtype = path.path.segments.last().and_then(|last| DtypeRef::named(&last.ident));
            match dtype {
                Some(dtype @ (Dtype::F16 | Dtype::Bf16 | Dtype::F32)) => Ok(InstanceValue::Dtype(dtype)),
                _ => Err(syn::Error::new_spanned(
                    value,
                    "this is no dtype of a tensor of floats -- list `f16`, `bf16` or `f32`",
                )),
            }
        }
        (SelectorKind::Constant, _) => {
            Err(syn::Error::new_spanned(value, "a constant's values are whole numbers -- write them out"))
        }
        (SelectorKind::Flag, _) => Err(syn::Error::new_spanned(value, "a flag's values are `false` and `true`")),
        (SelectorKind::Dtype, _) => {
            Err(syn::Error::new_spanned(value, "a dtype's values are names -- `f16`, `bf16`, `f32`"))
        }
    }
}
