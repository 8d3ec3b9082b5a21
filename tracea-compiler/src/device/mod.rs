//! `#[device] fn`: a scalar function twice over, as Rust that is generic in its arithmetic and as CUDA text.
//!
//! ```text
//! fn leaky<f32: Real>(x: f32, a: f32) -> f32 { … }       // the user's tokens, literals as num::<f32>(…)
//! struct leaky {}                                        // the same name for types: carries the CUDA text,
//! impl DeviceFunction for leaky { const DEF … }          // so that rustc resolves a path to both
//! ```

mod cuda;

use crate::errors::Errors;
use crate::expand::{private, scalar_block};
use crate::nest::Dtype;
use cuda::Text;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{FnArg, ItemFn, Pat, ReturnType, Type};

/// The signature of a device function.
pub struct Signature {
    pub name: Ident,
    pub params: Vec<(Ident, Dtype)>,
    pub result: Dtype,
}

pub fn expand_device(attr: TokenStream, item: TokenStream) -> TokenStream {
    let function: ItemFn = match syn::parse2(item) {
        Ok(function) => function,
        Err(error) => {
            return syn::Error::new(error.span(), format!("#[device] stands on a function with a body -- {error}"))
                .to_compile_error();
        }
    };
    let mut errors = Errors::default();
    if !attr.is_empty() {
        errors.at(attr, "#[device] takes no arguments");
    }
    let signature = read_signature(&function, &mut errors);
    let Text { source, uses } = cuda::translate(&signature, &function.block, &mut errors);
    let told = errors.finish().err().map(|error| error.to_compile_error());
    let host = host_function(&function, &signature, told.is_none());
    let private = private();
    let (vis, name) = (&function.vis, &signature.name);
    let uses = uses.iter().map(|(alias, path)| {
        quote! { #private::plan::Function { alias: #alias, def: <#path as #private::DeviceFunction>::DEF } }
    });
    quote! {
        #host
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis struct #name {}
        impl #private::DeviceFunction for #name {
            const DEF: &'static #private::plan::FunctionDef =
                &#private::plan::FunctionDef { source: #source, uses: &[#(#uses),*] };
        }
        #told
    }
}

/// Where the body has faults, the signature stands alone, so that its callers bring no errors.
fn host_function(function: &ItemFn, signature: &Signature, sound: bool) -> TokenStream {
    let ItemFn { attrs, vis, sig, block } = function;
    let private = private();
    let (name, inputs, output) = (&sig.ident, &sig.inputs, &sig.output);
    let params: Vec<(Ident, bool)> =
        signature.params.iter().map(|(name, dtype)| (name.clone(), *dtype == Dtype::F32)).collect();
    let block = if sound {
        scalar_block(&params, block)
    } else {
        quote! { { ::core::unreachable!() } }
    };
    let allow = (!sound).then(|| quote! { #[allow(unused_variables, reason = "the body was refused")] });
    let floats = signature.result == Dtype::F32 || signature.params.iter().any(|(_, dtype)| *dtype == Dtype::F32);
    let generics = floats.then(|| quote! { <f32: #private::Real> });
    quote! {
        #(#attrs)*
        #allow
        #[allow(
            non_camel_case_types, non_snake_case, unused_parens, unused_braces,
            clippy::all, clippy::pedantic, clippy::nursery
        )]
        #vis fn #name #generics(#inputs) #output #block
    }
}

fn read_signature(function: &ItemFn, errors: &mut Errors) -> Signature {
    let sig = &function.sig;
    if !sig.generics.params.is_empty() {
        errors.at(
            &sig.generics,
            "a device function is not generic -- write `f32`, it stands for whichever arithmetic runs the kernel",
        );
    }
    for (token, word) in [
        (sig.asyncness.map(|token| token.span), "async"),
        (sig.unsafety.map(|token| token.span), "unsafe"),
        (sig.constness.map(|token| token.span), "const"),
    ] {
        if let Some(span) = token {
            errors.push(syn::Error::new(span, format!("a device function is not `{word}` -- drop the word")));
        }
    }
    let mut params = Vec::new();
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(receiver) => errors.at(receiver, "a device function takes no `self` -- pass scalars"),
            FnArg::Typed(input) => {
                let Some(dtype) = scalar(&input.ty) else {
                    errors.at(
                        &input.ty,
                        "a device function works on scalars -- its arguments are `f32`, `i32` or `bool`",
                    );
                    continue;
                };
                match &*input.pat {
                    Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                        params.push((name.ident.clone(), dtype))
                    }
                    other => errors.at(other, "an argument of a device function is a plain name"),
                }
            }
        }
    }
    let result = match &sig.output {
        ReturnType::Type(_, ty) => scalar(ty).unwrap_or_else(|| {
            errors.at(ty, "a device function returns a scalar -- `f32`, `i32` or `bool`");
            Dtype::F32
        }),
        ReturnType::Default => {
            errors.at(&sig.ident, "a device function returns a scalar -- write `-> f32`");
            Dtype::F32
        }
    };
    Signature { name: sig.ident.clone(), params, result }
}

fn scalar(ty: &Type) -> Option<Dtype> {
    let Type::Path(path) = ty else { return None };
    match path.path.get_ident()?.to_string().as_str() {
        "f32" => Some(Dtype::F32),
        "i32" => Some(Dtype::I32),
        "bool" => Some(Dtype::Bool),
        _ => None,
    }
}
