//! Makes the L2 cache cold and clean, so that a timed kernel neither finds its tensors there nor waits for other lines to be
//! written back.

use super::builtin::Builtin;
use crate::cuda::{Checked, CudaBlock, Gpu, Grid, LoadedKernel};
use crate::error::Result;
use cudarc::driver::{CudaStream, result};
use std::ffi::c_void;
use std::sync::Arc;

pub(super) static READ_ALL: Builtin = Builtin::new("read_all", include_str!("../../device/flush.cu"), 256);

const READ: usize = 16;
const BLOCKS_OF_A_MULTIPROCESSOR: u32 = 8;

/// Twice the cache, and the kernel that reads it.
pub(super) struct Flush {
    block: CudaBlock,
    bytes: usize,
    blocks: u32,
    reader: &'static LoadedKernel,
}

impl Flush {
    pub fn new(gpu: &'static Gpu, stream: &Arc<CudaStream>) -> Result<Flush> {
        let bytes = (2 * gpu.l2_bytes).max(32 << 20).next_multiple_of(READ);
        let blocks = gpu.multiprocessors * BLOCKS_OF_A_MULTIPROCESSOR;
        Ok(Flush { block: CudaBlock::allocate(gpu, stream, bytes)?, bytes, blocks, reader: READ_ALL.loaded(gpu)? })
    }

    /// The context is bound.
    pub fn enqueue(&self, stream: &CudaStream) -> Result<()> {
        // SAFETY: the block has this many bytes and nobody else knows it.
        unsafe { result::memset_d8_async(self.block.address(), 0, self.bytes, stream.cu_stream()) }
            .doing("flushing the cache")?;
        let (mut from, mut count) = (self.block.address(), (self.bytes / READ) as u64);
        let mut parameters: [*mut c_void; 2] = [(&raw mut from).cast(), (&raw mut count).cast()];
        // SAFETY: the kernel takes an address and a count of 16-byte words, all of which lie in the block.
        unsafe { self.reader.enqueue(stream, Grid::of(self.blocks), &mut parameters) }
    }
}
