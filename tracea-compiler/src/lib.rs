//! The compiler of Tracea: tokens to typed loop nests, to scheduled programs, to CUDA C++.
pub mod ast;
mod check;
mod constant;
mod device;
pub mod emit;
pub mod errors;
mod expand;
mod identifier;
pub mod lower;
pub mod nest;
mod parse;
pub mod plan;
pub mod program;
pub mod schedule;
#[cfg(test)]
mod testing;

use lower::precomputed::precomputed;
use nest::Nest;
use proc_macro2::TokenStream;
use schedule::spec::ScheduleSpec;

/// `#[kernel]`: the attribute's tokens and the function below it to the function that the user calls.
pub fn kernel(attr: TokenStream, item: TokenStream) -> TokenStream {
    let kernel = match parse::parse_kernel(attr, item.clone()) {
        Ok(kernel) => kernel,
        Err(error) => return expand::expand_unparsed(item, error),
    };
    let nests = match check::check_kernel(&kernel) {
        Ok(nests) => nests,
        Err(failure) => return expand::expand_failed(&kernel, *failure),
    };
    match instances(&kernel, &nests) {
        Ok(instances) => expand::expand_kernel(&kernel, &nests, &instances),
        Err(error) => expand::expand_failed(&kernel, error.into()),
    }
}

/// `#[device]`: a scalar function for the host, and its CUDA text.
pub fn device(attr: TokenStream, item: TokenStream) -> TokenStream {
    device::expand_device(attr, item)
}

/// Every instance under every schedule: one list of variants a nest.
///
/// Schedules that the user pinned for a target stand in for the compiler's own there.
pub fn instances(kernel: &ast::Kernel, nests: &[Nest]) -> syn::Result<Vec<plan::Instance>> {
    let mut errors = errors::Errors::default();
    let mut all = Vec::new();
    for nest in nests {
        let mut variants = Vec::new();
        for target in schedule::target::TARGETS {
            let pinned: Vec<&ScheduleSpec> =
                kernel.schedules.iter().filter(|spec| spec.target == target.name).collect();
            for spec in &pinned {
                match lower::lower_pinned(nest, target, spec) {
                    Ok(lowered) => variants.push(variant(&lowered)),
                    Err(error) => errors.push(blame(spec, error)),
                }
            }
            if pinned.is_empty() {
                match lower::lower_portfolio(nest, target) {
                    Ok(portfolio) => variants.extend(portfolio.iter().map(variant)),
                    Err(error) => errors.at(&kernel.item.sig.ident, error.message),
                }
            }
        }
        let parts = variants.iter().any(|variant| variant.precomputed).then(|| precomputed(nest)).flatten();
        let operands = parts.into_iter().flat_map(|parts| parts.operands).map(operand);
        match operands.collect() {
            Ok(precomputed) => all.push(plan::Instance { variants, precomputed }),
            Err(error) => errors.at(&kernel.item.sig.ident, error.message),
        }
    }
    errors.finish()?;
    Ok(all)
}

/// The kernel that computes an operand, under schedules of the compiler's own.
fn operand(nest: Nest) -> Result<plan::Precomputed, schedule::ScheduleError> {
    let mut variants = Vec::new();
    for target in schedule::target::TARGETS {
        variants.extend(lower::lower_portfolio(&nest, target)?.iter().map(variant));
    }
    Ok(plan::Precomputed { nest, variants })
}

fn variant(lowered: &lower::Lowered) -> plan::Variant {
    emit::launch_plan(lowered, emit::emit(&lowered.nest, &lowered.program))
}

/// The error on the option that causes it.
fn blame(spec: &ScheduleSpec, error: schedule::ScheduleError) -> syn::Error {
    let option = error.option.and_then(|name| spec.options.iter().find(|option| option.name == name));
    let span = option.map_or(spec.target_span, |option| option.value_span);
    syn::Error::new(span, error.message)
}

/// The front half: a kernel's tokens to its nests, one an instance, and the schedules written on it.
pub fn front(attr: TokenStream, item: TokenStream) -> syn::Result<(Vec<Nest>, Vec<ScheduleSpec>)> {
    let kernel = parse::parse_kernel(attr, item)?;
    let nests = check::check_kernel(&kernel)?;
    Ok((nests, kernel.schedules))
}
