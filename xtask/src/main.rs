//! `cargo xtask <chore>`: what a developer of Tracea does more than once.
//!
//! A chore is a short program over cargo; none of them needs more than Rust, Python with pip, and a C compiler.

mod bundle;
mod cargo;
mod ci;
mod cuda_tools;
mod summary;
mod test;

use std::process::ExitCode;

pub type Result<T = ()> = std::result::Result<T, String>;

const HELP: &str = "\
usage: cargo xtask <chore>

  test [filter] [--include-ignored]
                  fetch NVRTC and the disassemblers where they are missing, run every test, say what passed, failed, was skipped;
                  --include-ignored also compiles each kernel in every form that a launch may ask for, which takes long
  ci              what CI runs: formatting, clippy, the tests, the documentation
  bundle [--benches]
                  pack tests and examples, and benches where asked for, for a GPU machine that has no cargo (target/bundle)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["test", arguments @ ..] => test::run(arguments),
        ["ci"] => ci::run(),
        ["bundle"] => bundle::run(false),
        ["bundle", "--benches"] => bundle::run(true),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        unknown => Err(format!("no chore `{}`\n\n{HELP}", unknown.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
