//! What a warm launch asks of the host: no heap memory, and no more of the driver than a launch.
//!
//! Measured by a driver that does nothing, which `cc` makes of `driver.c`, in a process of its own whose loader finds that one: no GPU is needed.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use tracea::cuda::nvrtc_version;
use tracea::kernels::gemm::gemm_nt;
use tracea::kernels::linear::linear_gelu;
use tracea::prelude::*;

/// Set where the driver is the one that does nothing.
const WITH_THE_DRIVER: &str = "TRACEA_TEST_DRIVER";

const LAUNCHES: u64 = 100;

/// How often heap memory was taken.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all calls are the system allocator's own, with what the caller vouches for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller vouches.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

unsafe extern "C" {
    fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn main() -> ExitCode {
    if std::env::var_os(WITH_THE_DRIVER).is_some() {
        return match launches() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let trial = Trial::ignorable_test("a warm launch takes no heap memory and one call of the driver", by_the_driver);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// The same program with the driver that does nothing.
fn by_the_driver() -> Result<Completion, Failed> {
    if let Err(error) = nvrtc_version() {
        return Ok(Completion::ignored_with(error));
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver");
    let Some(folder) = driver(&folder)? else { return Ok(Completion::ignored_with("no C compiler `cc`")) };
    let known = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::iter::once(folder).chain(std::env::split_paths(&known));
    let output = Command::new(std::env::current_exe()?)
        .env("LD_LIBRARY_PATH", std::env::join_paths(folders)?)
        .env(WITH_THE_DRIVER, "1")
        .output()?;
    match output.status.success() {
        true => Ok(Completion::Completed),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

/// The folder with the library; none without a compiler.
fn driver(folder: &Path) -> Result<Option<PathBuf>, Failed> {
    fs::create_dir_all(folder)?;
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/warm_launch/driver.c");
    let library = folder.join("libcuda.so");
    match Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(source).output() {
        Ok(output) if output.status.success() => Ok(Some(folder.to_path_buf())),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        Err(_) => Ok(None),
    }
}

fn launches() -> Result<(), Box<dyn Error>> {
    let device = Device::cuda(0)?;
    let zeros = |rows, cols| device.zeros::<f16, _>((rows, cols));
    let (x, w, bias) = (zeros(256, 192)?, zeros(320, 192)?, device.zeros::<f16, _>((320,))?);
    let mut y = zeros(256, 320)?;
    is_warm("gemm_nt", &mut || Ok(gemm_nt(&x, &w, &mut y).launch()?))?;
    is_warm("linear_gelu", &mut || Ok(linear_gelu(&x, &w, &bias, &mut y).launch()?))
}

/// Launches once, and then by one call of the driver each.
fn is_warm(name: &str, launch: &mut dyn FnMut() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    launch()?;
    let before = (ALLOCATIONS.load(Ordering::Relaxed), driver_calls()?);
    for _ in 0..LAUNCHES {
        launch()?;
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before.0;
    let calls = driver_calls()? - before.1;
    if (allocations, calls) != (0, LAUNCHES) {
        let text = format!(
            "{name}: {LAUNCHES} warm launches took heap memory {allocations} times and called the driver {calls} times"
        );
        return Err(text.into());
    }
    Ok(())
}

fn driver_calls() -> Result<u64, Box<dyn Error>> {
    const ALREADY_LOADED: c_int = 4;
    const LAZY: c_int = 1;
    // SAFETY: the name is a C string; a library that is loaded stays so, and this runs no code of it.
    let library = unsafe { dlopen(c"libcuda.so".as_ptr(), LAZY | ALREADY_LOADED) };
    if library.is_null() {
        return Err("the driver that does nothing is not loaded".into());
    }
    // SAFETY: the library was found just now, and the name is a C string.
    let symbol = unsafe { dlsym(library, c"driver_calls".as_ptr()) };
    if symbol.is_null() {
        return Err("the driver that is loaded counts no calls".into());
    }
    // SAFETY: `driver.c` defines the symbol as a function of this type.
    let calls: extern "C" fn() -> c_ulong = unsafe { std::mem::transmute(symbol) };
    Ok(calls())
}
