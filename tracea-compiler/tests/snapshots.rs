//! Emitted CUDA and printed programs that a person has read: `INSTA_UPDATE=always cargo test -p tracea-compiler --test snapshots`
//! writes them anew, and the difference is the review.

mod kernels;

use tracea_compiler::emit::emit;
use tracea_compiler::schedule::target::SM_80;

/// The program and the source of a kernel's first two instances, for sm_80: attention's causal form differs from its other one.
fn review(file: &str) {
    for kernel in kernels::read(file) {
        for nest in kernel.nests.iter().take(2) {
            let program = kernels::lower(&kernel, nest, &SM_80)
                .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.message))
                .remove(0)
                .program;
            insta::assert_snapshot!(format!("{}.program", program.entry), program.to_string());
            insta::assert_snapshot!(format!("{}.cuda", program.entry), emit(nest, &program));
        }
    }
}

macro_rules! reviewed {
    ($($kernel:ident)*) => {
        $(#[test]
        fn $kernel() {
            review(concat!(stringify!($kernel), ".rs"));
        })*
    };
}

reviewed!(linear_relu attention conv2d softmax gemm_f32 transposed dequantised);
