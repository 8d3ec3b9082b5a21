//! A tensor's contents in host memory, row-major.

use crate::device::Device;
use crate::dtype::Dtype;
use crate::element::Element;
use crate::error::Result;
use crate::host::HostArray;
use crate::tensor::{Layout, RawTensor, download, fill_bits, upload};

pub(crate) struct Saved(RawTensor);

/// Runs an expression with `T` as the element type of a dtype.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            Dtype::F16 => {
                type $T = half::f16;
                $body
            }
            Dtype::Bf16 => {
                type $T = half::bf16;
                $body
            }
            Dtype::F32 => {
                type $T = f32;
                $body
            }
            Dtype::I32 => {
                type $T = i32;
                $body
            }
        }
    };
}

impl Saved {
    /// Waits for the tensor's stream.
    pub fn take(tensor: &RawTensor) -> Result<Saved> {
        with_element!(tensor.dtype(), T => Saved::of(tensor, download::<T>(tensor)?))
    }

    fn of<T: Element>(tensor: &RawTensor, elements: Vec<T>) -> Result<Saved> {
        let layout = Layout::contiguous(tensor.layout().sizes())?;
        let start = elements.as_ptr().cast_mut().cast();
        Ok(Saved(RawTensor::keeping(T::DTYPE, layout, start, Device::cpu(), Box::new(elements))))
    }

    pub fn restore(&self, tensor: &RawTensor) -> Result<()> {
        with_element!(tensor.dtype(), T => upload::<T>(tensor, &download::<T>(&self.0)?))
    }

    pub fn array(&self) -> Result<HostArray> {
        crate::launch::host_array(&self.0)
    }

    /// Whether an element still has the pattern of [`poison`].
    pub fn is_poison(&self, index: &[usize]) -> bool {
        let offset: usize = index.iter().zip(self.0.layout().strides()).map(|(index, stride)| index * stride).sum();
        let bytes = self.0.dtype().bytes();
        let inside = index.len() == self.0.layout().rank() && offset < self.0.layout().reach();
        let Some(start) = self.0.start().ok().filter(|_| inside) else { return false };
        let poison = poison_bits(self.0.dtype()).to_ne_bytes();
        let poison = if cfg!(target_endian = "little") { &poison[..bytes] } else { &poison[4 - bytes..] };
        // SAFETY: the element lies within the saved elements, which are initialised.
        let element = unsafe { std::slice::from_raw_parts(start.add(offset * bytes), bytes) };
        element == poison
    }
}

/// Fills an output with a pattern that no kernel writes by chance: a NaN with a payload where there are NaNs.
pub(super) fn poison(tensor: &RawTensor) -> Result<()> {
    fill_bits(tensor, poison_bits(tensor.dtype()))
}

fn poison_bits(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F16 => 0x7e5a,
        Dtype::Bf16 => 0x7fda,
        Dtype::F32 => 0x7fda_5a5a,
        Dtype::I32 => 0xa5a5_5a5a,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_saved_restored_and_known_for_poison() {
        let device = Device::cpu();
        let tensor = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3)).unwrap();
        let columns = tensor.transpose();
        let saved = Saved::take(columns.raw()).unwrap();
        poison(columns.raw()).unwrap();
        let poisoned = Saved::take(tensor.raw()).unwrap();
        assert!(poisoned.is_poison(&[1, 2]) && !saved.is_poison(&[2, 1]));
        assert!(!poisoned.is_poison(&[2, 0]));
        assert!(tensor.to_vec().unwrap().iter().all(|element| element.is_nan()));
        saved.restore(columns.raw()).unwrap();
        assert_eq!(tensor.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let half = device.zeros::<half::bf16, _>((3,)).unwrap();
        poison(half.raw()).unwrap();
        assert!(half.to_vec().unwrap()[2].is_nan() && Saved::take(half.raw()).unwrap().is_poison(&[1]));
    }
}
