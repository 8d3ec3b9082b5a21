//! A tensor without its types: what launches and copies work on.

use super::layout::Layout;
use super::memory::HostBlock;
use crate::cuda::CudaBlock;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use std::ptr::NonNull;

pub(crate) struct RawTensor {
    /// Element `[0, …, 0]`; without provenance on a GPU.
    start: *mut u8,
    layout: Layout,
    dtype: Dtype,
    device: Device,
    /// What owns the memory; nothing where it is borrowed.
    _owner: Option<Box<dyn Send + Sync>>,
    /// Where this value must stand to be used; see [`super::TensorMut`].
    home: Option<NonNull<RawTensor>>,
}

// SAFETY: the memory behind `start` is owned, or borrowed under a lifetime that the typed wrapper carries; it is written through
// `&mut` only. `home` is compared, never followed.
unsafe impl Send for RawTensor {}
// SAFETY: as above.
unsafe impl Sync for RawTensor {}

impl RawTensor {
    pub fn on_host(dtype: Dtype, layout: Layout, bytes: usize, device: Device) -> Result<RawTensor> {
        let block = HostBlock::zeroed(bytes)?;
        Ok(RawTensor::keeping(dtype, layout, block.start(), device, Box::new(block)))
    }

    pub fn on_device(dtype: Dtype, layout: Layout, block: CudaBlock, device: Device) -> RawTensor {
        let start = std::ptr::without_provenance_mut(block.address() as usize);
        RawTensor::keeping(dtype, layout, start, device, Box::new(block))
    }

    pub fn keeping(
        dtype: Dtype,
        layout: Layout,
        start: *mut u8,
        device: Device,
        owner: Box<dyn Send + Sync>,
    ) -> RawTensor {
        RawTensor { start, layout, dtype, device, _owner: Some(owner), home: None }
    }

    pub fn borrowing(dtype: Dtype, layout: Layout, start: *mut u8, device: Device) -> RawTensor {
        RawTensor { start, layout, dtype, device, _owner: None, home: None }
    }

    /// The same memory seen through another layout, `offset` elements further.
    pub fn view(&self, layout: Layout, offset: usize) -> Result<RawTensor> {
        let start = self.start()?.wrapping_add(offset * self.dtype.bytes());
        Ok(RawTensor::borrowing(self.dtype, layout, start, self.device.clone()))
    }

    /// The last two axes swapped. A tensor that has left its loan stays unusable.
    pub fn transposed(&self) -> RawTensor {
        let mut layout = self.layout;
        layout.swap_last();
        RawTensor {
            home: self.home.filter(|_| !self.is_at_home()),
            ..RawTensor::borrowing(self.dtype, layout, self.start, self.device.clone())
        }
    }

    /// Binds a borrowed tensor to the place where it stands now.
    pub fn settle(&mut self) {
        if self.home.is_none() {
            self.home = Some(NonNull::from(&mut *self));
        }
    }

    pub fn is_at_home(&self) -> bool {
        self.home.is_none_or(|home| std::ptr::eq(home.as_ptr(), self))
    }

    /// Whether this is a loan in its own cell.
    pub fn is_settled_here(&self) -> bool {
        self.home.is_some() && self.is_at_home()
    }

    /// The first element's address. Fails for a borrowed tensor that was moved away from its loan.
    pub fn start(&self) -> Result<*mut u8> {
        if self.is_at_home() {
            return Ok(self.start);
        }
        Err(Error::Shape(
            "this tensor was swapped out of its `TensorMut`, whose memory it borrowed -- swap tensors that own memory"
                .into(),
        ))
    }

    pub fn expose_address(&self) -> usize {
        self.start.expose_provenance()
    }

    pub fn device_address(&self) -> u64 {
        self.start.addr() as u64
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// First and one past the last byte that the elements touch.
    pub fn byte_range(&self) -> std::ops::Range<usize> {
        let start = self.start.addr();
        start..start.saturating_add(self.layout.reach() * self.dtype.bytes())
    }
}
