//! Emitted CUDA and printed programs that a person has read: `INSTA_UPDATE=always cargo test -p tracea-compiler --test snapshots`
//! writes them anew, and the difference is the review.

mod kernels;

use std::fmt::Write;
use tracea_compiler::emit::emit;
use tracea_compiler::schedule::target::{SM_80, SM_90A, TARGETS, Target};

/// The program and the source of a kernel's first two instances: attention's causal form differs from its other one. `suffix` tells
/// the target's files from those of sm_80.
fn review(file: &str, target: &'static Target, suffix: &str) {
    for kernel in kernels::read(file) {
        for nest in kernel.nests.iter().take(2) {
            let lowered = kernels::lower(&kernel, nest, target)
                .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.message))
                .remove(0);
            let program = &lowered.program;
            insta::assert_snapshot!(format!("{}{suffix}.program", program.entry), program.to_string());
            insta::assert_snapshot!(format!("{}{suffix}.cuda", program.entry), emit(&lowered.nest, program));
        }
    }
}

macro_rules! reviewed {
    ($($kernel:ident)*) => {
        $(#[test]
        fn $kernel() {
            review(concat!(stringify!($kernel), ".rs"), &SM_80, "");
        })*
    };
}

reviewed!(linear_relu attention conv2d softmax gemm_f32 transposed dequantised);

/// Warp roles, and copies by TMA: boxes, and windows of an image.
#[test]
fn conv2d_for_hopper() {
    review("conv2d.rs", &SM_90A, "_sm_90a");
}

/// Pairs of blocks that fetch for each other what their tiles share.
#[test]
fn linear_relu_for_hopper() {
    review("linear_relu.rs", &SM_90A, "_sm_90a");
}

/// A product computed the other way round, whose result is written across its accumulators.
#[test]
fn linear_few_rows_for_hopper() {
    review("linear_few_rows.rs", &SM_90A, "_sm_90a");
}

/// A result that takes in a tile on its way out, by the ring of its loop.
#[test]
fn linear_silu_residual_for_hopper() {
    review("linear_silu_residual.rs", &SM_90A, "_sm_90a");
}

/// A product a step behind the one that it multiplies, and warpgroups that take turns.
#[test]
fn attention_for_hopper() {
    review("attention.rs", &SM_90A, "_sm_90a");
}

/// Which schedules each kernel has for each target: a launch chooses among them, and one that is no longer there is missed by nobody else.
#[test]
fn portfolios() {
    let mut all = String::new();
    for kernel in kernels::files().iter().flat_map(|file| kernels::read(file)) {
        for (nest, target) in kernel.nests.iter().flat_map(|nest| TARGETS.map(|target| (nest, target))) {
            let lowered = kernels::lower(&kernel, nest, target)
                .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.message));
            for lowered in lowered {
                let _ = writeln!(all, "{} [{}]", lowered.program.entry, lowered.program.schedule);
            }
        }
    }
    insta::assert_snapshot!("portfolios", all);
}
