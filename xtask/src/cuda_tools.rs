//! NVRTC and the disassemblers: from the environment, from a CUDA toolkit, or as wheels in `target/cuda-tools`.
//!
//! The wheels need neither a driver nor a GPU, so every machine can compile the shipped kernels to machine code and read it.

use crate::Result;
use crate::cargo::{target, words};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// NVRTC of CUDA 13.0, whose machine code every driver from 580 on loads; the disassemblers are on PyPI from 13.2 on and read older code.
const WHEELS: &[&str] =
    &["nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-cuobjdump==13.5.37", "nvidia-cuda-nvdisasm==13.5.37"];

pub struct CudaTools {
    /// `libnvrtc.so.13`.
    nvrtc: PathBuf,
    /// The folder of `cuobjdump` and `nvdisasm`.
    programs: PathBuf,
}

impl CudaTools {
    /// What is installed, else the wheels, fetched once.
    pub fn find_or_fetch() -> Result<CudaTools> {
        if let Some(tools) = installed() {
            return Ok(tools);
        }
        let folder = target().join("cuda-tools");
        let stamp = folder.join("wheels.txt");
        let wanted = WHEELS.join("\n");
        if std::fs::read_to_string(&stamp).is_ok_and(|fetched| fetched == wanted)
            && let Some(tools) = in_wheels(&folder)
        {
            return Ok(tools);
        }
        fetch(&folder)?;
        std::fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
        in_wheels(&folder).ok_or_else(|| format!("the wheels in {} hold no NVRTC for this platform", folder.display()))
    }

    /// Lets a command and what it starts find the tools.
    pub fn offer(&self, command: &mut Command) {
        command.env("TRACEA_NVRTC", &self.nvrtc).env("PATH", prefixed("PATH", &self.programs));
    }
}

fn installed() -> Option<CudaTools> {
    let roots = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    let toolkit =
        roots.chain([PathBuf::from("/usr/local/cuda")]).find_map(|root| tools(&root.join("lib64"), &root.join("bin")));
    match std::env::var_os("TRACEA_NVRTC") {
        Some(nvrtc) => {
            Some(CudaTools { nvrtc: nvrtc.into(), programs: toolkit.map(|tools| tools.programs).unwrap_or_default() })
        }
        None => toolkit,
    }
}

fn in_wheels(folder: &Path) -> Option<CudaTools> {
    let root = folder.join("nvidia/cu13");
    tools(&root.join("lib"), &root.join("bin"))
}

fn tools(libraries: &Path, programs: &Path) -> Option<CudaTools> {
    let nvrtc = libraries.join("libnvrtc.so.13");
    let complete = nvrtc.is_file() && programs.join("cuobjdump").is_file() && programs.join("nvdisasm").is_file();
    complete.then(|| CudaTools { nvrtc, programs: programs.to_path_buf() })
}

fn fetch(folder: &Path) -> Result {
    println!("fetching {} into {}", WHEELS.join(", "), folder.display());
    // What an earlier, interrupted fetch left would be kept by pip.
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| format!("cannot empty {}: {error}", folder.display()))?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]);
    pip.args(["--only-binary", ":all:", "--target"]).arg(folder).args(WHEELS);
    let output = pip.output().map_err(|error| format!("cannot run python3: {error} -- install Python 3 with pip"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{}` failed\n{}", words(&pip), String::from_utf8_lossy(&output.stderr).trim_end()))
}

fn prefixed(variable: &str, first: &Path) -> OsString {
    let rest = std::env::var_os(variable).unwrap_or_default();
    let paths = std::iter::once(first.to_path_buf()).chain(std::env::split_paths(&rest));
    std::env::join_paths(paths.filter(|path| !path.as_os_str().is_empty())).unwrap_or(rest)
}
