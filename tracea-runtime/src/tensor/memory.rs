//! Host memory that a tensor owns: aligned for the widest vectors, and zero at first.

use crate::error::{Error, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// A cache line, and an AVX-512 register.
const ALIGNMENT: usize = 64;

pub(crate) struct HostBlock {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is plain memory with one owner; access goes through the tensor's own borrows.
unsafe impl Send for HostBlock {}
// SAFETY: as above.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    pub fn zeroed(bytes: usize) -> Result<HostBlock> {
        let needed = || Error::OutOfHostMemory { doing: "a tensor", needed: format!("{bytes} bytes") };
        // At least one line, so that an empty tensor has an address too.
        let layout = Layout::from_size_align(bytes.max(ALIGNMENT), ALIGNMENT).map_err(|_| needed())?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(needed)?;
        Ok(HostBlock { start, layout })
    }

    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeroed` with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
