//! `cargo xtask test`: every test of the workspace, with NVRTC and the disassemblers at hand.

use crate::Result;
use crate::cargo::cargo;
use crate::cuda_tools::CudaTools;
use crate::summary::Summary;
use std::io::{BufRead, BufReader};

pub fn run(filter: &[&str]) -> Result {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--color=always"]);
    // Test names are filtered, and what passing tests print is shown: it may say that they were skipped.
    command.arg("--").args(filter).args(["--show-output"]);
    match CudaTools::find_or_fetch() {
        Ok(tools) => tools.offer(&mut command),
        Err(message) => eprintln!("xtask: {message}\nxtask: tests that compile CUDA will be skipped"),
    }

    // One pipe for both streams: cargo names a test binary on one, the binary answers on the other.
    let (reader, writer) = std::io::pipe().map_err(|error| format!("cannot open a pipe: {error}"))?;
    let errors = writer.try_clone().map_err(|error| format!("cannot open a pipe: {error}"))?;
    let mut child =
        command.stdout(writer).stderr(errors).spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
    // It holds the pipe's writing ends; while they live, reading does not end.
    drop(command);

    let mut summary = Summary::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read what cargo prints: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        summary.read(&line);
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;

    println!("\n{summary}");
    match (status.success(), summary.failed.is_empty()) {
        (true, true) => Ok(()),
        (_, false) => Err(format!("{} tests failed", summary.failed.len())),
        (false, true) => Err("the tests could not be built or did not finish -- see cargo's messages above".into()),
    }
}
