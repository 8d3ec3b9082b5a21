//! A checked kernel back to Rust: the launcher under the user's name and signature, the host body, and the lowered kernel as
//! data.
//!
//! ```text
//! pub fn name<'__t, M: Dim>(a: &'__t Tensor<f16, (M,)>) -> tracea::Launch<'__t> {
//!     fn __body<f16, bf16, tf32, f32, M>(__grid, a)   // the user's tokens: one grid point, generic in its arithmetic
//!     fn __native, fn __oracle                        // the body in machine arithmetic and in the oracle's
//!     fn __grid                                       // the grid's axes
//!     static __KERNEL: KernelDef                      // what the compiler lowered
//!     Launch::new(&__KERNEL, …)
//! }
//! ```
//!
//! The body's type parameters carry the dtypes' names, so that the user's `f32` means whichever arithmetic runs it.

mod body;
mod definition;
mod entry;
mod expr;
mod names;

use crate::ast::{DimRef, DtypeRef, Kernel, ParamKind, SelectorKind, TensorParam};
use crate::errors::Failure;
use crate::nest::{InstanceValue, Nest};
use crate::plan::Instance;
use body::{Body, extent_name};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{FnArg, GenericArgument, GenericParam, ItemFn, Type, TypeParamBound, WherePredicate};

/// `instances`: for each nest, what it was lowered to; where there is none, the kernel runs on the CPU only.
pub fn expand_kernel(kernel: &Kernel, nests: &[Nest], instances: &[Instance]) -> TokenStream {
    let body = host_body(kernel);
    let entries = entry::entries(kernel, nests);
    let operands = definition::operands(kernel, instances);
    let definition = definition::kernel_def(kernel, nests, instances);
    let launch = entry::launch(kernel);
    let private = private();
    launcher(
        kernel,
        quote! {
            #body
            #entries
            #operands
            static __KERNEL: #private::plan::KernelDef = #definition;
            static __SLOT: #private::KernelSlot = #private::KernelSlot::new();
            #launch
        },
    )
}

