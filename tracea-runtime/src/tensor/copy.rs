//! Elements in and out of tensors, between host and device, in row-major order whatever the strides.
//!
//! A strided tensor on a GPU is written by reading its reach, changing its elements, and writing the reach back.

use super::layout::Layout;
use super::raw::RawTensor;
use super::{Tensor, check_shape};
use crate::cuda::Checked;
use crate::device::{Device, check_count};
use crate::dim::Shape;
use crate::element::Element;
use crate::error::{Error, Result};
use cudarc::driver::{result, sys};

impl<T: Element, S: Shape> Tensor<T, S> {
    /// The elements in row-major order, once all work on the device's stream is done.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        download(self.raw())
    }

    /// Replaces all elements by those of a row-major slice.
    pub fn write(&mut self, elements: &[T]) -> Result<()> {
        check_count(elements.len(), self.raw().layout())?;
        upload(self.raw(), elements)
    }

    pub fn fill(&mut self, value: T) -> Result<()> {
        fill_bits(self.raw(), bits(value))
    }

    /// Replaces all elements by those of a tensor of the same sizes, on any device.
    pub fn copy_from<R: Shape>(&mut self, from: &Tensor<T, R>) -> Result<()> {
        if self.sizes() != from.sizes() {
            let (to, from) = (self.sizes(), from.sizes());
            return Err(Error::Shape(format!(
                "a tensor of sizes {from:?} cannot fill one of {to:?} -- bring them to one shape"
            )));
        }
        copy::<T>(from.raw(), self.raw())
    }

    /// A row-major copy on a device.
    pub fn to(&self, device: &Device) -> Result<Tensor<T, S>> {
        let raw = device.reserve::<T>(Layout::contiguous(self.sizes())?)?;
        copy::<T>(self.raw(), &raw)?;
        Ok(Tensor::from_raw_parts(raw))
    }

    /// A row-major copy on the same device.
    pub fn to_contiguous(&self) -> Result<Tensor<T, S>> {
        self.to(self.device())
    }

    /// The same tensor under another shape type with the same sizes: `Dyn` where there was a constant, or the other way round.
    pub fn as_shape<R: Shape>(&self) -> Result<super::TensorRef<'_, T, R>> {
        check_shape::<R>(self.sizes())?;
        Ok(super::TensorRef::new(self.raw().view(*self.raw().layout(), 0)?))
    }
}

/// The elements of a tensor of dtype `T`, row-major.
pub(crate) fn download<T: Element>(raw: &RawTensor) -> Result<Vec<T>> {
    assert_eq!(raw.dtype(), T::DTYPE, "typed wrappers carry their own dtype");
    let reach = reach::<T>(raw)?;
    if raw.layout().is_contiguous() {
        return Ok(reach);
    }
    Ok(raw.layout().offsets().map(|offset| reach[offset]).collect())
}

/// From the first element in memory to the last, whatever lies between.
fn reach<T: Element>(raw: &RawTensor) -> Result<Vec<T>> {
    let length = raw.layout().reach();
    let start = raw.start()?;
    let mut elements = Vec::<T>::with_capacity(length);
    if length == 0 {
        return Ok(elements);
    }
    if let Some((gpu, stream)) = raw.device().cuda_parts() {
        gpu.bind()?;
        // SAFETY: the tensor's reach is readable device memory, and the vector has room for it; the copy is waited for.
        unsafe {
            let bytes = length * size_of::<T>();
            sys::cuMemcpyDtoHAsync_v2(elements.as_mut_ptr().cast(), start.addr() as u64, bytes, stream.cu_stream())
                .result()
                .doing("copying from the device")?;
            result::stream::synchronize(stream.cu_stream()).doing("copying from the device")?;
            elements.set_len(length);
        }
    } else if raw.layout().is_dense() {
        // SAFETY: a dense tensor's reach holds its own elements only, which are initialised and not written meanwhile.
        unsafe {
            std::ptr::copy_nonoverlapping(start.cast::<T>(), elements.as_mut_ptr(), length);
            elements.set_len(length);
        }
    } else {
        elements.resize(length, T::default());
        for offset in raw.layout().offsets() {
            // SAFETY: the element belongs to the tensor; what lies between belongs to others and is left alone.
            elements[offset] = unsafe { start.cast::<T>().add(offset).read() };
        }
    }
    Ok(elements)
}

