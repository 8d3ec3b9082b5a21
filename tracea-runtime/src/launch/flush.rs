//! Makes the L2 cache cold and clean, so that a timed kernel neither finds its tensors there nor waits for other lines to be
//! written back.

use super::slot::{KernelSlot, LoadKey};
use crate::cuda::{Checked, CudaBlock, Gpu, LoadedKernel, Specialization, load};
use crate::error::Result;
use crate::plan::{Cost, Instance, KernelDef, Variant};
use cudarc::driver::{CudaStream, result};
use std::ffi::c_void;
use std::sync::Arc;

static SLOT: KernelSlot = KernelSlot::new();

static KERNEL: KernelDef = KernelDef {
    name: "read_all",
    file: "flush.cu",
    line: 1,
    dims: &[],
    tensors: &[],
    scalars: &[],
    selectors: &[],
    instances: &[Instance { key: &[], known_dims: &[], variants: &[VARIANT], functions: &[] }],
};

const VARIANT: Variant = Variant {
    target: "sm_80",
    schedule: "",
    why: "",
    source: include_str!("../../device/flush.cu"),
    entry: "read_all",
    threads: 256,
    persistent: false,
    shared_bytes: 0,
    kept: None,
    split: None,
    grid: &[],
    cost: Cost { once: 0, resident: 1, steps: &[], fetches: &[] },
    args: &[],
    aligned: &[],
    whole_vectors: false,
    windows: &[],
    max_registers: 64,
    promised_sass: &[],
};

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
        let specialization = Specialization::default();
        let key = LoadKey { gpu: gpu.id, instance: 0, variant: 0, specialization };
        let reader = SLOT.get_or_load(key, || load(gpu, &KERNEL, &KERNEL.instances[0], &VARIANT, specialization))?;
        let blocks = gpu.multiprocessors * BLOCKS_OF_A_MULTIPROCESSOR;
        Ok(Flush { block: CudaBlock::allocate(gpu, stream, bytes)?, bytes, blocks, reader })
    }

    /// The context is bound.
    pub fn enqueue(&self, stream: &CudaStream) -> Result<()> {
        // SAFETY: the block has this many bytes and nobody else knows it.
        unsafe { result::memset_d8_async(self.block.address(), 0, self.bytes, stream.cu_stream()) }
            .doing("flushing the cache")?;
        let (mut from, mut count) = (self.block.address(), (self.bytes / READ) as u64);
        let mut parameters: [*mut c_void; 2] = [(&raw mut from).cast(), (&raw mut count).cast()];
        // SAFETY: the kernel takes an address and a count of 16-byte words, all of which lie in the block.
        unsafe { self.reader.enqueue(stream, self.blocks, 0, &mut parameters) }
    }
}
