//! NVRTC, opened when it is first needed: source and named headers in, machine code and NVRTC's log out.
//!
//! Opened here by path and not through `cudarc`, which knows names on the loader's path only and panics without them: NVRTC often
//! lies in a Python wheel, and a kernel's text must be compilable on a machine without a driver.

use super::locate::{builtins_beside, candidates};
use crate::error::{Error, Result};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

type Program = *mut c_void;
/// `nvrtcResult`, as the number that it is: a newer NVRTC may know more of them.
type Status = c_int;

const SUCCESS: Status = 0;
const ERROR_COMPILATION: Status = 6;

pub(crate) struct Nvrtc {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Program) -> Status,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    architecture_count: unsafe extern "C" fn(*mut c_int) -> Status,
    architectures: unsafe extern "C" fn(*mut c_int) -> Status,
    /// Keeps the function pointers valid.
    _library: Library,
}

/// What NVRTC made of a program.
pub(crate) struct Output {
    pub cubin: Vec<u8>,
    pub log: String,
}

/// Version of the NVRTC that is used, `(13, 0)`. The error says where it was looked for.
pub fn nvrtc_version() -> Result<(u32, u32)> {
    nvrtc()?.version()
}

pub(crate) fn nvrtc() -> Result<&'static Nvrtc> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    NVRTC.get_or_init(open).as_ref().map_err(|looked| Error::NoNvrtc { looked: looked.clone() })
}

fn open() -> Result<Nvrtc, String> {
    let candidates = candidates();
    candidates.libraries.iter().find_map(|path| open_at(path).ok()).ok_or(candidates.looked)
}

fn open_at(path: &Path) -> Result<Nvrtc, libloading::Error> {
    if let Some(builtins) = builtins_beside(path) {
        // SAFETY: NVIDIA's library has no initialiser that depends on ours. It stays open, so that NVRTC's own request for the same
        // name is answered by it.
        std::mem::forget(unsafe { Library::new(builtins) });
    }
    // SAFETY: as above, and the signatures are those of nvrtc.h, unchanged since CUDA 11.2.
    unsafe {
        let library = Library::new(path)?;
        Ok(Nvrtc {
            version: *library.get(b"nvrtcVersion\0")?,
            error_string: *library.get(b"nvrtcGetErrorString\0")?,
            create: *library.get(b"nvrtcCreateProgram\0")?,
            destroy: *library.get(b"nvrtcDestroyProgram\0")?,
            compile: *library.get(b"nvrtcCompileProgram\0")?,
            log_size: *library.get(b"nvrtcGetProgramLogSize\0")?,
            log: *library.get(b"nvrtcGetProgramLog\0")?,
            cubin_size: *library.get(b"nvrtcGetCUBINSize\0")?,
            cubin: *library.get(b"nvrtcGetCUBIN\0")?,
            architecture_count: *library.get(b"nvrtcGetNumSupportedArchs\0")?,
            architectures: *library.get(b"nvrtcGetSupportedArchs\0")?,
            _library: library,
        })
    }
}

impl Nvrtc {
    pub fn version(&self) -> Result<(u32, u32)> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for a write.
        self.check(unsafe { (self.version)(&mut major, &mut minor) }, "asking NVRTC's version")?;
        Ok((major.unsigned_abs(), minor.unsigned_abs()))
    }

    /// Architectures it makes code for, as `90` for `sm_90`.
    pub fn architectures(&self) -> Result<Vec<u32>> {
        let mut count = 0;
        // SAFETY: the pointer is valid for a write.
        self.check(unsafe { (self.architecture_count)(&mut count) }, "asking NVRTC's architectures")?;
        let mut architectures = vec![0 as c_int; usize::try_from(count).unwrap_or(0)];
        // SAFETY: NVRTC writes as many entries as it just counted.
        self.check(unsafe { (self.architectures)(architectures.as_mut_ptr()) }, "asking NVRTC's architectures")?;
        Ok(architectures.into_iter().map(c_int::unsigned_abs).collect())
    }

    /// `Ok(Err(log))` where the source does not compile.
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        headers: &[(&str, &str)],
        options: &[String],
    ) -> Result<Result<Output, String>> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| Error::Nvrtc {
                doing: "handing a source to NVRTC",
                message: "the text has a zero byte -- remove it".to_owned(),
            })
        };
        let texts = |texts: &mut dyn Iterator<Item = &str>| texts.map(text).collect::<Result<Vec<CString>>>();
        let (source, name) = (text(source)?, text(name)?);
        let header_names = texts(&mut headers.iter().map(|header| header.0))?;
        let header_texts = texts(&mut headers.iter().map(|header| header.1))?;
        let options = texts(&mut options.iter().map(String::as_str))?;
        let (names, contents) = (pointers(&header_names), pointers(&header_texts));

        let mut handle = std::ptr::null_mut();
        // SAFETY: all strings end with a zero byte and live through the call, which copies them.
        let created = unsafe {
            (self.create)(
                &mut handle,
                source.as_ptr(),
                name.as_ptr(),
                names.len() as c_int,
                contents.as_ptr(),
                names.as_ptr(),
            )
        };
        self.check(created, "handing a source to NVRTC")?;
        let program = Handle { nvrtc: self, handle };
        let options = pointers(&options);
        // SAFETY: the program is alive, the options as the strings above.
        let status = unsafe { (self.compile)(program.handle, options.len() as c_int, options.as_ptr()) };
        let log = program.log()?;
        match status {
            SUCCESS => Ok(Ok(Output { cubin: program.cubin()?, log })),
            ERROR_COMPILATION => Ok(Err(log)),
            // A missing piece of NVRTC (its built-ins) is told in the log only.
            _ if !log.is_empty() => Ok(Err(log)),
            _ => self.check(status, "compiling with NVRTC").map(|()| Err(log)),
        }
    }

    fn check(&self, status: Status, doing: &'static str) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: NVRTC returns a static string for every number.
        let words = unsafe { (self.error_string)(status) };
        let message = if words.is_null() {
            format!("error {status}")
        } else {
            // SAFETY: not null, zero-terminated, static.
            unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
        };
        Err(Error::Nvrtc { doing, message })
    }
}

/// A program that is destroyed on every way out.
struct Handle<'a> {
    nvrtc: &'a Nvrtc,
    handle: Program,
}

impl Handle<'_> {
    fn log(&self) -> Result<String> {
        let log = self.fetch(self.nvrtc.log_size, self.nvrtc.log, "reading NVRTC's log")?;
        let text = String::from_utf8_lossy(&log);
        Ok(text.trim_end_matches(['\0', '\n']).to_owned())
    }

    fn cubin(&self) -> Result<Vec<u8>> {
        self.fetch(self.nvrtc.cubin_size, self.nvrtc.cubin, "reading the machine code")
    }

    fn fetch(
        &self,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        read: unsafe extern "C" fn(Program, *mut c_char) -> Status,
        doing: &'static str,
    ) -> Result<Vec<u8>> {
        let mut bytes = 0;
        // SAFETY: the program is alive and the pointer valid for a write.
        self.nvrtc.check(unsafe { size(self.handle, &mut bytes) }, doing)?;
        let mut buffer = vec![0u8; bytes];
        // SAFETY: NVRTC writes exactly the size that it just told.
        self.nvrtc.check(unsafe { read(self.handle, buffer.as_mut_ptr().cast()) }, doing)?;
        Ok(buffer)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: created by `compile`, destroyed once. A failure would leak a program, nothing more.
        unsafe { (self.nvrtc.destroy)(&mut self.handle) };
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}
