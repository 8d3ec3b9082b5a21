//! The kernels that make a launch's copies: one launch for each way that there is among them.

use super::check::Tensors;
use super::copies::{Copies, Way};
use super::realign::Realign;
use super::transpose::Transpose;
use crate::cuda::{Gpu, Room};
use crate::error::Result;
use cudarc::driver::CudaStream;

/// Loaded code.
#[derive(Clone, Copy)]
pub(super) struct Copying {
    realign: Option<Realign>,
    transpose: Option<Transpose>,
}

impl Copying {
    /// Of what these copies take.
    pub fn loaded(gpu: &Gpu, copies: &Copies) -> Result<Copying> {
        Ok(Copying {
            realign: if copies.has_any(Way::Realigned) { Some(Realign::loaded(gpu)?) } else { None },
            transpose: if copies.has_any(Way::Transposed) { Some(Transpose::loaded(gpu)?) } else { None },
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
        if let Some(transpose) = self.transpose {
            // SAFETY: as the caller vouches.
            unsafe { transpose.enqueue(stream, copies, tensors, room)? };
        }
        if let Some(realign) = self.realign {
            // SAFETY: as the caller vouches.
            unsafe { realign.enqueue(stream, copies, tensors, room)? };
        }
        Ok(())
    }
}
