//! Tokens to [`ast::Kernel`](crate::ast::Kernel): the attribute, the signature and the schedules.
//!
//! Input: the tokens of `#[kernel(…)]` and of the item below it. The body is left to checking, and so is what a name means.

mod attribute;
mod schedule;
mod signature;

use crate::ast::{Kernel, Param, ParamKind};
use crate::errors::Errors;
use proc_macro2::TokenStream;
use syn::{FnArg, ItemFn};

/// Gathers every error of the attribute, the signature and the schedules.
pub fn parse_kernel(attr: TokenStream, item: TokenStream) -> syn::Result<Kernel> {
    let mut item: ItemFn = syn::parse2(item).map_err(|error| {
        syn::Error::new(error.span(), format!("#[kernel] stands on a function with a body -- {error}"))
    })?;
    let mut errors = Errors::default();
    let schedules = schedule::take_schedules(&mut item.attrs, &mut errors);
    signature::check_form(&item.sig, &mut errors);
    let generics = signature::Generics::read(&item.sig.generics, &mut errors);
    let params: Vec<Param> = item
        .sig
        .inputs
        .iter()
        .filter_map(|input| match input {
            FnArg::Typed(input) => errors.keep(signature::param(input, &generics)),
            FnArg::Receiver(receiver) => {
                errors.at(receiver, "a kernel takes no `self` -- pass tensors as arguments of a free function");
                None
            }
        })
        .collect();
    let flags: Vec<_> =
        params.iter().filter(|param| matches!(param.kind, ParamKind::Flag)).map(|param| param.name.clone()).collect();
    let selectors = attribute::selectors(attr, &generics, &flags, &mut errors);
    errors.finish()?;
    Ok(Kernel { selectors, schedules, dims: generics.dims, params, item })
}
