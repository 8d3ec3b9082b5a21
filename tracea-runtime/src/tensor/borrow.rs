//! Tensors over memory that someone else owns.
//!
//! Both types dereference to [`Tensor`], so that kernels take them as they are: `kernel(&a_ref, &mut c_mut)`.
//!
//! A `&mut Tensor` can be swapped with another tensor, which would carry borrowed memory out of its lifetime. Therefore the tensor in a
//! [`TensorMut`] stands in a heap cell of its own, remembers the cell's address, and is unusable anywhere else; a cell that its
//! tensor has left is never freed, so that no other value comes to stand there. A [`TensorRef`] hands out `&Tensor` only, which
//! cannot be moved from.

use super::layout::Layout;
use super::raw::RawTensor;
use super::{Tensor, check_shape};
use crate::device::{Device, check_count};
use crate::dim::{IntoShape, Shape};
use crate::element::Element;
use crate::error::{Error, Result};
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A tensor that is read.
pub struct TensorRef<'a, T: Element, S: Shape> {
    tensor: Tensor<T, S>,
    marker: PhantomData<&'a [T]>,
}

/// A [`TensorRef`] over a `cudarc` slice, which learns on drop about the work that read it.
pub struct CudaRef<'a, T: Element, S: Shape> {
    tensor: TensorRef<'a, T, S>,
    finish: Option<Finish<'a>>,
}

/// A tensor that is read and written.
pub struct TensorMut<'a, T: Element, S: Shape> {
    /// From `Box::into_raw`; freed on drop where the tensor still stands in it.
    cell: *mut Tensor<T, S>,
    /// Tells a `cudarc` slice about the work that wrote it.
    finish: Option<Finish<'a>>,
    marker: PhantomData<&'a mut [T]>,
}

type Finish<'a> = Box<dyn FnOnce() + Send + Sync + 'a>;

// SAFETY: the cell is owned as a `Box` would be.
unsafe impl<T: Element, S: Shape> Send for TensorMut<'_, T, S> {}
// SAFETY: as above.
unsafe impl<T: Element, S: Shape> Sync for TensorMut<'_, T, S> {}

impl<'a, T: Element, S: Shape> TensorRef<'a, T, S> {
    /// A row-major slice on the CPU.
    pub fn from_slice<I: IntoShape<Shape = S>>(elements: &'a [T], shape: I) -> Result<TensorRef<'a, T, S>> {
        let layout = Layout::contiguous(&shape.sizes())?;
        check_count(elements.len(), &layout)?;
        let start = elements.as_ptr().cast_mut().cast();
        Ok(TensorRef::new(RawTensor::borrowing(T::DTYPE, layout, start, Device::cpu())))
    }

    /// A row-major slice of device memory: a `CudaSlice` or a `CudaView`. Work goes to its stream.
    pub fn from_cuda<P, I>(elements: &'a P, shape: I) -> Result<CudaRef<'a, T, S>>
    where
        P: DevicePtr<T> + Sync,
        I: IntoShape<Shape = S>,
    {
        let layout = Layout::contiguous(&shape.sizes())?;
        check_count(elements.len(), &layout)?;
        let stream = elements.stream().clone();
        let start = device_pointer(elements.device_ptr(&stream).0);
        let raw = RawTensor::borrowing(T::DTYPE, layout, start, Device::from_stream(stream.clone())?);
        let finish: Finish<'a> = Box::new(move || drop(elements.device_ptr(&stream).1));
        Ok(CudaRef { tensor: TensorRef::new(raw), finish: Some(finish) })
    }

    /// Memory by address, with strides in elements.
    ///
    /// # Safety
    ///
    /// For all of `'a`, and until work that was given this tensor has run: every element at `address` (on the device, or in host memory
    /// for the CPU) is initialised, aligned to its type, readable there, and not written by anyone else. Work of others on that
    /// memory is ordered before and after the device's stream by the caller.
    pub unsafe fn from_address(
        device: &Device,
        address: usize,
        sizes: &[usize],
        strides: &[usize],
    ) -> Result<TensorRef<'a, T, S>> {
        Ok(TensorRef::new(at_address::<T, S>(device, address, sizes, strides)?))
    }

    pub(super) fn new(raw: RawTensor) -> TensorRef<'a, T, S> {
        TensorRef { tensor: Tensor::from_raw_parts(raw), marker: PhantomData }
    }
}

