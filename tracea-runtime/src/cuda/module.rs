//! Loaded machine code: a function of the driver with its attributes set, ready to be enqueued.

use super::cache::{Cache, CacheKey, Entry};
use super::compile::Request;
use super::driver::Checked;
use super::gpu::Gpu;
use super::nvrtc::{nvrtc, nvrtc_version};
use super::specialization::Specialization;
use crate::error::{Error, Result};
use crate::plan::{Instance, KernelDef, Variant};
use cudarc::driver::sys::{
    self, CUfunction_attribute_enum as Attribute, CUlaunchAttributeID as LaunchAttribute,
    CUlaunchAttributeValue as LaunchValue,
};
use cudarc::driver::{CudaStream, result};
use std::ffi::{CString, c_int, c_void};

/// What every block gets without asking.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// Stays loaded as long as the process.
#[derive(Debug)]
pub(crate) struct LoadedKernel {
    function: sys::CUfunction,
    threads: u32,
    /// Registers a thread.
    pub registers: u32,
    pub local_bytes: u32,
    pub static_shared_bytes: u32,
}

/// How many blocks of a kernel run, and with what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub blocks: u32,
    /// Blocks of a cluster, of which the grid is a multiple; 1 where none.
    pub cluster: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Blocks wait for each other: the driver refuses more than run at a time, and starts all of them together.
    pub cooperative: bool,
    /// Blocks may begin when those of the launch before have begun, and wait themselves until that has ended.
    pub early: bool,
}

impl Grid {
    /// Without clusters or dynamic shared memory.
    pub fn of(blocks: u32) -> Grid {
        Grid { blocks, cluster: 1, shared_bytes: 0, cooperative: false, early: false }
    }
}

// SAFETY: a function handle is an address in the driver, which any thread may launch once the context is current there.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above; nothing is written after loading.
unsafe impl Sync for LoadedKernel {}

/// The cubin from the disk cache, else from NVRTC; then into the device's context.
pub(crate) fn load(
    gpu: &Gpu,
    kernel: &KernelDef,
    instance: &Instance,
    variant: &Variant,
    specialization: Specialization,
) -> Result<LoadedKernel> {
    let architecture = machine_architecture(gpu, kernel, variant)?;
    let request = Request::new(kernel, instance, variant, specialization, &architecture);
    let (major, minor) = nvrtc_version()?;
    let version = format!("NVRTC {major}.{minor}");
    let key = CacheKey::new(request.inputs().chain([version.as_str()]));
    let cache = Cache::from_environment();
    if let Some(entry) = cache.as_ref().and_then(|cache| cache.get(&key)) {
        return load_cubin(gpu, variant, &entry.cubin);
    }
    let compiled = request.compile()?;
    let entry = Entry { cubin: compiled.cubin, log: compiled.log };
    let loaded = load_cubin(gpu, variant, &entry.cubin)?;
    if let Some(cache) = cache {
        cache.put(&key, &entry);
    }
    Ok(loaded)
}

/// The device's own architecture, with the variant's feature letter; where NVRTC is older than the device, the newest of the same
/// generation, whose machine code the device runs.
fn machine_architecture(gpu: &Gpu, kernel: &KernelDef, variant: &Variant) -> Result<String> {
    if variant.target.ends_with(|letter: char| letter.is_ascii_alphabetic()) {
        return Ok(variant.target.to_owned());
    }
    let (major, minor) = gpu.capability;
    let known = nvrtc()?.architectures()?;
    let best = known.into_iter().filter(|known| known / 10 == major && known % 10 <= minor).max();
    best.map(|known| format!("sm_{known}")).ok_or_else(|| Error::NoVariant {
        kernel: kernel.name,
        device: gpu.to_string(),
        why: "the installed NVRTC makes no code for this architecture -- install a newer CUDA toolkit".to_owned(),
    })
}

