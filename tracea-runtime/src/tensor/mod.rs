//! Tensors: a dtype and a shape as types, and memory on a device that the tensor owns or borrows.

mod borrow;
mod copy;
mod layout;
mod memory;
mod raw;
mod view;

pub use borrow::{CudaRef, TensorMut, TensorRef};
pub use layout::MAX_RANK;

pub(crate) use copy::{download, fill_bits, upload};
pub(crate) use layout::Layout;
pub(crate) use raw::RawTensor;

use crate::device::{Device, check_count};
use crate::dim::{IntoShape, Shape};
use crate::element::Element;
use crate::error::{Error, Result};
use cudarc::driver::{CudaSlice, DevicePtr};
use std::fmt::Debug;
use std::marker::PhantomData;

/// Elements of `T` in the shape `S`, a tuple of [`Dim`](crate::dim::Dim)s: `Tensor<f16, (Dyn, Const<64>)>`.
///
/// Made by [`Device::tensor`], [`Device::zeros`] and [`Device::full`], or around memory that exists: [`Tensor::from_vec`],
/// [`Tensor::from_cuda`], [`TensorRef`], [`TensorMut`].
pub struct Tensor<T: Element, S: Shape> {
    raw: RawTensor,
    marker: PhantomData<(T, S)>,
}

impl<T: Element, S: Shape> Tensor<T, S> {
    /// Takes over a row-major vector without copying; on the CPU.
    pub fn from_vec<I: IntoShape<Shape = S>>(elements: Vec<T>, shape: I) -> Result<Tensor<T, S>> {
        let layout = Layout::contiguous(&shape.sizes())?;
        check_count(elements.len(), &layout)?;
        let address = elements.as_ptr().cast_mut().cast();
        Ok(Tensor::from_raw_parts(RawTensor::keeping(T::DTYPE, layout, address, Device::cpu(), Box::new(elements))))
    }

    /// Takes over a slice of device memory without copying; work goes to the slice's stream.
    pub fn from_cuda<I: IntoShape<Shape = S>>(elements: CudaSlice<T>, shape: I) -> Result<Tensor<T, S>> {
        let layout = Layout::contiguous(&shape.sizes())?;
        check_count(elements.len(), &layout)?;
        let device = Device::from_stream(elements.stream().clone())?;
        let address = elements.device_ptr(elements.stream()).0;
        let address = std::ptr::without_provenance_mut(address as usize);
        Ok(Tensor::from_raw_parts(RawTensor::keeping(T::DTYPE, layout, address, device, Box::new(elements))))
    }

    pub(crate) fn from_raw_parts(raw: RawTensor) -> Tensor<T, S> {
        Tensor { raw, marker: PhantomData }
    }

    pub(crate) fn raw(&self) -> &RawTensor {
        &self.raw
    }

    pub fn device(&self) -> &Device {
        self.raw.device()
    }

    pub fn rank(&self) -> usize {
        S::RANK
    }

    pub fn sizes(&self) -> &[usize] {
        self.raw.layout().sizes()
    }

    /// The size along an axis; 1 beyond the last.
    pub fn size(&self, axis: usize) -> usize {
        self.sizes().get(axis).copied().unwrap_or(1)
    }

    /// Elements from one index to the next along each axis.
    pub fn strides(&self) -> &[usize] {
        self.raw.layout().strides()
    }

    /// Address of the first element, on the tensor's device; what [`TensorRef::from_address`] takes.
    pub fn address(&self) -> usize {
        self.raw.expose_address()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.raw.layout().elements()
    }

    pub fn is_empty(&self) -> bool {
        self.raw.layout().is_empty()
    }

    /// Row-major without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.raw.layout().is_contiguous()
    }
}

impl<T: Element, S: Shape> Debug for Tensor<T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor<{}> {:?} on {:?}", T::DTYPE.name(), self.raw.layout(), self.device())
    }
}

/// Says where sizes contradict the constants of a shape's type.
pub(crate) fn check_shape<S: Shape>(sizes: &[usize]) -> Result<()> {
    if sizes.len() != S::RANK {
        return Err(Error::Shape(format!("sizes {sizes:?} have not the {} axes of the shape's type", S::RANK)));
    }
    for (axis, (&size, known)) in sizes.iter().zip(S::KNOWN).enumerate() {
        if let Some(known) = known
            && *known != size
        {
            return Err(Error::Shape(format!(
                "axis {axis} has size {size}, its type says {known} -- use that size, or `Dyn` in the type"
            )));
        }
    }
    Ok(())
}
