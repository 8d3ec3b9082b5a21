//! A stream's own memory on a device: room where the blocks of a launch leave parts of sums for one another, and room for copies.

use super::driver::Checked;
use super::gpu::Gpu;
use super::memory::CudaBlock;
use super::room::{Room, Rooms};
use crate::error::Result;
use cudarc::driver::{CudaStream, result};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// For parts, bytes.
pub(crate) const PARTS_BYTES: u64 = 32 << 20;
/// Tiles that can be cut into parts at a time: one count of arrivals each.
pub(crate) const MOST_TILES: u64 = 16384;
/// Of four bytes: arrivals, and units that are taken. What follows is aligned as TMA wants it.
const COUNTS: u64 = MOST_TILES + 32;

/// Of one stream, whose launches come one after the other: made by the first that needs it.
#[derive(Clone, Default)]
pub(crate) struct Workspace(Arc<Inner>);

#[derive(Default)]
struct Inner {
    block: OnceLock<CudaBlock>,
    making: Mutex<()>,
    rooms: Rooms,
}

/// Of counts, which are 0 between launches, and of the room for parts.
pub(crate) struct Addresses {
    pub arrivals: u64,
    pub taken: u64,
    pub parts: u64,
}

impl Workspace {
    pub fn addresses(&self, gpu: &'static Gpu, stream: &Arc<CudaStream>) -> Result<Addresses> {
        let block = match self.0.block.get() {
            Some(block) => block,
            None => self.make(gpu, stream)?,
        };
        let arrivals = block.address();
        Ok(Addresses { arrivals, taken: arrivals + 4 * MOST_TILES, parts: arrivals + 4 * COUNTS })
    }

    /// Room for copies of so many bytes, while it is held; nothing where there is none.
    pub fn room(&self, gpu: &'static Gpu, stream: &Arc<CudaStream>, bytes: u64) -> Option<Room<'_>> {
        self.0.rooms.take(gpu, stream, bytes)
    }

    fn make(&self, gpu: &'static Gpu, stream: &Arc<CudaStream>) -> Result<&CudaBlock> {
        let _one_at_a_time = self.0.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = self.0.block.get() {
            return Ok(block);
        }
        let counts = 4 * COUNTS as usize;
        let block = CudaBlock::allocate(gpu, stream, counts + PARTS_BYTES as usize)?;
        // SAFETY: the block begins with the counts, and nothing else knows it yet.
        unsafe { result::memset_d8_async(block.address(), 0, counts, stream.cu_stream()) }
            .doing("clearing the counts of a workspace")?;
        Ok(self.0.block.get_or_init(|| block))
    }
}