fn load_cubin(gpu: &Gpu, variant: &Variant, cubin: &[u8]) -> Result<LoadedKernel> {
    gpu.bind()?;
    let entry = CString::new(variant.entry).map_err(|_| Error::Nvrtc {
        doing: "loading machine code",
        message: "the entry's name has a zero byte".to_owned(),
    })?;
    // SAFETY: the image is a whole cubin, whose header tells the driver its size; the driver copies it.
    let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }.doing("loading machine code")?;
    // SAFETY: the module was loaded just now and is never unloaded.
    let function =
        unsafe { result::module::get_function(module, entry) }.doing("finding the kernel in its machine code")?;
    let attribute = |attribute: Attribute| -> Result<u32> {
        let mut value: c_int = 0;
        // SAFETY: the function is alive and the pointer valid for a write.
        unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) }
            .result()
            .doing("reading a kernel's attributes")?;
        Ok(value.unsigned_abs())
    };
    let shared_bytes = variant.most_shared_bytes();
    if shared_bytes > SHARED_WITHOUT_ASKING {
        let bytes = shared_bytes as c_int;
        // SAFETY: the function is alive; the attribute takes a number of bytes.
        unsafe { sys::cuFuncSetAttribute(function, Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes) }
            .result()
            .doing("asking for shared memory")?;
    }
    Ok(LoadedKernel {
        function,
        threads: variant.threads,
        registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        static_shared_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
    })
}

impl LoadedKernel {
    /// Blocks with so much shared memory that one multiprocessor holds at a time. The context is current.
    pub fn blocks_per_multiprocessor(&self, shared_bytes: u32) -> Result<u32> {
        let mut blocks: c_int = 0;
        // SAFETY: the function is alive and the pointer valid for a write.
        unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.function,
                self.threads as c_int,
                shared_bytes as usize,
            )
        }
        .result()
        .doing("asking for a kernel's occupancy")?;
        Ok(blocks.unsigned_abs())
    }

    /// Enqueues a grid with these parameters.
    ///
    /// # Safety
    ///
    /// The context is current, `parameters` points to what the kernel's signature asks for, one value after the other, and every
    /// address in them stays valid, for the accesses of the kernel, until the stream has run it.
    pub unsafe fn enqueue(&self, stream: &CudaStream, grid: Grid, parameters: &mut [*mut c_void]) -> Result<()> {
        let cluster =
            LaunchValue { clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: grid.cluster, y: 1, z: 1 } };
        let all = [
            (grid.cluster > 1, LaunchAttribute::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, cluster),
            (grid.cooperative, LaunchAttribute::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, LaunchValue { cooperative: 1 }),
            (
                grid.early,
                LaunchAttribute::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                LaunchValue { programmaticStreamSerializationAllowed: 1 },
            ),
        ];
        let mut attributes = [sys::CUlaunchAttribute { id: all[0].1, pad: [0; 4], value: cluster }; 3];
        let mut count = 0;
        for (_, id, value) in all.into_iter().filter(|(is_asked, ..)| *is_asked) {
            attributes[count] = sys::CUlaunchAttribute { id, pad: [0; 4], value };
            count += 1;
        }
        if count > 0 {
            // SAFETY: as the caller vouches.
            return unsafe { self.enqueue_with(stream, grid, &mut attributes[..count], parameters) };
        }
        // SAFETY: the caller vouches for parameters and addresses; the driver copies the values during the call.
        unsafe {
            sys::cuLaunchKernel(
                self.function,
                grid.blocks,
                1,
                1,
                self.threads,
                1,
                1,
                grid.shared_bytes,
                stream.cu_stream(),
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
        .result()
        .doing("launching the kernel")
    }

    /// The same by the driver's newer call, which those that know such attributes have.
    ///
    /// # Safety
    ///
    /// As for [`enqueue`](LoadedKernel::enqueue).
    unsafe fn enqueue_with(
        &self,
        stream: &CudaStream,
        grid: Grid,
        attributes: &mut [sys::CUlaunchAttribute],
        parameters: &mut [*mut c_void],
    ) -> Result<()> {
        let config = sys::CUlaunchConfig {
            gridDimX: grid.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared_bytes,
            hStream: stream.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        // SAFETY: the configuration and its attributes live until the call returns; the rest is as for the other call.
        unsafe {
            sys::cuLaunchKernelEx(&raw const config, self.function, parameters.as_mut_ptr(), std::ptr::null_mut())
        }
        .result()
        .doing("launching the kernel")
    }
}
