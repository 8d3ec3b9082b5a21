//! The same memory under another shape: no copy, only sizes and strides.

use super::layout::Layout;
use super::{Tensor, TensorMut, TensorRef, check_shape};
use crate::dim::{Dim, IntoShape, Shape};
use crate::element::Element;
use crate::error::{Error, Result};
use std::ops::Range;

/// A shape with its last two axes swapped.
pub trait Transpose: Shape {
    type Transposed: Shape;
}

macro_rules! transposes {
    ($(($($outer:ident),*))*) => {$(
        impl<$($outer: Dim,)* Y: Dim, Z: Dim> Transpose for ($($outer,)* Y, Z) {
            type Transposed = ($($outer,)* Z, Y);
        }
    )*};
}

transposes! { () (A) (A, B) (A, B, C) (A, B, C, D) }

impl<T: Element, S: Transpose> Tensor<T, S> {
    /// Last two axes swapped.
    pub fn transpose(&self) -> TensorRef<'_, T, S::Transposed> {
        TensorRef::new(self.raw().transposed())
    }

    /// Last two axes swapped, for writing.
    pub fn transpose_mut(&mut self) -> TensorMut<'_, T, S::Transposed> {
        TensorMut::new(self.raw().transposed())
    }
}

impl<T: Element, S: Shape> Tensor<T, S> {
    /// Axes in another order: axis `i` of the view is axis `order[i]` of the tensor. `R` is the view's shape.
    pub fn permute<R: Shape>(&self, order: &[usize]) -> Result<TensorRef<'_, T, R>> {
        let layout = self.permuted::<R>(order)?;
        Ok(TensorRef::new(self.raw().view(layout, 0)?))
    }

    pub fn permute_mut<R: Shape>(&mut self, order: &[usize]) -> Result<TensorMut<'_, T, R>> {
        let layout = self.permuted::<R>(order)?;
        Ok(TensorMut::new(self.raw().view(layout, 0)?))
    }

    /// Only `range` along an axis, which must be `Dyn` in the shape's type (see [`Tensor::as_shape`]).
    pub fn narrow(&self, axis: usize, range: Range<usize>) -> Result<TensorRef<'_, T, S>> {
        let (layout, offset) = self.narrowed(axis, range)?;
        Ok(TensorRef::new(self.raw().view(layout, offset)?))
    }

    pub fn narrow_mut(&mut self, axis: usize, range: Range<usize>) -> Result<TensorMut<'_, T, S>> {
        let (layout, offset) = self.narrowed(axis, range)?;
        Ok(TensorMut::new(self.raw().view(layout, offset)?))
    }

    /// Other sizes over the same elements in row-major order; the tensor must be contiguous.
    pub fn reshape<I: IntoShape>(&self, shape: I) -> Result<TensorRef<'_, T, I::Shape>> {
        let layout = self.reshaped(&shape.sizes())?;
        Ok(TensorRef::new(self.raw().view(layout, 0)?))
    }

    pub fn reshape_mut<I: IntoShape>(&mut self, shape: I) -> Result<TensorMut<'_, T, I::Shape>> {
        let layout = self.reshaped(&shape.sizes())?;
        Ok(TensorMut::new(self.raw().view(layout, 0)?))
    }

    fn permuted<R: Shape>(&self, order: &[usize]) -> Result<Layout> {
        let layout = self.raw().layout().permuted(order)?;
        check_shape::<R>(layout.sizes())?;
        Ok(layout)
    }

    fn narrowed(&self, axis: usize, range: Range<usize>) -> Result<(Layout, usize)> {
        let narrowed = self.raw().layout().narrowed(axis, range)?;
        check_shape::<S>(narrowed.0.sizes())?;
        Ok(narrowed)
    }

    fn reshaped(&self, sizes: &[usize]) -> Result<Layout> {
        let layout = Layout::contiguous(sizes)?;
        if layout.elements() != self.len() {
            return Err(Error::Shape(format!(
                "sizes {:?} cannot become {sizes:?} -- keep the number of elements",
                self.sizes()
            )));
        }
        if !self.is_contiguous() {
            return Err(Error::Shape(
                "a strided tensor has no other shape -- copy it with `to_contiguous()` first".into(),
            ));
        }
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use crate::device::Device;
    use crate::dim::{Const, Dyn};

    #[test]
    fn views_follow_the_elements() {
        let device = Device::cpu();
        let host: Vec<i32> = (0..24).collect();
        let mut tensor = device.tensor(&host, (2, 3, Const::<4>)).unwrap();
        let turned = tensor.permute::<(Const<4>, Dyn, Dyn)>(&[2, 0, 1]).unwrap();
        assert_eq!((turned.sizes(), turned.strides()), (&[4, 2, 3][..], &[1, 12, 4][..]));
        assert!(tensor.permute::<(Const<3>, Dyn, Dyn)>(&[2, 0, 1]).is_err());
        assert!(tensor.permute::<(Const<4>, Dyn, Dyn)>(&[2, 2, 1]).is_err());
        assert_eq!(tensor.narrow(1, 1..2).unwrap().to_vec().unwrap(), [4, 5, 6, 7, 16, 17, 18, 19]);
        assert!(tensor.narrow(2, 1..2).unwrap_err().to_string().contains("its type says 4"));
        assert!(tensor.narrow(1, 2..4).is_err());
        let second = tensor.narrow(0, 1..2).unwrap();
        assert_eq!(second.reshape((4, 3)).unwrap().to_vec().unwrap(), (12..24).collect::<Vec<_>>());
        assert!(tensor.transpose().reshape((24,)).is_err());
        assert!(tensor.reshape((5, 5)).is_err());
        tensor.reshape_mut((24,)).unwrap().narrow_mut(0, 0..2).unwrap().fill(9).unwrap();
        assert_eq!(tensor.to_vec().unwrap()[..4], [9, 9, 2, 3]);
    }
}
