//! The driver library: whether it is there, and its errors in its own words.

use crate::error::{Error, Result};
use cudarc::driver::{DriverError, result, sys};
use std::sync::OnceLock;

/// Names what was being done when the driver failed.
pub(crate) trait Checked<T> {
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Checked<T> for Result<T, DriverError> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|error| {
            let text = |words: Result<&std::ffi::CStr, DriverError>| match words {
                Ok(words) => words.to_string_lossy().into_owned(),
                Err(_) => format!("error {}", error.0 as u32),
            };
            Error::Driver { doing, name: text(error.error_name()), message: text(error.error_string()) }
        })
    }
}

/// Loads and initialises the driver once; says why where that fails. Everything in `cudarc` may be called after an `Ok`, and
/// panics before, so that every path into CUDA starts here.
pub(crate) fn driver() -> Result<(), &'static str> {
    static DRIVER: OnceLock<Result<(), String>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| {
        // SAFETY: opening the driver library runs its initialisers only, which is what using CUDA means.
        if !unsafe { sys::is_culib_present() } {
            return Err("this machine has no CUDA driver library (libcuda)".to_owned());
        }
        result::init().doing("starting CUDA").map_err(|error| error.to_string())
    });
    driver.as_ref().map(|_| ()).map_err(String::as_str)
}

/// How many CUDA devices this process sees; 0 without a driver.
pub(crate) fn cuda_count() -> usize {
    if driver().is_err() {
        return 0;
    }
    result::device::get_count().ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn a_missing_device_is_an_error_with_its_reason() {
        let beyond = Device::cuda(1000).unwrap_err().to_string();
        assert!(beyond.starts_with("no CUDA device 1000: "), "{beyond}");
        match driver() {
            Ok(()) => assert!(beyond.contains("use a smaller ordinal")),
            Err(why) => assert!(beyond.contains(why) && cuda_count() == 0),
        }
        let best = Device::best().unwrap();
        assert_eq!(best.is_cuda(), cuda_count() > 0);
    }
}
