//! Kernels that no one ships, each from a corner of the language: what they have in common is that the compiler has never been told of
//! them.
//!
//! A file holds a kernel as a user would write it, plain loops in f64 that say what it should give, and the sizes to try. The harness
//! is that of the shipped kernels: on the CPU against the loops, through NVRTC to machine code, on a GPU against the kernel's own f64
//! form, and the schedule that is chosen there against the others; and everywhere against that form through `verify()`.

mod attention;
mod attention_backward;
mod attention_sums;
mod batched;
mod both_ways;
mod broadcast;
#[path = "../kernels/case.rs"]
mod case;
mod channels_apart;
mod channels_first;
#[path = "../kernels/choice.rs"]
mod choice;
mod columns;
mod conv;
mod conv_transposed;
mod covariance;
#[path = "../kernels/cpu.rs"]
mod cpu;
mod dequantised;
mod distances;
mod elementwise;
mod epilogues;
#[path = "../kernels/expected.rs"]
mod expected;
mod few_tiles;
mod gated_pixels;
mod gathered;
#[path = "../kernels/gpu.rs"]
mod gpu;
mod in_place;
mod integers;
mod linear_attention;
mod low_rank;
mod masked_softmax;
mod moments;
mod named;
mod normalised;
#[path = "../kernels/nvrtc.rs"]
mod nvrtc;
mod optional;
mod pairs;
mod reductions;
mod residual_norm;
mod rms_gemm;
mod rotary;
mod rounding;
mod row_sums;
mod sizes;
mod small_axes;
mod stencil;
mod swapped;
mod swiglu;
mod tall;
mod transpose;
mod triangular;
mod turns;
mod verified;

use case::Subject;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let gallery = gallery();
    let mut trials: Vec<Trial> = Vec::new();
    trials.extend(cpu::trials(&gallery));
    trials.extend(verified::trials(&gallery));
    trials.extend(nvrtc::trials(&gallery, false));
    trials.extend(gpu::trials(&gallery));
    trials.extend(choice::trials(&gallery));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn gallery() -> Vec<Subject> {
    let mut all = Vec::new();
    all.extend(attention::subjects());
    all.extend(attention_backward::subjects());
    all.extend(attention_sums::subjects());
    all.extend(batched::subjects());
    all.extend(both_ways::subjects());
    all.extend(broadcast::subjects());
    all.extend(columns::subjects());
    all.extend(channels_apart::subjects());
    all.extend(channels_first::subjects());
    all.extend(conv::subjects());
    all.extend(conv_transposed::subjects());
    all.extend(covariance::subjects());
    all.extend(dequantised::subjects());
    all.extend(distances::subjects());
    all.extend(elementwise::subjects());
    all.extend(epilogues::subjects());
    all.extend(few_tiles::subjects());
    all.extend(gated_pixels::subjects());
    all.extend(gathered::subjects());
    all.extend(in_place::subjects());
    all.extend(linear_attention::subjects());
    all.extend(low_rank::subjects());
    all.extend(masked_softmax::subjects());
    all.extend(moments::subjects());
    all.extend(named::subjects());
    all.extend(normalised::subjects());
    all.extend(optional::subjects());
    all.extend(pairs::subjects());
    all.extend(reductions::subjects());
    all.extend(residual_norm::subjects());
    all.extend(rms_gemm::subjects());
    all.extend(rotary::subjects());
    all.extend(row_sums::subjects());
    all.extend(small_axes::subjects());
    all.extend(stencil::subjects());
    all.extend(swapped::subjects());
    all.extend(swiglu::subjects());
    all.extend(tall::subjects());
    all.extend(transpose::subjects());
    all.extend(triangular::subjects());
    all.extend(turns::subjects());
    all
}