impl<'a, T: Element, S: Shape> TensorMut<'a, T, S> {
    /// A row-major slice on the CPU.
    pub fn from_slice<I: IntoShape<Shape = S>>(elements: &'a mut [T], shape: I) -> Result<TensorMut<'a, T, S>> {
        let layout = Layout::contiguous(&shape.sizes())?;
        check_count(elements.len(), &layout)?;
        let start = elements.as_mut_ptr().cast();
        Ok(TensorMut::new(RawTensor::borrowing(T::DTYPE, layout, start, Device::cpu())))
    }

    /// A row-major slice of device memory: a `CudaSlice` or a `CudaViewMut`. Work goes to its stream.
    pub fn from_cuda<P, I>(elements: &'a mut P, shape: I) -> Result<TensorMut<'a, T, S>>
    where
        P: DevicePtrMut<T> + Send + Sync,
        I: IntoShape<Shape = S>,
    {
        let layout = Layout::contiguous(&shape.sizes())?;
        check_count(elements.len(), &layout)?;
        let stream: Arc<CudaStream> = elements.stream().clone();
        let start = device_pointer(elements.device_ptr_mut(&stream).0);
        let raw = RawTensor::borrowing(T::DTYPE, layout, start, Device::from_stream(stream.clone())?);
        let mut tensor = TensorMut::new(raw);
        tensor.finish = Some(Box::new(move || drop(elements.device_ptr_mut(&stream).1)));
        Ok(tensor)
    }

    /// Memory by address, with strides in elements.
    ///
    /// # Safety
    ///
    /// As for [`TensorRef::from_address`]; moreover every element is writable there, and nobody else reads it.
    pub unsafe fn from_address(
        device: &Device,
        address: usize,
        sizes: &[usize],
        strides: &[usize],
    ) -> Result<TensorMut<'a, T, S>> {
        Ok(TensorMut::new(at_address::<T, S>(device, address, sizes, strides)?))
    }

    pub(super) fn new(raw: RawTensor) -> TensorMut<'a, T, S> {
        let cell = Box::into_raw(Box::new(Tensor::from_raw_parts(raw)));
        // SAFETY: just made from a box, and nothing else refers to it.
        unsafe { (*cell).raw.settle() };
        TensorMut { cell, finish: None, marker: PhantomData }
    }
}

impl<T: Element, S: Shape> Deref for TensorRef<'_, T, S> {
    type Target = Tensor<T, S>;
    fn deref(&self) -> &Tensor<T, S> {
        &self.tensor
    }
}

impl<'a, T: Element, S: Shape> Deref for CudaRef<'a, T, S> {
    type Target = TensorRef<'a, T, S>;
    fn deref(&self) -> &TensorRef<'a, T, S> {
        &self.tensor
    }
}

impl<T: Element, S: Shape> Deref for TensorMut<'_, T, S> {
    type Target = Tensor<T, S>;
    fn deref(&self) -> &Tensor<T, S> {
        // SAFETY: the cell is owned and holds a tensor until drop.
        unsafe { &*self.cell }
    }
}

impl<T: Element, S: Shape> DerefMut for TensorMut<'_, T, S> {
    fn deref_mut(&mut self) -> &mut Tensor<T, S> {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { &mut *self.cell }
    }
}

impl<T: Element, S: Shape> Drop for CudaRef<'_, T, S> {
    fn drop(&mut self) {
        if let Some(finish) = self.finish.take() {
            finish();
        }
    }
}

impl<T: Element, S: Shape> Drop for TensorMut<'_, T, S> {
    fn drop(&mut self) {
        if let Some(finish) = self.finish.take() {
            finish();
        }
        // SAFETY: the cell is owned and alive; it is freed only where the loan itself still stands in it, else the value that was
        // swapped in is dropped and the cell is left, so that the loan never finds its home again.
        unsafe {
            if (*self.cell).raw.is_settled_here() {
                drop(Box::from_raw(self.cell));
            } else {
                std::ptr::drop_in_place(self.cell);
            }
        }
    }
}