/// Row-major elements into a tensor that the caller may write.
pub(crate) fn upload<T: Element>(raw: &RawTensor, elements: &[T]) -> Result<()> {
    let start = raw.start()?;
    if elements.is_empty() {
        return Ok(());
    }
    let Some((gpu, stream)) = raw.device().cuda_parts() else {
        if raw.layout().is_contiguous() {
            // SAFETY: the tensor's elements are writable, as many as the slice has, and a borrow of them cannot be alive in safe code.
            unsafe { std::ptr::copy(elements.as_ptr(), start.cast::<T>(), elements.len()) };
            return Ok(());
        }
        for (offset, &element) in raw.layout().offsets().zip(elements) {
            // SAFETY: as above, one element at a time.
            unsafe { start.cast::<T>().add(offset).write(element) };
        }
        return Ok(());
    };
    let scattered;
    let whole = if raw.layout().is_contiguous() {
        elements
    } else {
        let mut whole = reach::<T>(raw)?;
        for (offset, &element) in raw.layout().offsets().zip(elements) {
            whole[offset] = element;
        }
        scattered = whole;
        &scattered
    };
    gpu.bind()?;
    // SAFETY: the tensor's reach is writable device memory of the slice's length. The slice may be page-locked, which makes the copy
    // asynchronous, so that it is waited for.
    unsafe {
        result::memcpy_htod_async(start.addr() as u64, whole, stream.cu_stream()).doing("copying to the device")?;
        result::stream::synchronize(stream.cu_stream()).doing("copying to the device")
    }
}

fn copy<T: Element>(from: &RawTensor, to: &RawTensor) -> Result<()> {
    let same_order = from.layout() == to.layout() && from.layout().is_dense();
    if let (Some((gpu, stream)), true) = (to.device().cuda_parts(), same_order && from.device().same_place(to.device()))
    {
        let bytes = from.layout().elements() * size_of::<T>();
        let (source, target) = (from.start()?.addr() as u64, to.start()?.addr() as u64);
        if bytes == 0 {
            return Ok(());
        }
        gpu.bind()?;
        if let Some(other) = from.device().stream()
            && other.cu_stream() != stream.cu_stream()
        {
            stream.join(other).doing("ordering two streams")?;
        }
        // SAFETY: both are device memory of this many bytes on one device, and the source's stream was joined.
        unsafe { result::memcpy_dtod_async(target, source, bytes, stream.cu_stream()) }
            .doing("copying on the device")?;
        if let Some(other) = from.device().stream()
            && other.cu_stream() != stream.cu_stream()
        {
            other.join(stream).doing("ordering two streams")?;
        }
        return Ok(());
    }
    upload(to, &download::<T>(from)?)
}

/// Sets every element of a tensor that the caller may write to one bit pattern, of which 16-bit types take the low half.
pub(crate) fn fill_bits(raw: &RawTensor, bits: u32) -> Result<()> {
    let count = raw.layout().elements();
    let start = raw.start()?;
    if let Some((gpu, stream)) = raw.device().cuda_parts()
        && raw.layout().is_dense()
        && count > 0
    {
        gpu.bind()?;
        let address = start.addr() as u64;
        // SAFETY: a dense tensor's reach holds its own elements only, which the caller may write.
        return unsafe {
            match raw.dtype().bytes() {
                2 => sys::cuMemsetD16Async(address, bits as u16, count, stream.cu_stream()),
                _ => sys::cuMemsetD32Async(address, bits, count, stream.cu_stream()),
            }
        }
        .result()
        .doing("filling device memory");
    }
    match raw.dtype().bytes() {
        2 => upload::<half::f16>(raw, &vec![half::f16::from_bits(bits as u16); count]),
        _ => upload::<f32>(raw, &vec![f32::from_bits(bits); count]),
    }
}

