//! Embeds the device headers: lists `device/*.cuh` as Rust, so that a new header needs no entry anywhere.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=device");
    let variable = |name| env::var(name).map_err(io::Error::other);
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("device");
    let mut files = Vec::new();
    for file in fs::read_dir(&folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "cuh") {
            files.push(path);
        }
    }
    files.sort();
    let mut list = String::from("&[\n");
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(list, "    ({:?}, include_str!({path:?})),", format!("tracea/{name}"));
    }
    list.push_str("]\n");
    fs::write(Path::new(&variable("OUT_DIR")?).join("headers.rs"), list)
}