/// The user's function with the errors beside it. rustc still sees the body where it can make sense of it.
pub fn expand_failed(kernel: &Kernel, failure: Failure) -> TokenStream {
    let stands = failure.fatal.is_empty();
    let silent = failure.ours.is_empty() && stands;
    let told: TokenStream = [failure.fatal.finish(), failure.ours.finish()]
        .into_iter()
        .filter_map(|result| result.err())
        .map(|error| error.to_compile_error())
        .collect();
    // Its warnings would only repeat what is wrong.
    let body = stands.then(|| host_body(kernel)).map(|body| quote! { #[allow(warnings)] #body });
    // rustc words these faults better. Should it see none of them, they surface when the launcher is compiled.
    let last_word = match failure.left_to_rustc.finish() {
        Err(error) if silent => {
            let text = format!("`{}`: {error}", kernel.name());
            quote! { const { ::core::panic!(#text) } }
        }
        _ => quote! { ::core::unreachable!() },
    };
    let arguments = kernel.params.iter().map(|param| &param.name);
    let function = launcher(kernel, quote! { #body let _ = (#(#arguments,)*); #last_word });
    quote! { #function #told }
}

/// The signature stands, so that calls of the kernel bring no errors of their own.
pub fn expand_unparsed(item: TokenStream, error: syn::Error) -> TokenStream {
    let told = error.to_compile_error();
    let Ok(mut item) = syn::parse2::<ItemFn>(item) else { return told };
    item.attrs.retain(|attr| !attr.path().is_ident("schedule"));
    item.attrs.push(syn::parse_quote! { #[allow(unused_variables, clippy::all, reason = "the body was refused")] });
    *item.block = syn::parse_quote! {{ ::core::unreachable!() }};
    item.sig.output = syn::parse_quote! { -> ::tracea::Launch<'static> };
    quote! { #item #told }
}

/// Where expansion finds the runtime.
pub fn private() -> TokenStream {
    quote! { ::tracea::__private }
}

/// A block of scalar arithmetic: a device function's. Of each parameter: whether it is a float.
pub fn scalar_block(params: &[(Ident, bool)], block: &syn::Block) -> TokenStream {
    Body::scalar(params).scalar_block(block)
}

/// A type for a loop variable's axis.
fn axis_declaration(axis: &Ident, ordinal: usize) -> TokenStream {
    let private = private();
    let name = axis.to_string();
    let ordinal = format_ident!("N{}", ordinal.min(14));
    quote! {
        #[allow(non_camel_case_types, dead_code)]
        enum #axis {}
        impl #private::AxisName for #axis {
            type Ordinal = #private::#ordinal;
            const NAME: &'static str = #name;
        }
    }
}

/// The function that the user calls.
fn launcher(kernel: &Kernel, contents: TokenStream) -> TokenStream {
    let ItemFn { attrs, vis, sig, .. } = &kernel.item;
    let (name, where_clause) = (&sig.ident, &sig.generics.where_clause);
    let params = &sig.generics.params;
    let inputs = sig.inputs.iter().map(|input| match input {
        FnArg::Typed(input) => {
            let mut input = input.clone();
            if let Type::Reference(reference) = &mut *input.ty {
                reference.lifetime = Some(syn::Lifetime::new("'__t", Span::call_site()));
            }
            input.to_token_stream()
        }
        FnArg::Receiver(receiver) => receiver.to_token_stream(),
    });
    quote! {
        #(#attrs)*
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
        #vis fn #name<'__t, #params>(#(#inputs),*) -> ::tracea::Launch<'__t> #where_clause {
            #contents
        }
    }
}

/// One grid point, in any arithmetic.
fn host_body(kernel: &Kernel) -> TokenStream {
    let private = private();
    let mut rewriter = Body::new(kernel);
    let statements = rewriter.top_level(&kernel.item.block);
    let arithmetic = quote! { #private::Arithmetic<Acc = f32> };
    let generics = kernel.item.sig.generics.params.iter().map(|param| match param {
        GenericParam::Type(param) if is_dtype(kernel, &param.ident) => {
            let name = &param.ident;
            quote! { #name: #arithmetic }
        }
        other => other.to_token_stream(),
    });
    let predicates = kernel.item.sig.generics.where_clause.iter().flat_map(|clause| &clause.predicates).filter(
        |predicate| !matches!(predicate, WherePredicate::Type(bound) if bound.bounds.iter().any(is_float_bound)),
    );
    let inputs = kernel.item.sig.inputs.iter().map(view_input);
    let extents = extents(kernel);
    let scalars =
        kernel.params.iter().filter(|param| matches!(param.kind, ParamKind::Scalar(crate::nest::Dtype::F32))).map(
            |param| {
                let name = &param.name;
                quote! { let #name = #private::scalar::<f32>(#name); }
            },
        );
    quote! {
        #[allow(
            non_camel_case_types, non_snake_case, dead_code, unused_parens, unused_braces,
            clippy::all, clippy::pedantic, clippy::nursery
        )]
        fn __body<f16: #arithmetic, bf16: #arithmetic, tf32: #arithmetic, f32: #arithmetic, #(#generics),*>(
            __grid: &#private::GridPoint, #(#inputs),*
        ) where #(#predicates),* {
            #extents
            #(#scalars)*
            #statements
        }
    }
}

fn is_dtype(kernel: &Kernel, name: &Ident) -> bool {
    kernel.selector(name).is_some_and(|selector| selector.kind == SelectorKind::Dtype)
}

fn is_float_bound(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Trait(bound) if bound.path.segments.last().is_some_and(|last| last.ident == "Float"))
}

/// `a: &Tensor<f16, (M, K)>` as the body takes it: a view; scalars by their primitive types.
fn view_input(input: &FnArg) -> TokenStream {
    let private = private();
    let FnArg::Typed(input) = input else { return input.to_token_stream() };
    let pattern = &input.pat;
    match &*input.ty {
        Type::Reference(reference) => {
            let (and, mutability) = (reference.and_token, reference.mutability);
            let (dtype, shape) = tensor_arguments(&reference.elem);
            quote! { #pattern: #and #mutability #private::View<#dtype, #shape> }
        }
        Type::Path(path) if path.path.is_ident("f32") => quote! { #pattern: ::core::primitive::f32 },
        ty => quote! { #pattern: #ty },
    }
}

/// Dtype and shape of `Tensor<f16, (M, K)>`, as written.
fn tensor_arguments(ty: &Type) -> (TokenStream, TokenStream) {
    if let Type::Path(path) = ty
        && let Some(syn::PathArguments::AngleBracketed(arguments)) =
            path.path.segments.last().map(|last| &last.arguments)
        && let (Some(dtype), Some(shape)) = (arguments.args.first(), arguments.args.get(1))
    {
        return (unqualified(dtype), shape.to_token_stream());
    }
    match ty {
        Type::Paren(inner) => tensor_arguments(&inner.elem),
        Type::Group(inner) => tensor_arguments(&inner.elem),
        _ => (quote! { _ }, quote! { _ }),
    }
}

/// `half::f16` as `f16`: the body's type parameter of that name.
fn unqualified(dtype: &GenericArgument) -> TokenStream {
    match dtype {
        GenericArgument::Type(Type::Path(path)) => {
            path.path.segments.last().map_or_else(|| dtype.to_token_stream(), |last| last.to_token_stream())
        }
        other => other.to_token_stream(),
    }
}

/// Every dim and constant as an integer that the body can compute with.
fn extents(kernel: &Kernel) -> TokenStream {
    let private = private();
    let mut tokens = TokenStream::new();
    for dim in &kernel.dims {
        let name = extent_name(dim);
        let Some((tensor, axis)) = find_dim(kernel, |used| matches!(used, DimRef::Generic(used) if used == dim)) else {
            continue;
        };
        tokens.extend(quote! { let #name = #private::Extent::<#dim>::new(#tensor.size(#axis)); });
    }
    for selector in kernel.selectors.iter().filter(|selector| selector.kind == SelectorKind::Constant) {
        let (constant, name) = (&selector.name, extent_name(&selector.name));
        let value = if matches!(selector.values.first(), Some(InstanceValue::Bool(_))) {
            quote! { #constant }
        } else if find_dim(kernel, |used| matches!(used, DimRef::Constant(used) if used == constant)).is_some() {
            quote! { #private::Extent::<#private::Const<#constant>>::new(#constant as i32) }
        } else {
            quote! { #constant as i32 }
        };
        tokens.extend(quote! { let #name = #value; });
    }
    tokens
}

/// A tensor and an axis of it that this dim stands on.
fn find_dim(kernel: &Kernel, wanted: impl Fn(&DimRef) -> bool) -> Option<(&Ident, Literal)> {
    tensors(kernel).find_map(|(name, tensor)| {
        let axis = tensor.dims.iter().position(&wanted)?;
        Some((name, Literal::usize_unsuffixed(axis)))
    })
}

fn tensors(kernel: &Kernel) -> impl Iterator<Item = (&Ident, &TensorParam)> {
    kernel.params.iter().filter_map(|param| match &param.kind {
        ParamKind::Tensor(tensor) => Some((&param.name, tensor)),
        _ => None,
    })
}

fn is_generic_dtype(dtype: &DtypeRef) -> bool {
    matches!(dtype, DtypeRef::Generic(_))
}
