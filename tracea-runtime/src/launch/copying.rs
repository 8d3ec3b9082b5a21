//! The kernels that make a launch's copies, before and after its own: one launch for each way that there is among them.

use super::check::Tensors;
use super::copies::{Copies, Way};
use super::realign::{self, REALIGN};
use super::transpose::{self, TRANSPOSE};
use crate::cuda::{Gpu, Grid, LoadedKernel, Room};
use crate::error::Result;
use cudarc::driver::CudaStream;
use std::ffi::c_void;

/// Loaded code.
#[derive(Clone, Copy)]
pub(super) struct Copying {
    realign: Option<&'static LoadedKernel>,
    transpose: Option<&'static LoadedKernel>,
}

impl Copying {
    /// Of what these copies take.
    pub fn loaded(gpu: &Gpu, copies: &Copies) -> Result<Copying> {
        Ok(Copying {
            realign: if copies.has_any(Way::Realigned) { Some(REALIGN.loaded(gpu)?) } else { None },
            transpose: match [Way::Transposed, Way::TurnedBack].into_iter().any(|way| copies.has_any(way)) {
                true => Some(TRANSPOSE.loaded(gpu)?),
                false => None,
            },
        })
    }

    /// # Safety
    ///
    /// The context is current, the tensors stay valid until the stream has run the launches and nothing writes them meanwhile, and the
    /// room has as many bytes as the copies take.
    pub unsafe fn enqueue(
        self,
        stream: &CudaStream,
        copies: &Copies,
        tensors: &Tensors<'_>,
        room: &Room<'_>,
    ) -> Result<()> {
        if let Some(kernel) = self.transpose {
            let (table, blocks) = transpose::entries(copies, tensors, room.address());
            // SAFETY: the kernel takes this table, whose addresses are valid as the caller vouches.
            unsafe { by_table(kernel, stream, table, blocks)? };
        }
        if let Some(kernel) = self.realign {
            let (table, blocks) = realign::entries(copies, tensors, room.address());
            // SAFETY: the same.
            unsafe { by_table(kernel, stream, table, blocks)? };
        }
        Ok(())
    }

    /// Results from their copies, once the launch's kernel is enqueued.
    ///
    /// # Safety
    ///
    /// As [`Copying::enqueue`] asks.
    pub unsafe fn enqueue_back(
        self,
        stream: &CudaStream,
        copies: &Copies,
        tensors: &Tensors<'_>,
        room: &Room<'_>,
    ) -> Result<()> {
        let Some(kernel) = self.transpose else { return Ok(()) };
        let (table, blocks) = transpose::entries_back(copies, tensors, room.address());
        // SAFETY: the kernel takes this table, whose addresses are valid as the caller vouches.
        unsafe { by_table(kernel, stream, table, blocks) }
    }
}

/// # Safety
///
/// As [`Copying::enqueue`] asks, and the kernel's one parameter is of this layout.
unsafe fn by_table<T>(kernel: &LoadedKernel, stream: &CudaStream, mut table: T, blocks: u32) -> Result<()> {
    if blocks == 0 {
        return Ok(());
    }
    let parameter: *mut c_void = (&raw mut table).cast();
    // SAFETY: the driver reads the parameter before the call returns; the rest is as the caller vouches.
    unsafe { kernel.enqueue(stream, Grid::of(blocks), &mut [parameter]) }
}
