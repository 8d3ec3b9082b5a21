//! The macros of Tracea: a thin face over `tracea_compiler`.

use proc_macro::TokenStream;

/// Makes a function of tiled loop nests a kernel: it runs on the CPU as it stands, and on a GPU as CUDA that is lowered here.
///
/// The attribute lists the values that instances are made for: `#[kernel(D = [64, 128], causal = [false, true], T = [f16, bf16])]`.
/// `#[schedule(sm_80, i = 128, j = 128, stages = 4)]` below it pins a schedule for one target.
#[proc_macro_attribute]
pub fn kernel(attr: TokenStream, item: TokenStream) -> TokenStream {
    tracea_compiler::kernel(attr.into(), item.into()).into()
}

/// Makes a scalar function of `f32`, `i32` and `bool` usable in kernels: `x.map(relu)`, or by name inside a closure.
#[proc_macro_attribute]
pub fn device(attr: TokenStream, item: TokenStream) -> TokenStream {
    tracea_compiler::device(attr.into(), item.into()).into()
}

/// A tiled loop of a kernel: `tile!(for (i, j) in (M, N) { … })`. `#[kernel]` reads it.
#[proc_macro]
pub fn tile(_: TokenStream) -> TokenStream {
    "::core::compile_error!(\"tile! is only known inside a #[kernel] function -- put #[kernel] on the function around it\")"
        .parse()
        .unwrap_or_default()
}
