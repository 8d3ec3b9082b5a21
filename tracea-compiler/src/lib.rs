//! The compiler of Tracea: tokens to typed loop nests, to scheduled programs, to CUDA C++.
pub mod ast;
mod check;
pub mod errors;
pub mod nest;
mod parse;
pub mod plan;
pub mod schedule;

use nest::Nest;
use proc_macro2::TokenStream;
use schedule::spec::ScheduleSpec;

/// The front half: a kernel's tokens to its nests, one an instance, and the schedules written on it.
pub fn front(attr: TokenStream, item: TokenStream) -> syn::Result<(Vec<Nest>, Vec<ScheduleSpec>)> {
    let kernel = parse::parse_kernel(attr, item)?;
    let nests = check::check_kernel(&kernel)?;
    Ok((nests, kernel.schedules))
}