impl<T: Element, S: Shape> std::fmt::Debug for TensorRef<'_, T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.deref().fmt(f)
    }
}

impl<T: Element, S: Shape> std::fmt::Debug for TensorMut<'_, T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.deref().fmt(f)
    }
}

fn device_pointer(address: u64) -> *mut u8 {
    std::ptr::without_provenance_mut(address as usize)
}

fn at_address<T: Element, S: Shape>(
    device: &Device,
    address: usize,
    sizes: &[usize],
    strides: &[usize],
) -> Result<RawTensor> {
    check_shape::<S>(sizes)?;
    let layout = Layout::strided(sizes, strides)?;
    if !address.is_multiple_of(align_of::<T>()) || (address == 0 && !layout.is_empty()) {
        let (name, align) = (T::DTYPE.name(), align_of::<T>());
        return Err(Error::Shape(format!("address {address:#x} cannot hold {name} -- align it to {align} bytes")));
    }
    let start = if device.is_cpu() {
        std::ptr::with_exposed_provenance_mut(address)
    } else {
        std::ptr::without_provenance_mut(address)
    };
    Ok(RawTensor::borrowing(T::DTYPE, layout, start, device.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_read_and_written_in_place() {
        let mut host = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(TensorRef::from_slice(&host, (2, 3)).unwrap().to_vec().unwrap(), host);
        let mut tensor = TensorMut::from_slice(&mut host, (3, 2)).unwrap();
        tensor.fill(7.0).unwrap();
        drop(tensor);
        assert_eq!(host, [7.0; 6]);
        assert!(TensorRef::from_slice(&host, (2, 4)).is_err());
    }

    #[test]
    fn a_tensor_swapped_out_of_its_loan_is_refused() {
        let device = Device::cpu();
        let mut escaped = device.zeros::<f32, _>((4,)).unwrap();
        {
            let mut host = [1.0f32; 4];
            let mut loan = TensorMut::from_slice(&mut host, (4,)).unwrap();
            std::mem::swap(&mut *loan, &mut escaped);
            assert!(escaped.to_vec().unwrap_err().to_string().contains("swapped out"));
            assert_eq!(loan.to_vec().unwrap(), [0.0; 4]);
        }
        assert!(escaped.to_vec().is_err());
        assert!(escaped.fill(1.0).is_err());
    }

    #[test]
    fn loans_swapped_with_each_other_are_refused() {
        let (mut one, mut two) = ([1.0f32; 2], [2.0f32; 2]);
        let mut first = TensorMut::from_slice(&mut one, (2,)).unwrap();
        {
            let mut second = TensorMut::from_slice(&mut two, (2,)).unwrap();
            std::mem::swap(&mut *first, &mut *second);
            assert!(second.to_vec().is_err());
        }
        assert!(first.to_vec().is_err());
    }

    #[test]
    fn an_address_is_checked_for_what_can_be_checked() {
        let host = [0.0f32; 8];
        let address = host.as_ptr().expose_provenance();
        let device = Device::cpu();
        // SAFETY: `host` outlives the tensors and holds all their elements.
        unsafe {
            let tensor = TensorRef::<f32, (crate::dim::Dyn, crate::dim::Const<2>)>::from_address(
                &device,
                address,
                &[3, 2],
                &[3, 1],
            );
            assert_eq!(tensor.unwrap().to_vec().unwrap(), [0.0; 6]);
            type Row = (crate::dim::Const<2>,);
            assert!(TensorRef::<f32, Row>::from_address(&device, address, &[3], &[1]).is_err());
            assert!(TensorRef::<f32, Row>::from_address(&device, address + 2, &[2], &[1]).is_err());
            assert!(TensorRef::<f32, Row>::from_address(&device, 0, &[2], &[1]).is_err());
        }
    }
}
