//! The functions that the runtime calls: the body in each arithmetic, the grid, and the launch itself.

use super::{is_dtype, is_generic_dtype, private, tensor_arguments, tensors};
use crate::ast::{Kernel, ParamKind, SelectorKind};
use crate::nest::{AxisKind, DimId, Dtype, Extent, InstanceValue, Nest, Op};
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{FnArg, GenericParam, Type};

pub fn entries(kernel: &Kernel, nests: &[Nest]) -> TokenStream {
    let private = private();
    let native = entry(kernel, "__native", Arithmetic::Machine);
    let oracle = entry(kernel, "__oracle", Arithmetic::Oracle);
    let grid = nests.first().map(|nest| grid(kernel, nest, nests));
    let (params, where_clause) = (&kernel.item.sig.generics.params, &kernel.item.sig.generics.where_clause);
    quote! {
        #native
        #oracle
        #[allow(unused_variables, reason = "a grid of known sizes asks for no argument")]
        fn __grid<#params>(__args: &[#private::HostArg]) -> #private::GridShape #where_clause {
            #grid
        }
    }
}

/// The launcher's last expression.
pub fn launch(kernel: &Kernel) -> TokenStream {
    let private = private();
    let keys = kernel.selectors.iter().map(|selector| {
        let name = &selector.name;
        match (selector.kind, selector.values.first()) {
            (SelectorKind::Dtype, _) => quote! { #private::Key::Dtype(<#name as #private::Element>::DTYPE) },
            (SelectorKind::Flag, _) | (_, Some(InstanceValue::Bool(_))) => quote! { #private::Key::Bool(#name) },
            (SelectorKind::Constant, _) => quote! { #private::Key::Int(#name as i64) },
        }
    });
    let arguments = kernel.params.iter().filter_map(|param| {
        let name = &param.name;
        match &param.kind {
            ParamKind::Tensor(tensor) if tensor.mutable => Some(quote! { #private::ArgRef::output(#name) }),
            ParamKind::Tensor(_) => Some(quote! { #private::ArgRef::input(#name) }),
            ParamKind::Scalar(Dtype::I32) => Some(quote! { #private::ArgRef::i32(#name) }),
            ParamKind::Scalar(_) => Some(quote! { #private::ArgRef::f32(#name) }),
            ParamKind::Flag => None,
        }
    });
    let flags = kernel.params.iter().filter(|param| matches!(param.kind, ParamKind::Flag)).map(|param| {
        let name = &param.name;
        quote! { .flag(#name) }
    });
    let generics = generic_names(kernel);
    let turbofish = if generics.is_empty() {
        TokenStream::new()
    } else {
        quote! { ::<#(#generics),*> }
    };
    quote! {
        #private::Launch::new(
            &__KERNEL,
            &__SLOT,
            &[#(#keys),*],
            &[#(#arguments),*],
            #private::HostKernel::new(__native #turbofish, __oracle #turbofish, __grid #turbofish)#(#flags)*,
        )
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Arithmetic {
    Machine,
    Oracle,
}

impl Arithmetic {
    /// The type that computes with a dtype of the language.
    fn dtype(self, dtype: Dtype) -> TokenStream {
        let private = private();
        let (machine, model) = match dtype {
            Dtype::F16 => (quote! { #private::f16 }, quote! { F16 }),
            Dtype::Bf16 => (quote! { #private::bf16 }, quote! { Bf16 }),
            Dtype::Tf32 => (quote! { #private::tf32 }, quote! { Tf32 }),
            Dtype::F32 => (quote! { ::core::primitive::f32 }, quote! { F32 }),
            Dtype::I32 => return quote! { ::core::primitive::i32 },
            Dtype::Bool => return quote! { ::core::primitive::bool },
        };
        match self {
            Arithmetic::Machine => machine,
            Arithmetic::Oracle => quote! { #private::Bounded<#private::#model> },
        }
    }

    fn generic(self, name: &impl ToTokens) -> TokenStream {
        let private = private();
        match self {
            Arithmetic::Machine => name.to_token_stream(),
            Arithmetic::Oracle => quote! { <#name as #private::Element>::Oracle },
        }
    }
}

/// Calls the body with typed views of the arguments.
fn entry(kernel: &Kernel, name: &str, arithmetic: Arithmetic) -> TokenStream {
    let private = private();
    let name = format_ident!("{name}");
    let (params, where_clause) = (&kernel.item.sig.generics.params, &kernel.item.sig.generics.where_clause);
    let dtypes = [Dtype::F16, Dtype::Bf16, Dtype::Tf32, Dtype::F32].map(|dtype| arithmetic.dtype(dtype));
    let generics = kernel.item.sig.generics.params.iter().map(|param| match param {
        GenericParam::Type(param) if is_dtype(kernel, &param.ident) => arithmetic.generic(&param.ident),
        GenericParam::Type(param) => param.ident.to_token_stream(),
        GenericParam::Const(param) => param.ident.to_token_stream(),
        GenericParam::Lifetime(param) => param.lifetime.to_token_stream(),
    });
    let flag_start = kernel.params.iter().filter(|param| !matches!(param.kind, ParamKind::Flag)).count();
    let (mut next, mut next_flag) = (0, flag_start);
    let arguments: Vec<TokenStream> = kernel
        .params
        .iter()
        .zip(&kernel.item.sig.inputs)
        .map(|(param, input)| {
            let counter = if matches!(param.kind, ParamKind::Flag) { &mut next_flag } else { &mut next };
            let at = Literal::usize_unsuffixed(*counter);
            *counter += 1;
            match &param.kind {
                ParamKind::Tensor(tensor) => {
                    let (written, shape) = written_tensor(input);
                    let dtype = match &tensor.dtype {
                        dtype if is_generic_dtype(dtype) => arithmetic.generic(&written),
                        crate::ast::DtypeRef::Known(dtype) => arithmetic.dtype(*dtype),
                        crate::ast::DtypeRef::Generic(name) => arithmetic.generic(name),
                    };
                    if tensor.mutable {
                        quote! { &mut __args[#at].view_mut::<#dtype, #shape>() }
                    } else {
                        quote! { &__args[#at].view::<#dtype, #shape>() }
                    }
                }
                ParamKind::Scalar(Dtype::I32) => quote! { __args[#at].i32() },
                ParamKind::Scalar(_) => quote! { __args[#at].f32() },
                ParamKind::Flag => quote! { __args[#at].flag() },
            }
        })
        .collect();
    quote! {
        fn #name<#params>(__point: &#private::GridPoint, __args: &[#private::HostArg]) #where_clause {
            __body::<#(#dtypes,)* #(#generics),*>(__point, #(#arguments),*)
        }
    }
}

fn written_tensor(input: &FnArg) -> (TokenStream, TokenStream) {
    match input {
        FnArg::Typed(input) => match &*input.ty {
            Type::Reference(reference) => tensor_arguments(&reference.elem),
            other => tensor_arguments(other),
        },
        FnArg::Receiver(_) => (quote! { _ }, quote! { _ }),
    }
}

fn grid(kernel: &Kernel, nest: &Nest, nests: &[Nest]) -> TokenStream {
    let private = private();
    let axes = nest.grid.iter().map(|axis| {
        let axis = nest.axis(*axis);
        let extent = match &axis.extent {
            Extent::Dim(dim) => extent(kernel, nest, *dim),
            Extent::Flat(dims) => {
                let dims = dims.iter().map(|dim| extent(kernel, nest, *dim));
                quote! { #private::flat((#(#dims),*)) }
            }
        };
        match axis.kind {
            AxisKind::Each => quote! { #private::GridAxis::each(#extent) },
            AxisKind::Tiled | AxisKind::Whole => quote! { #private::GridAxis::tiled(#extent) },
        }
    });
    let products = nests.iter().flat_map(|nest| &nest.values).any(|value| matches!(value.op, Op::Dot { .. }));
    let work = if products {
        quote! { Products }
    } else {
        quote! { Elements }
    };
    quote! { #private::GridShape::new(#private::Work::#work, &[#(#axes),*]) }
}

/// A dim's size, read off the first tensor that it stands in.
fn extent(kernel: &Kernel, nest: &Nest, dim: DimId) -> TokenStream {
    let found = nest.tensors.iter().find_map(|tensor| {
        let axis = tensor.dims.iter().position(|known| *known == dim)?;
        let position = tensors(kernel).position(|(name, _)| name == &tensor.name)?;
        Some((tensor, position, axis))
    });
    let Some((tensor, _, axis)) = found else { return TokenStream::new() };
    let place = kernel.params[..tensor.position].iter().filter(|param| !matches!(param.kind, ParamKind::Flag)).count();
    let shape = kernel.item.sig.inputs.iter().nth(tensor.position).map(|input| written_tensor(input).1);
    let ty = shape
        .and_then(|shape| syn::parse2::<syn::TypeTuple>(shape).ok())
        .and_then(|shape| shape.elems.get(axis).cloned());
    let (place, axis) = (Literal::usize_unsuffixed(place), Literal::usize_unsuffixed(axis));
    quote! { __args[#place].extent::<#ty>(#axis) }
}

fn generic_names(kernel: &Kernel) -> Vec<TokenStream> {
    kernel
        .item
        .sig
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(param) => Some(param.ident.to_token_stream()),
            GenericParam::Const(param) => Some(param.ident.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        })
        .collect()
}
