//! What a launcher hands over: tensors and scalars by reference, without heap memory.

use crate::dim::Shape;
use crate::element::Element;
use crate::tensor::{RawTensor, Tensor};

pub const MAX_TENSORS: usize = 16;
pub const MAX_SCALARS: usize = 16;
pub const MAX_SELECTORS: usize = 8;
pub const MAX_DIMS: usize = 32;

/// One argument of a kernel; borrows its tensor for as long as the launch lives.
#[derive(Clone, Copy)]
pub struct ArgRef<'t>(pub(super) ArgKind<'t>);

#[derive(Clone, Copy)]
pub(super) enum ArgKind<'t> {
    Tensor(&'t RawTensor),
    Scalar(Scalar),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar {
    F32(f32),
    I32(i32),
}

impl Scalar {
    /// Whether products with it keep their order, and neither vanish nor overflow where those with one do not by far.
    pub fn is_ordinary_and_positive(self) -> bool {
        let ordinary = 2.0f32.powi(-40)..=2.0f32.powi(40);
        matches!(self, Scalar::F32(value) if ordinary.contains(&value))
    }
}

impl<'t> ArgRef<'t> {
    pub fn input<T: Element, S: Shape>(tensor: &'t Tensor<T, S>) -> ArgRef<'t> {
        ArgRef(ArgKind::Tensor(tensor.raw()))
    }

    pub fn output<T: Element, S: Shape>(tensor: &'t mut Tensor<T, S>) -> ArgRef<'t> {
        ArgRef(ArgKind::Tensor(tensor.raw()))
    }

    pub fn f32(value: f32) -> ArgRef<'t> {
        ArgRef(ArgKind::Scalar(Scalar::F32(value)))
    }

    pub fn i32(value: i32) -> ArgRef<'t> {
        ArgRef(ArgKind::Scalar(Scalar::I32(value)))
    }
}

/// Up to `N` values on the stack.
#[derive(Clone, Copy)]
pub(super) struct List<T, const N: usize> {
    values: [Option<T>; N],
    len: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    pub fn new() -> Self {
        List { values: [None; N], len: 0 }
    }

    /// Counts what no longer fits too, so that a check of the length finds it.
    pub fn push(&mut self, value: T) {
        if let Some(slot) = self.values.get_mut(self.len) {
            *slot = Some(value);
        }
        self.len += 1;
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, position: usize) -> Option<T> {
        self.values.get(position).copied().flatten()
    }

    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.values.iter().copied().flatten()
    }
}
