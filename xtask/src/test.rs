//! `cargo xtask test`: every test of the workspace, with NVRTC and the disassemblers at hand.

use crate::Result;
use crate::cargo::cargo;
use crate::cuda_tools::CudaTools;
use crate::summary::Summary;
use std::io::{BufRead, BufReader};

/// What cargo builds and runs at a time: what manifests call tests, libraries and programs among it. Examples and benches are no tests: clippy has seen
/// that they compile.
const KINDS: &[&[&str]] = &[&["--tests"], &["--doc"]];

pub fn run(arguments: &[&str]) -> Result {
    let tools = CudaTools::find_or_fetch()
        .inspect_err(|message| eprintln!("xtask: {message}\nxtask: tests that compile CUDA will be skipped"))
        .ok();
    let (mut summary, mut all_ran) = (Summary::default(), true);
    for kinds in KINDS {
        all_ran &= run_kinds(kinds, arguments, tools.as_ref(), &mut summary)?;
    }
    println!("\n{summary}");
    match (all_ran, summary.failed.is_empty()) {
        (true, true) => Ok(()),
        (_, false) => Err(format!("{} tests failed", summary.failed.len())),
        (false, true) => Err("the tests could not be built or did not finish -- see cargo's messages above".into()),
    }
}

/// Whether cargo calls it a success.
fn run_kinds(kinds: &[&str], arguments: &[&str], tools: Option<&CudaTools>, summary: &mut Summary) -> Result<bool> {
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
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        summary.read(&line);
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    Ok(status.success())
}
