//! `cargo xtask test`: every test of the workspace, with NVRTC and the disassemblers at hand.

use crate::Result;
use crate::cargo::cargo;
use crate::cuda_tools::CudaTools;
use crate::summary::Summary;
use std::io::{BufRead, BufReader};
use std::thread;

/// What manifests call tests, libraries and programs among it. Examples and benches are no tests: clippy has seen that they compile.
const TESTS: &str = "--tests";

/// The file, and the name, of a test that has cargo build packages of its own: one core has work for most of that time, so that it runs beside all
/// others.
const BUILDS: (&str, &str) = ("ui", "errors_stand_on_the_users_tokens");

pub fn run(arguments: &[&str]) -> Result {
    let tools = CudaTools::find_or_fetch()
        .inspect_err(|message| eprintln!("xtask: {message}\nxtask: tests that compile CUDA will be skipped"))
        .ok();
    let tools = tools.as_ref();
    let mut summary = Summary::default();
    let mut tell = |line: &str| {
        println!("{line}");
        summary.read(line);
    };
    // Cargo builds for one of those that run it at a time.
    if !run_tests(&[TESTS, "--no-run"], &[], tools, &mut tell)? {
        return Err("the tests could not be built -- see cargo's messages above".into());
    }
    let (file, name) = BUILDS;
    let (others_ran, built, told) = thread::scope(|scope| {
        let builds = scope.spawn(|| {
            let mut told = Vec::new();
            let ran = run_tests(&["--test", file], arguments, tools, |line| told.push(line.to_string()));
            (ran, told)
        });
        let others = run_tests(&[TESTS], &[arguments, &["--skip", name]].concat(), tools, &mut tell);
        let (ran, told) = builds.join().unwrap_or_else(|_| (Err(format!("`{file}` did not finish")), Vec::new()));
        (others, ran, told)
    });
    told.iter().for_each(|line| tell(line));
    let all_ran = others_ran? & built? & run_tests(&["--doc"], arguments, tools, &mut tell)?;
    println!("\n{summary}");
    match (all_ran, summary.failed.is_empty()) {
        (true, true) => Ok(()),
        (_, false) => Err(format!("{} tests failed", summary.failed.len())),
        (false, true) => Err("the tests could not be built or did not finish -- see cargo's messages above".into()),
    }
}

/// Whether cargo calls it a success; `tell` hears each line that it or a test prints.
fn run_tests(
    kinds: &[&str],
    arguments: &[&str],
    tools: Option<&CudaTools>,
    mut tell: impl FnMut(&str),
) -> Result<bool> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--color=always"]);
    // Test names are filtered, and what passing tests print is shown: it may say that they were skipped.
    command.args(kinds).arg("--").args(arguments).arg("--show-output");
    if let Some(tools) = tools {
        tools.offer(&mut command);
    }

    // One pipe for both streams: cargo names a test binary on one, the binary answers on the other.
    let (reader, writer) = std::io::pipe().map_err(|error| format!("cannot open a pipe: {error}"))?;
    let errors = writer.try_clone().map_err(|error| format!("cannot open a pipe: {error}"))?;
    let mut child =
        command.stdout(writer).stderr(errors).spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
    // It holds the pipe's writing ends; while they live, reading does not end.
    drop(command);

    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read what cargo prints: {error}"))?;
        tell(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    Ok(status.success())
}
