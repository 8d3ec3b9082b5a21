//! Device memory that a tensor owns: allocated and freed in the order of a stream.

use super::driver::Checked;
use super::gpu::Gpu;
use crate::error::Result;
use cudarc::driver::{CudaStream, result};
use std::sync::Arc;

/// What a copy moves at a time.
const PIECE: usize = 16;

pub(crate) struct CudaBlock {
    gpu: &'static Gpu,
    stream: Arc<CudaStream>,
    address: u64,
}

impl CudaBlock {
    /// Uninitialised; `bytes` may be 0.
    pub fn allocate(gpu: &'static Gpu, stream: &Arc<CudaStream>, bytes: usize) -> Result<CudaBlock> {
        gpu.bind()?;
        // The last piece of a copy by 16 bytes may begin near the end; it reads no further than it must, but tools that watch
        // memory take it for whole. So the memory is whole pieces, and the last one is written.
        let wanted = bytes;
        let bytes = bytes.next_multiple_of(PIECE);
        let address = match bytes {
            0 => 0,
            // SAFETY: the stream belongs to the bound context; the memory is written before it is read, by `Device`'s constructors.
            _ if gpu.context.has_async_alloc() => {
                unsafe { result::malloc_async(stream.cu_stream(), bytes) }.doing("allocating device memory")?
            }
            // SAFETY: as above.
            _ => unsafe { result::malloc_sync(bytes) }.doing("allocating device memory")?,
        };
        let block = CudaBlock { gpu, stream: stream.clone(), address };
        if bytes > wanted {
            let last = address + (bytes - PIECE) as u64;
            // SAFETY: the last piece lies in the block, which nothing else knows yet.
            unsafe { result::memset_d8_async(last, 0, PIECE, stream.cu_stream()) }.doing("allocating device memory")?;
        }
        Ok(block)
    }

    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for CudaBlock {
    fn drop(&mut self) {
        if self.address == 0 || self.gpu.bind().is_err() {
            return;
        }
        // A failure here repeats an earlier asynchronous one, which the next call reports.
        let _ = if self.gpu.context.has_async_alloc() {
            // SAFETY: allocated by `allocate`, freed once, and every launch elsewhere is joined into this stream.
            unsafe { result::free_async(self.address, self.stream.cu_stream()) }
        } else {
            // SAFETY: as above; the synchronous free waits for the device.
            unsafe { result::free_sync(self.address) }
        };
    }
}