/// An element's bits, a 16-bit element's in the low half.
fn bits<T: Element>(value: T) -> u32 {
    // SAFETY: elements are plain numbers of 2 or 4 bytes without padding.
    unsafe {
        match size_of::<T>() {
            2 => u32::from(std::mem::transmute_copy::<T, u16>(&value)),
            _ => std::mem::transmute_copy::<T, u32>(&value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::{Const, Dyn};
    use crate::tensor::{TensorMut, TensorRef};

    #[test]
    fn elements_go_in_and_out_in_row_major_order() {
        let device = Device::cpu();
        let host: Vec<i32> = (0..12).collect();
        let mut tensor = device.tensor(&host, (3, 4)).unwrap();
        assert_eq!(tensor.to_vec().unwrap(), host);
        let columns: Vec<i32> = vec![0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11];
        assert_eq!(tensor.transpose().to_vec().unwrap(), columns);
        tensor.transpose_mut().write(&host).unwrap();
        assert_eq!(tensor.to_vec().unwrap(), [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
        assert_eq!(tensor.transpose().to_contiguous().unwrap().strides(), [3, 1]);
    }

    #[test]
    fn a_strided_fill_leaves_the_gaps_alone() {
        let device = Device::cpu();
        let mut tensor = device.zeros::<half::f16, _>((3, 4)).unwrap();
        tensor.narrow_mut(1, 1..3).unwrap().fill(half::f16::ONE).unwrap();
        let ones: Vec<f32> = tensor.to_vec().unwrap().iter().map(|x| x.to_f32()).collect();
        assert_eq!(ones, [0.0, 1.0, 1.0, 0.0].repeat(3));
    }

    #[test]
    fn copies_check_sizes_and_follow_strides() {
        let device = Device::cpu();
        let from = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3)).unwrap();
        let mut to = device.zeros::<f32, _>((3, Const::<2>)).unwrap();
        to.copy_from(&from.transpose()).unwrap();
        assert_eq!(to.to_vec().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert!(to.copy_from(&from).unwrap_err().to_string().contains("[2, 3] cannot fill one of [3, 2]"));
        let dynamic: TensorRef<'_, f32, (Dyn, Dyn)> = to.as_shape().unwrap();
        assert_eq!(dynamic.sizes(), [3, 2]);
        assert!(to.as_shape::<(Dyn, Const<3>)>().is_err());
    }

    #[test]
    fn empty_tensors_are_tensors() {
        let device = Device::cpu();
        let mut empty = device.zeros::<f32, _>((0, 5)).unwrap();
        assert!(empty.is_empty());
        empty.fill(1.0).unwrap();
        empty.write(&[]).unwrap();
        assert!(empty.to(&device).unwrap().to_vec().unwrap().is_empty());
        assert!(TensorMut::from_slice(&mut [0.0f32; 0], (3, 0)).unwrap().fill(1.0).is_ok());
        assert!(device.tensor(&[1.0f32], (0, 5)).is_err());
    }

    #[test]
    fn constructors_fill_every_element() {
        let device = Device::cpu();
        assert_eq!(
            device.full(half::bf16::from_f32(3.0), (2, 2)).unwrap().to_vec().unwrap(),
            [half::bf16::from_f32(3.0); 4]
        );
        assert_eq!(device.full(-7i32, (3,)).unwrap().to_vec().unwrap(), [-7; 3]);
        assert_eq!(Tensor::from_vec(vec![1i32, 2], (2, 1)).unwrap().to_vec().unwrap(), [1, 2]);
        assert_eq!(device.zeros::<f32, _>((5,)).unwrap().raw().start().unwrap().addr() % 64, 0);
    }
}
