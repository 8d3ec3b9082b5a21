//! Room on a device for copies of tensors: one block a stream, which grows with what is asked for.
//!
//! Launches of one stream use it in turn. A copy and the launch that reads it are enqueued under one lock, so that nobody else's copy
//! comes between them; what an outgrown block was used for, the stream does before it is freed.

use super::driver::Checked;
use super::gpu::Gpu;
use super::memory::CudaBlock;
use crate::error::Result;
use cudarc::driver::sys::CUstreamCaptureStatus;
use cudarc::driver::{CudaStream, result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More than that is copied for nobody.
pub(crate) const MOST_ROOM: u64 = 1 << 30;
/// Of the memory that is free when a block is allocated, it takes one part in so many at most.
const SHARE_OF_FREE: u64 = 4;
/// Blocks are multiples of what the driver maps at a time.
const GRANULE: u64 = 2 << 20;

/// Of one stream.
#[derive(Default)]
pub(super) struct Rooms(Mutex<Option<Block>>);

struct Block {
    memory: CudaBlock,
    bytes: u64,
}

/// Room that is its holder's alone: whatever is enqueued while it is held has the memory for itself.
pub(crate) struct Room<'r> {
    address: u64,
    _turn: MutexGuard<'r, Option<Block>>,
}

impl Room<'_> {
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Rooms {
    /// Nothing where the device has not that much to spare, nor while the stream's work is captured in a graph, which would outlive
    /// the block.
    pub fn take(&self, gpu: &'static Gpu, stream: &Arc<CudaStream>, bytes: u64) -> Option<Room<'_>> {
        gpu.bind().ok()?;
        // SAFETY: the stream is alive.
        let capture = unsafe { result::stream::is_capturing(stream.cu_stream()) }.ok()?;
        if capture != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return None;
        }
        let mut block = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if block.as_ref().is_none_or(|block| block.bytes < bytes) {
            // Freed first, so that its memory serves the new one.
            *block = None;
            *block = Some(Block::allocate(gpu, stream, bytes.next_multiple_of(GRANULE)).ok()??);
        }
        let address = block.as_ref()?.memory.address();
        Some(Room { address, _turn: block })
    }
}

impl Block {
    fn allocate(gpu: &'static Gpu, stream: &Arc<CudaStream>, bytes: u64) -> Result<Option<Block>> {
        let (free, _) = result::mem_get_info().doing("asking for free memory")?;
        if bytes > MOST_ROOM.min(free as u64 / SHARE_OF_FREE) {
            return Ok(None);
        }
        Ok(Some(Block { memory: CudaBlock::allocate(gpu, stream, bytes as usize)?, bytes }))
    }
}
