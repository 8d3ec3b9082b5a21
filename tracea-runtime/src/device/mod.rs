//! A place where tensors live and kernels run: the CPU, or a CUDA device together with the stream that takes its work.

use crate::cuda::{Checked, CudaBlock, Gpu, Workspace, cuda_count};
use crate::dim::IntoShape;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::tensor::{Layout, RawTensor, Tensor};
use cudarc::driver::{CudaStream, result};
use std::sync::Arc;

/// Cheap to clone; clones share the stream.
#[derive(Clone)]
pub struct Device {
    place: Place,
}

#[derive(Clone)]
enum Place {
    Cpu,
    Cuda { gpu: &'static Gpu, stream: Arc<CudaStream>, workspace: Workspace },
}

impl Device {
    pub(crate) const CPU: Device = Device { place: Place::Cpu };

    pub fn cpu() -> Device {
        Device::CPU
    }

    /// A CUDA device by ordinal, with its primary context and default stream, so that work is ordered with that of libraries which
    /// use the default stream too.
    pub fn cuda(ordinal: usize) -> Result<Device> {
        let gpu = Gpu::primary(ordinal)?;
        Ok(Device {
            place: Place::Cuda { gpu, stream: gpu.context.default_stream(), workspace: gpu.workspace.clone() },
        })
    }

    /// CUDA device 0 where there is one, else the CPU.
    pub fn best() -> Result<Device> {
        if cuda_count() == 0 { Ok(Device::cpu()) } else { Device::cuda(0) }
    }

    /// How many CUDA devices this process sees; 0 without a driver.
    pub fn cuda_count() -> usize {
        cuda_count()
    }

    /// The device of a stream that the caller made; launches and copies go there.
    pub fn from_stream(stream: Arc<CudaStream>) -> Result<Device> {
        let gpu = Gpu::of_context(stream.context())?;
        Ok(Device { place: Place::Cuda { gpu, stream, workspace: Workspace::default() } })
    }

    /// The same device with a stream of its own, which does not wait for the default stream.
    pub fn new_stream(&self) -> Result<Device> {
        match &self.place {
            Place::Cpu => Ok(self.clone()),
            Place::Cuda { gpu, .. } => {
                let stream = gpu.context.new_stream().doing("making a stream")?;
                Ok(Device { place: Place::Cuda { gpu, stream, workspace: Workspace::default() } })
            }
        }
    }

    pub fn is_cpu(&self) -> bool {
        matches!(self.place, Place::Cpu)
    }

    pub fn is_cuda(&self) -> bool {
        !self.is_cpu()
    }

    /// `cpu`, or the name that the driver gives the device.
    pub fn name(&self) -> &str {
        self.gpu().map_or("cpu", |gpu| &gpu.name)
    }

    pub fn ordinal(&self) -> Option<usize> {
        self.gpu().map(|gpu| gpu.ordinal)
    }

    /// `(9, 0)` for Hopper.
    pub fn compute_capability(&self) -> Option<(u32, u32)> {
        self.gpu().map(|gpu| gpu.capability)
    }

    pub fn stream(&self) -> Option<&Arc<CudaStream>> {
        self.cuda_parts().map(|(_, stream)| stream)
    }

    /// Waits for all work that the device's stream was given, and tells how it went.
    pub fn synchronize(&self) -> Result<()> {
        match self.stream() {
            Some(stream) => stream.synchronize().doing("waiting for the stream"),
            None => Ok(()),
        }
    }

    /// A tensor with the elements of a row-major slice.
    pub fn tensor<T: Element, I: IntoShape>(&self, elements: &[T], shape: I) -> Result<Tensor<T, I::Shape>> {
        let layout = Layout::contiguous(&shape.sizes())?;
        check_count(elements.len(), &layout)?;
        let mut tensor = Tensor::from_raw_parts(self.reserve::<T>(layout)?);
        tensor.write(elements)?;
        Ok(tensor)
    }

    pub fn zeros<T: Element, I: IntoShape>(&self, shape: I) -> Result<Tensor<T, I::Shape>> {
        let layout = Layout::contiguous(&shape.sizes())?;
        let raw = self.reserve::<T>(layout)?;
        if let Some((gpu, stream)) = self.cuda_parts()
            && !layout.is_empty()
        {
            gpu.bind()?;
            // SAFETY: the block was just allocated with this many bytes on this stream.
            unsafe {
                result::memset_d8_async(raw.device_address(), 0, layout.elements() * size_of::<T>(), stream.cu_stream())
            }
            .doing("filling device memory")?;
        }
        Ok(Tensor::from_raw_parts(raw))
    }

    pub fn full<T: Element, I: IntoShape>(&self, value: T, shape: I) -> Result<Tensor<T, I::Shape>> {
        let layout = Layout::contiguous(&shape.sizes())?;
        let mut tensor = Tensor::from_raw_parts(self.reserve::<T>(layout)?);
        tensor.fill(value)?;
        Ok(tensor)
    }

    /// Memory for a contiguous layout: zero on the CPU, undefined on a GPU, where the caller writes it before anything reads it.
    pub(crate) fn reserve<T: Element>(&self, layout: Layout) -> Result<RawTensor> {
        let bytes = layout.elements() * size_of::<T>();
        match &self.place {
            Place::Cpu => RawTensor::on_host(T::DTYPE, layout, bytes, self.clone()),
            Place::Cuda { gpu, stream, .. } => {
                let block = CudaBlock::allocate(gpu, stream, bytes)?;
                Ok(RawTensor::on_device(T::DTYPE, layout, block, self.clone()))
            }
        }
    }

    pub(crate) fn gpu(&self) -> Option<&'static Gpu> {
        self.cuda_parts().map(|(gpu, _)| gpu)
    }

    pub(crate) fn cuda_parts(&self) -> Option<(&'static Gpu, &Arc<CudaStream>)> {
        match &self.place {
            Place::Cpu => None,
            Place::Cuda { gpu, stream, .. } => Some((gpu, stream)),
        }
    }

    /// Memory of this device's stream for parts of sums and for copies.
    pub(crate) fn workspace(&self) -> Option<&Workspace> {
        match &self.place {
            Place::Cpu => None,
            Place::Cuda { workspace, .. } => Some(workspace),
        }
    }

    /// Whether a kernel can read both places' memory; streams do not count.
    pub(crate) fn same_place(&self, other: &Device) -> bool {
        self.gpu().map(|gpu| gpu.id) == other.gpu().map(|gpu| gpu.id)
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.gpu() {
            Some(gpu) => gpu.fmt(f),
            None => f.write_str("the CPU"),
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.gpu() {
            Some(gpu) => write!(f, "cuda:{}", gpu.ordinal),
            None => f.write_str("cpu"),
        }
    }
}

pub(crate) fn check_count(given: usize, layout: &Layout) -> Result<()> {
    let needed = layout.elements();
    if given == needed {
        return Ok(());
    }
    Err(Error::Shape(format!("{given} elements do not fill sizes {:?} -- pass {needed}", layout.sizes())))
}
