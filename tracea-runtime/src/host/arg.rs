//! A kernel's arguments without their types, on the way to its body.

use std::fmt;

use super::view::View;
use crate::axis::Extent;
use crate::dtype::Dtype;
use crate::element::{Element, Stored};
use crate::verify::Comparator;

pub const MAX_AXES: usize = 6;

/// A strided array in host memory.
#[derive(Clone, Copy, Debug)]
pub struct HostArray {
    pub address: *mut u8,
    pub dtype: Dtype,
    pub rank: usize,
    pub sizes: [usize; MAX_AXES],
    /// In elements.
    pub strides: [usize; MAX_AXES],
}

impl HostArray {
    /// At most `MAX_AXES` sizes, and as many strides.
    pub fn new(address: *mut u8, dtype: Dtype, sizes: &[usize], strides: &[usize]) -> Self {
        let rank = sizes.len();
        assert!(rank <= MAX_AXES && strides.len() == rank, "an array of more axes than tensors have");
        let mut array = HostArray { address, dtype, rank, sizes: [1; MAX_AXES], strides: [0; MAX_AXES] };
        array.sizes[..rank].copy_from_slice(sizes);
        array.strides[..rank].copy_from_slice(strides);
        array
    }

    pub fn sizes(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[usize] {
        &self.strides[..self.rank]
    }

    pub(crate) fn len(&self) -> usize {
        self.sizes().iter().product()
    }
}

/// One argument of a kernel's body.
#[derive(Clone, Copy, Debug)]
pub struct HostArg<'a>(Kind<'a>);

#[derive(Clone, Copy)]
enum Kind<'a> {
    Tensor(HostArray, Access<'a>),
    F32(f32),
    I32(i32),
    Flag(bool),
}

/// What a body may do with a tensor.
#[derive(Clone, Copy)]
pub(crate) enum Access<'a> {
    Read,
    Write,
    /// Loads read the array, stores are compared.
    Compare(&'a Comparator),
}

impl fmt::Debug for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Tensor(array, _) => array.fmt(f),
            Kind::F32(x) => x.fmt(f),
            Kind::I32(x) => x.fmt(f),
            Kind::Flag(x) => x.fmt(f),
        }
    }
}

// SAFETY: an input is only read and an output is written at places that differ from one grid point to the next, as the
// kernel's checker has found; the constructors' contracts keep everybody else away.
unsafe impl Send for HostArg<'_> {}
// SAFETY: as above.
unsafe impl Sync for HostArg<'_> {}

impl<'a> HostArg<'a> {
    /// A tensor that the body reads.
    ///
    /// # Safety
    /// For `'a`, the elements are readable at their strides and nobody writes them.
    pub unsafe fn input(array: HostArray) -> Self {
        HostArg(Kind::Tensor(array, Access::Read))
    }

    /// A tensor that the body writes.
    ///
    /// # Safety
    /// For `'a`, the elements are readable and writable at their strides, at addresses that differ, and nobody else touches them.
    pub unsafe fn output(array: HostArray) -> Self {
        HostArg(Kind::Tensor(array, Access::Write))
    }

    /// A tensor whose stores are compared with a result; loads read `original`, what it held before the kernel ran.
    ///
    /// # Safety
    /// As for [`HostArg::input`].
    pub unsafe fn checked(original: HostArray, comparator: &'a Comparator) -> Self {
        assert_eq!(original.sizes(), comparator.actual().sizes(), "a result has the sizes of its tensor");
        HostArg(Kind::Tensor(original, Access::Compare(comparator)))
    }

    pub fn from_f32(value: f32) -> Self {
        HostArg(Kind::F32(value))
    }

    pub fn from_i32(value: i32) -> Self {
        HostArg(Kind::I32(value))
    }

    pub fn from_flag(value: bool) -> Self {
        HostArg(Kind::Flag(value))
    }

    pub(crate) fn array(&self) -> Option<&HostArray> {
        match &self.0 {
            Kind::Tensor(array, _) => Some(array),
            _ => None,
        }
    }

    /// The tensor to write, typed again.
    pub fn view_mut<T: Stored, S>(&self) -> View<'a, T, S> {
        self.view()
    }

    /// The tensor, typed again.
    pub fn view<T: Stored, S>(&self) -> View<'a, T, S> {
        match self.0 {
            Kind::Tensor(array, access) => {
                assert_eq!(array.dtype, T::Storage::DTYPE, "a view has the dtype of its tensor");
                View::new(array, access)
            }
            _ => self.is_not("a tensor"),
        }
    }

    /// An extent over an axis of the tensor.
    pub fn extent<D>(&self, axis: usize) -> Extent<D> {
        match &self.0 {
            Kind::Tensor(array, _) => Extent::new(size(array.sizes[axis])),
            _ => self.is_not("a tensor"),
        }
    }

    pub fn f32(&self) -> f32 {
        match self.0 {
            Kind::F32(value) => value,
            _ => self.is_not("an f32"),
        }
    }

    pub fn i32(&self) -> i32 {
        match self.0 {
            Kind::I32(value) => value,
            _ => self.is_not("an i32"),
        }
    }

    pub fn flag(&self) -> bool {
        match self.0 {
            Kind::Flag(value) => value,
            _ => self.is_not("a flag"),
        }
    }

    fn is_not(&self, what: &str) -> ! {
        unreachable!("the expansion asked for {what} where the launch gave {self:?}")
    }
}

/// A size in the index arithmetic of kernels; launches refuse tensors that exceed it.
pub(crate) fn size(size: usize) -> i32 {
    size.min(i32::MAX as usize) as i32
}
