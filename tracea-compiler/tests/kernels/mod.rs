//! Kernels as their users write them, one file each, and the two steps that every test takes them through.

use quote::ToTokens;
use std::path::{Path, PathBuf};
use tracea_compiler::lower::{Lowered, lower_pinned, lower_portfolio};
use tracea_compiler::nest::Nest;
use tracea_compiler::schedule::ScheduleError;
use tracea_compiler::schedule::spec::ScheduleSpec;
use tracea_compiler::schedule::target::Target;

/// One kernel's instances, and the schedules written on it.
pub struct Kernel {
    pub name: String,
    pub nests: Vec<Nest>,
    pub schedules: Vec<ScheduleSpec>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels")
}

/// The kernels of one file, in its order.
pub fn read(file: &str) -> Vec<Kernel> {
    let text = std::fs::read_to_string(folder().join(file)).expect("a kernel file");
    let parsed = syn::parse_file(&text).expect("Rust");
    parsed
        .items
        .into_iter()
        .filter_map(|item| if let syn::Item::Fn(function) = item { Some(kernel(file, function)) } else { None })
        .collect()
}

fn kernel(file: &str, mut function: syn::ItemFn) -> Kernel {
    let name = function.sig.ident.to_string();
    let at = function.attrs.iter().position(|attr| attr.path().is_ident("kernel")).expect("#[kernel]");
    let attr = match function.attrs.remove(at).meta {
        syn::Meta::List(list) => list.tokens,
        _ => Default::default(),
    };
    let (mut nests, schedules) = tracea_compiler::front(attr, function.to_token_stream())
        .unwrap_or_else(|errors| panic!("{name}: {}", errors.into_compile_error()));
    for nest in &mut nests {
        nest.file = file.to_string();
    }
    Kernel { name, nests, schedules }
}

/// Under the schedules pinned for the target, else under the compiler's own portfolio; nothing where the target adds nothing.
pub fn lower(kernel: &Kernel, nest: &Nest, target: &'static Target) -> Result<Vec<Lowered>, ScheduleError> {
    let pinned: Vec<_> = kernel.schedules.iter().filter(|spec| spec.target == target.name).collect();
    match &pinned[..] {
        [] => lower_portfolio(nest, target),
        pinned => pinned.iter().map(|spec| lower_pinned(nest, target, spec)).collect(),
    }
}

/// Every file of the folder.
#[allow(dead_code, reason = "each test binary has its own copy of this module")]
pub fn files() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("the folder of kernels")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".rs") && name != "mod.rs")
        .collect();
    names.sort();
    names
}
