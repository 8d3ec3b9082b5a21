//! A tile without its type-level axes: elements and a [`Form`].
//!
//! Elements are shared and copied only when written, a load stands on the tensor's own memory where it can, a constant takes no
//! memory, and a product waits, so that `acc += dot(..)` adds into `acc` without a tile in between.

use std::any::{Any, TypeId};
use std::cell::OnceCell;
use std::rc::Rc;

use super::form::Form;
use super::matrix::{Accumulator, Matrix};
use crate::element::Value;

pub(crate) struct Raw<T: Value> {
    pub(crate) data: Data<T>,
    pub(crate) form: Form,
}

pub(crate) enum Data<T: Value> {
    /// One value everywhere; the form's strides do not count.
    Uniform(T),
    Owned(Rc<Vec<T>>),
    /// A tensor's memory, which outlives the kernel's run and is not written during it.
    Borrowed(*const T),
    /// Row-major once it is there.
    Waiting(Rc<Waiting<T>>),
}

/// A product that has not been computed.
pub(crate) struct Waiting<T> {
    product: Box<dyn AddInto<T>>,
    done: OnceCell<Rc<Vec<T>>>,
}

/// Something that can be added to an accumulator.
pub(crate) trait AddInto<T> {
    fn add_into(&self, into: &mut Accumulator<T>);
}

impl<T: Value> Clone for Raw<T> {
    fn clone(&self) -> Self {
        let data = match &self.data {
            Data::Uniform(value) => Data::Uniform(*value),
            Data::Owned(values) => Data::Owned(Rc::clone(values)),
            Data::Borrowed(address) => Data::Borrowed(*address),
            Data::Waiting(product) => Data::Waiting(Rc::clone(product)),
        };
        Raw { data, form: self.form }
    }
}

impl<T: Value> Raw<T> {
    pub(crate) fn uniform(form: Form, value: T) -> Self {
        Raw { data: Data::Uniform(value), form: form.row_major() }
    }

    /// `values` in row-major order.
    pub(crate) fn owned(form: Form, values: Vec<T>) -> Self {
        debug_assert_eq!(form.len(), values.len());
        match values.first() {
            Some(&value) if form.rank == 0 => Raw::uniform(form, value),
            _ => Raw { data: Data::Owned(Rc::new(values)), form: form.row_major() },
        }
    }

    pub(crate) fn waiting(form: Form, product: Box<dyn AddInto<T>>) -> Self {
        Raw { data: Data::Waiting(Rc::new(Waiting { product, done: OnceCell::new() })), form: form.row_major() }
    }

    /// The same with its elements computed.
    pub(crate) fn settled(self) -> Self {
        let Data::Waiting(waiting) = &self.data else { return self };
        let values = waiting.done.get_or_init(|| {
            let mut into = Accumulator::fresh(self.form.sizes[0], self.form.sizes[1]);
            waiting.product.add_into(&mut into);
            Rc::new(into.values)
        });
        let values = Rc::clone(values);
        let form = self.form;
        drop(self);
        Raw { data: Data::Owned(values), form }
    }

    /// The product, where it has not been computed and nobody else waits for it.
    pub(crate) fn as_lone_product(&self) -> Option<&dyn AddInto<T>> {
        match &self.data {
            Data::Waiting(waiting) if Rc::strong_count(waiting) == 1 && waiting.done.get().is_none() => {
                Some(&*waiting.product)
            }
            _ => None,
        }
    }

    /// Where a settled tile's first element lies; valid while `self` stays in place.
    pub(crate) fn address(&self) -> *const T {
        match &self.data {
            Data::Uniform(value) => value,
            Data::Owned(values) => values.as_ptr(),
            Data::Borrowed(address) => *address,
            Data::Waiting(_) => unreachable!("callers settle the tile first"),
        }
    }

    /// Strides along the axes of `out`.
    pub(crate) fn strides_in(&self, out: &Form) -> [usize; 3] {
        match self.data {
            Data::Uniform(_) => [0; 3],
            _ => self.form.strides_in(out),
        }
    }

    /// A settled tile of two axes as a matrix.
    pub(crate) fn matrix(&self) -> Matrix<'_, T> {
        let [row_stride, col_stride, _] = self.strides_in(&self.form);
        // SAFETY: the form describes the elements at the address, and the matrix borrows the tile that keeps them.
        unsafe { Matrix::new(self.address(), self.form.sizes[0], self.form.sizes[1], row_stride, col_stride) }
    }

    /// The elements themselves as the memory of a result of form `out`, where nobody else holds them and they lie right.
    pub(crate) fn take_buffer<V: Value>(&mut self, out: &Form) -> Option<Vec<V>> {
        if TypeId::of::<T>() != TypeId::of::<V>() || !self.form.agrees(out) || !self.form.is_row_major() {
            return None;
        }
        let Data::Owned(values) = &mut self.data else { return None };
        let mut values = std::mem::take(Rc::get_mut(values)?);
        (&mut values as &mut dyn Any).downcast_mut::<Vec<V>>().map(std::mem::take)
    }

    /// The elements in row-major order, to be written to.
    pub(crate) fn into_values(self) -> (Form, Vec<T>) {
        let mut tile = self.settled();
        let form = tile.form.row_major();
        if let Some(values) = tile.take_buffer::<T>(&form) {
            return (form, values);
        }
        let mut values = Vec::with_capacity(form.len());
        if let Data::Uniform(value) = tile.data {
            values.resize(form.len(), value);
            return (form, values);
        }
        let (sizes, [s0, s1, s2]) = tile.form.innermost_last();
        let address = tile.address();
        for p0 in 0..sizes[0] {
            for p1 in 0..sizes[1] {
                // SAFETY: positions below the sizes lie inside the elements that the form describes.
                values.extend((0..sizes[2]).map(|p2| unsafe { *address.add(p0 * s0 + p1 * s1 + p2 * s2) }));
            }
        }
        (form, values)
    }
}
