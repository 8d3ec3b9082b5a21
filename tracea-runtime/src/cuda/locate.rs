//! Where NVRTC may be: input the environment and the running binary's path, output candidate files, best first.

use std::env::{current_exe, var_os};
use std::path::{Path, PathBuf};

/// Majors of CUDA whose NVRTC the runtime knows, newest first.
const MAJORS: &[&str] = &["13", "12"];

pub(crate) struct Candidates {
    pub libraries: Vec<PathBuf>,
    /// For the error where none opens.
    pub looked: String,
}

/// `TRACEA_NVRTC` rules alone where it is set: the library, or a folder that holds it.
pub(crate) fn candidates() -> Candidates {
    if let Some(asked) = var_os("TRACEA_NVRTC").filter(|asked| !asked.is_empty()) {
        let asked = PathBuf::from(asked);
        let libraries = if asked.is_dir() { in_folder(&asked, 3) } else { vec![asked.clone()] };
        return Candidates { libraries, looked: format!("{} as TRACEA_NVRTC says", asked.display()) };
    }
    let mut libraries = Vec::new();
    // `target/cuda-tools` above `target/debug/deps/test-…`, `nvrtc` beside a packed binary.
    let program = current_exe().unwrap_or_default();
    for folder in program.ancestors().skip(1).take(5) {
        libraries.extend(in_folder(&folder.join("cuda-tools"), 3));
        libraries.extend(in_folder(&folder.join("nvrtc"), 3));
    }
    for root in ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(var_os).map(PathBuf::from) {
        libraries.extend(["lib64", "lib", "bin"].iter().flat_map(|folder| in_folder(&root.join(folder), 0)));
    }
    libraries.extend(loader_names());
    libraries.extend(in_folder(Path::new("/usr/local/cuda/lib64"), 0));
    let looked = "cuda-tools/ and nvrtc/ above the program, CUDA_HOME, CUDA_PATH, the loader's path, /usr/local/cuda";
    Candidates { libraries, looked: looked.to_owned() }
}

/// The built-ins that a library opens by bare name while it compiles: they lie beside it, which is not always on the loader's path.
pub(crate) fn builtins_beside(library: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(library.parent()?).ok()?;
    files.flatten().map(|file| file.path()).filter(|path| file_name(path).starts_with(BUILTINS)).max()
}

#[cfg(windows)]
const BUILTINS: &str = "nvrtc-builtins64";
#[cfg(not(windows))]
const BUILTINS: &str = "libnvrtc-builtins.so";

#[cfg(windows)]
fn loader_names() -> Vec<PathBuf> {
    MAJORS.iter().map(|major| PathBuf::from(format!("nvrtc64_{major}0_0.dll"))).collect()
}

#[cfg(not(windows))]
fn loader_names() -> Vec<PathBuf> {
    MAJORS
        .iter()
        .map(|major| format!("libnvrtc.so.{major}"))
        .chain(["libnvrtc.so".to_owned()])
        .map(PathBuf::from)
        .collect()
}

fn in_folder(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let names = loader_names();
    let mut found: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).filter(|path| path.is_file()).collect();
    if depth > 0
        && let Ok(entries) = std::fs::read_dir(folder)
    {
        let mut folders: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        found.extend(folders.iter().flat_map(|folder| in_folder(folder, depth - 1)));
    }
    found
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}
