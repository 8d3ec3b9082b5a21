//! Every kernel of the folder is lowered for every target, and the same tokens give the same bytes.

mod kernels;

use tracea_compiler::emit::{emit, launch_plan};
use tracea_compiler::plan::Variant;
use tracea_compiler::schedule::target::{SM_80, TARGETS, most_shared};

/// Source and plan of every instance of every kernel, by target.
fn all() -> Vec<Variant> {
    let mut variants = Vec::new();
    for kernel in kernels::files().iter().flat_map(|file| kernels::read(file)) {
        for (nest, target) in kernel.nests.iter().flat_map(|nest| TARGETS.map(|target| (nest, target))) {
            let lowered = kernels::lower(&kernel, nest, target)
                .unwrap_or_else(|error| panic!("{} for {}: {}", kernel.name, target.name, error.message));
            assert!(target != &SM_80 || !lowered.is_empty(), "{}: sm_80 serves every kernel", kernel.name);
            for lowered in &lowered {
                let bytes = lowered.program.shared_bytes;
                // Rows in turn are for devices that have room for some.
                let limit = if lowered.schedule.in_turn { most_shared() } else { target.shared_limit };
                assert!(bytes <= limit, "{}: {bytes}", kernel.name);
                variants.push(launch_plan(lowered, emit(&lowered.nest, &lowered.program)));
            }
        }
    }
    variants
}

#[test]
fn every_kernel_is_lowered_for_every_target_that_serves_it() {
    let variants = all();
    assert!(variants.len() > 60, "{}", variants.len());
    for variant in variants {
        let Variant { source, entry, args, threads, .. } = &variant;
        assert!(source.contains(&format!(" {entry}(")), "{entry}");
        assert!(threads.is_multiple_of(32) && *threads <= 1024, "{entry}: {threads} threads");
        assert!(!source.contains("#error"), "{entry}: a statement that nothing says how to write");
        assert_eq!(parameters(source, entry), args.len(), "{entry}");
        assert_eq!(source.matches('{').count(), source.matches('}').count(), "{entry}");
    }
}

/// How many parameters the kernel declares.
fn parameters(source: &str, entry: &str) -> usize {
    let list = source.split_once(&format!(" {entry}(")).expect("the kernel").1.split_once(") {").expect("its body").0;
    list.split(',').count()
}

#[test]
fn the_same_tokens_give_the_same_bytes() {
    for (first, second) in all().into_iter().zip(all()) {
        assert_eq!(first, second);
    }
}
