//! Every shipped kernel, four ways: on the CPU against naive loops in f64, through NVRTC to machine code, on a GPU against the
//! kernel's own f64 form, and the schedule that is chosen there against the others.
//!
//! A harness of its own gives each kernel instance a test by name, and says which ones were skipped and why.

mod case;
mod choice;
mod cpu;
mod expected;
mod gpu;
mod nvrtc;
mod reference;
mod registry;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let shipped = registry::shipped();
    let mut trials: Vec<Trial> = Vec::new();
    trials.extend(cpu::trials(&shipped));
    trials.extend(nvrtc::trials(&shipped, true));
    trials.extend(gpu::trials(&shipped));
    trials.extend(choice::trials(&shipped));
    libtest_mimic::run(&arguments, trials).exit_code()
}
