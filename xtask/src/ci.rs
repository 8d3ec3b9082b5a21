//! `cargo xtask ci`: what has to hold before a change goes in.

use crate::Result;
use crate::cargo::{cargo, succeed, words};
use std::time::Instant;

pub fn run() -> Result {
    timed("formatting", || succeed(&mut cargo(&["fmt", "--all", "--check"])))?;
    timed("clippy", || succeed(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])))?;
    timed("tests", || crate::test::run(&[]))?;
    timed("documentation", || {
        let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
        succeed(doc.env("RUSTDOCFLAGS", "--deny warnings")).map_err(|error| format!("{error} ({})", words(&doc)))
    })
}

fn timed(step: &str, run: impl FnOnce() -> Result) -> Result {
    println!("== {step}");
    let start = Instant::now();
    run()?;
    println!("== {step}: {:.0} s\n", start.elapsed().as_secs_f64());
    Ok(())
}
