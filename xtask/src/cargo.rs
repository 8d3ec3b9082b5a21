//! The cargo that runs us, and the workspace that we belong to.

use crate::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cargo command in the workspace's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace());
    command
}

pub fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace().join(folder),
        None => workspace().join("target"),
    }
}

/// Runs a command to its end; one that fails is an error that names it.
pub fn succeed(command: &mut Command) -> Result {
    let words = words(command);
    let status = command.status().map_err(|error| format!("cannot run `{words}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{words}` failed ({status})")) }
}

pub fn words(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
