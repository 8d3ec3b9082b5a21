//! `cargo xtask bundle`: tests, examples and benches for a machine that has a GPU and no cargo.
//!
//! `target/bundle/` holds stripped release binaries in `tests/`, `examples/` and `benches/`, `run-tests.sh`, and in `commit` what they
//! were built from.

use crate::Result;
use crate::cargo::{cargo, target, words, workspace};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tests that need cargo or the source tree where they run.
const LEFT_OUT: &[&str] = &["ui", "snapshots"];

const RUN_TESTS: &str = r#"#!/usr/bin/env bash
# Runs every packed test; arguments go to each of them (a filter, --list). NVRTC is the machine's own.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${TRACEA_NVRTC:-}" ]; then
    packages=$(python3 -c 'import site; print(" ".join(site.getsitepackages()))' 2>/dev/null)
    folders="${CUDA_HOME:-/usr/local/cuda}/lib64"
    for package in $packages; do folders="$folders $package/nvidia/cu13/lib $package/nvidia/cuda_nvrtc/lib"; done
    for folder in $folders; do
        for library in "$folder"/libnvrtc.so.1[0-9]; do
            [ -e "$library" ] && export TRACEA_NVRTC=$library && break 2
        done
    done
fi
echo "NVRTC: ${TRACEA_NVRTC:-by the loader}"
failed=""
for test in "$here"/tests/*; do
    echo "== $(basename "$test")"
    "$test" "$@" || failed="$failed $(basename "$test")"
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
"#;

pub fn run(with_benches: bool) -> Result {
    let folder = target().join("bundle");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("cannot empty {}: {error}", folder.display()))?;
    }
    let libraries = &["--package", "tracea", "--package", "tracea-runtime"][..];
    for (kind, build, packages) in [
        ("tests", &["test", "--no-run", "--release", "--lib", "--tests"][..], libraries),
        ("examples", &["build", "--release", "--examples"], libraries),
        ("benches", &["bench", "--no-run", "--benches"], &["--package", "tracea-benches"]),
    ] {
        if kind == "benches" && !with_benches {
            continue;
        }
        let kept = folder.join(kind);
        std::fs::create_dir_all(&kept).map_err(|error| format!("cannot make {}: {error}", kept.display()))?;
        for built in executables(&[build, packages].concat(), kind)? {
            strip(&built.path, &kept.join(&built.name))?;
        }
    }
    let script = folder.join("run-tests.sh");
    std::fs::write(&script, RUN_TESTS).map_err(|error| format!("cannot write {}: {error}", script.display()))?;
    make_executable(&script)?;
    match head() {
        Ok(commit) => {
            let file = folder.join("commit");
            std::fs::write(&file, commit).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        }
        Err(error) => eprintln!("xtask: {error} -- packed without its commit"),
    }

    println!("{}: {} MiB", folder.display(), size(&folder).div_ceil(1 << 20));
    Ok(())
}

/// The commit that the working tree stands on, `-dirty` where it was changed since.
fn head() -> Result<String> {
    let mut command = Command::new("git");
    command.args(["describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]).current_dir(workspace());
    let output = command.output().map_err(|error| format!("cannot run `{}`: {error}", words(&command)))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("`{}` failed: {}", words(&command), String::from_utf8_lossy(&output.stderr).trim()))
    }
}

struct Built {
    name: String,
    path: PathBuf,
}

/// Builds, and reads from cargo's messages which programs came of it.
fn executables(arguments: &[&str], kind: &str) -> Result<Vec<Built>> {
    let mut command = cargo(arguments);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{}` failed", words(&command)));
    }
    let mut built = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value =
            serde_json::from_str(line).map_err(|error| format!("cannot read cargo's message: {error}"))?;
        let (Some(path), Some(name)) = (message["executable"].as_str(), message["target"]["name"].as_str()) else {
            continue;
        };
        let target_kind = message["target"]["kind"][0].as_str().unwrap_or_default();
        let wanted = match kind {
            "examples" => target_kind == "example",
            "benches" => target_kind == "bench",
            _ => matches!(target_kind, "lib" | "test") && !LEFT_OUT.contains(&name),
        };
        if wanted {
            built.push(Built { name: name.to_string(), path: path.into() });
        }
    }
    Ok(built)
}

fn strip(from: &Path, to: &Path) -> Result {
    let stripped = Command::new("strip").arg("-o").arg(to).arg(from).status();
    if stripped.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    eprintln!("xtask: `strip` failed on {} -- packed as it is", from.display());
    std::fs::copy(from, to).map(drop).map_err(|error| format!("cannot copy {}: {error}", from.display()))
}

#[cfg(unix)]
fn make_executable(script: &Path) -> Result {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("cannot make {} executable: {error}", script.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result {
    Ok(())
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(
            |entry| {
                if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().map_or(0, |data| data.len()) }
            },
        )
        .sum()
}
