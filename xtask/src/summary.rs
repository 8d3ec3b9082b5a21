//! What the test binaries said, gathered: passed, failed, skipped and why.
//!
//! Reads the lines that `cargo test -- --show-output` prints. A test is skipped when its harness calls it ignored, or when it
//! passes after printing `skipped: <reason>`.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Default)]
pub struct Summary {
    /// `tests/gpu.rs`, from cargo's last `Running` line.
    binary: String,
    /// The test whose output is being shown.
    shown: Option<String>,
    passed: usize,
    pub failed: Vec<String>,
    /// Reason by test.
    skipped: BTreeMap<String, String>,
}

impl Summary {
    pub fn read(&mut self, line: &str) {
        let line = without_colour(line);
        let line = line.trim();
        if let Some(binary) = line.strip_prefix("Running ").or(line.strip_prefix("Doc-tests ")) {
            self.binary = binary.split(" (").next().unwrap_or(binary).trim_start_matches("unittests ").to_string();
            self.shown = None;
        } else if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.shown = Some(self.named(name));
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            if let Some(test) = &self.shown
                && !self.failed.contains(test)
                && self.skipped.insert(test.clone(), reason.to_string()).is_none()
            {
                self.passed -= 1;
            }
        } else if let Some((name, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
            self.finish(name, outcome);
        }
    }

    fn finish(&mut self, name: &str, outcome: &str) {
        // Names are padded in some harnesses.
        let test = self.named(name.trim_end());
        match outcome {
            "ok" => self.passed += 1,
            "FAILED" | "failed" => self.failed.push(test),
            _ => {
                if let Some(reason) = outcome.strip_prefix("ignored") {
                    self.skipped.insert(test, bare(reason).to_string());
                }
            }
        }
    }

    fn named(&self, test: &str) -> String {
        format!("{}: {test}", self.binary)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (test, reason) in &self.skipped {
            by_reason.entry(reason).or_default().push(test);
        }
        for (reason, tests) in by_reason {
            writeln!(f, "skipped: {reason}")?;
            for test in tests {
                writeln!(f, "    {test}")?;
            }
        }
        if !self.failed.is_empty() {
            writeln!(f, "failed:")?;
        }
        for test in &self.failed {
            writeln!(f, "    {test}")?;
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped.len())
    }
}

/// The reason in `, reason` and in ` (reason)`.
fn bare(reason: &str) -> &str {
    let reason = reason.trim_start_matches([',', ' ']);
    let inside = reason.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(reason);
    if inside.is_empty() { "left for --include-ignored" } else { inside }
}

/// Without ANSI escape sequences of the form `ESC [ … letter`.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(text: &str) -> Summary {
        let mut summary = Summary::default();
        text.lines().for_each(|line| summary.read(line));
        summary
    }

    #[test]
    fn counts_by_binary() {
        let summary = summary(
            "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m tests/gpu.rs (target/debug/deps/gpu-0123)\n\
             test odd sizes ... ok\n\
             test large ... FAILED\n\
             test attention ... ignored, no CUDA device\n\
             test softmax     ... ignored (no CUDA device)\n\
             test slow ... ignored\n",
        );
        assert_eq!(
            summary.to_string(),
            "skipped: left for --include-ignored\n    tests/gpu.rs: slow\n\
             skipped: no CUDA device\n    tests/gpu.rs: attention\n    tests/gpu.rs: softmax\n\
             failed:\n    tests/gpu.rs: large\n1 passed, 1 failed, 3 skipped"
        );
    }

    #[test]
    fn a_test_that_says_skipped_did_not_pass() {
        let summary = summary(
            "     Running unittests src/lib.rs (target/debug/deps/x-1)\n\
             test loads ... ok\n\
             test runs ... ok\n\
             successes:\n\
             ---- loads stdout ----\n\
             skipped: no NVRTC -- run `cargo xtask test`\n",
        );
        assert_eq!(
            summary.to_string(),
            "skipped: no NVRTC -- run `cargo xtask test`\n    src/lib.rs: loads\n1 passed, 0 failed, 1 skipped"
        );
    }
}
