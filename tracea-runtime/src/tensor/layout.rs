//! Sizes and strides of a tensor, in elements, without heap memory.

use crate::error::{Error, Result};

pub const MAX_RANK: usize = 6;

/// Where the elements of a tensor lie behind element `[0, …, 0]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    rank: usize,
    sizes: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
}

/// Whether each axis of several elements steps over all that those before it reach, given as sizes and strides.
fn each_steps_over(axes: impl Iterator<Item = (usize, usize)>) -> bool {
    let mut reach = 0;
    axes.filter(|(size, _)| *size > 1).all(|(size, stride)| {
        let clear = stride > reach;
        reach += stride * (size - 1);
        clear
    })
}

impl Layout {
    /// Row-major.
    pub fn contiguous(sizes: &[usize]) -> Result<Layout> {
        let mut strides = [1usize; MAX_RANK];
        let mut step = 1usize;
        for (axis, &size) in sizes.iter().enumerate().rev() {
            if let Some(stride) = strides.get_mut(axis) {
                *stride = step;
            }
            // A zero size must not hide an overflow of the others, which strides would still show.
            step = step.checked_mul(size.max(1)).ok_or_else(|| too_large(sizes))?;
        }
        Layout::strided(sizes, &strides[..sizes.len().min(MAX_RANK)])
    }

    /// Fails where the reach or the number of elements does not fit memory.
    pub fn strided(sizes: &[usize], strides: &[usize]) -> Result<Layout> {
        if sizes.len() != strides.len() || sizes.len() > MAX_RANK {
            let (given, strides) = (sizes.len(), strides.len());
            return Err(Error::Shape(format!(
                "{given} sizes came with {strides} strides -- pass one stride a size, at most {MAX_RANK}"
            )));
        }
        let mut layout = Layout { rank: sizes.len(), sizes: [1; MAX_RANK], strides: [0; MAX_RANK] };
        layout.sizes[..sizes.len()].copy_from_slice(sizes);
        layout.strides[..strides.len()].copy_from_slice(strides);
        let reach = layout
            .axes()
            .try_fold(1usize, |reach, (size, stride)| reach.checked_add(stride.checked_mul(size.saturating_sub(1))?));
        let elements = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size.max(1)));
        match (reach, elements) {
            (Some(reach), Some(elements)) if reach.max(elements) <= isize::MAX as usize / 16 => Ok(layout),
            _ => Err(too_large(sizes)),
        }
    }

    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn sizes(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }

    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank]
    }

    /// Sizes padded with 1, strides with 0.
    pub fn padded(&self) -> ([usize; MAX_RANK], [usize; MAX_RANK]) {
        (self.sizes, self.strides)
    }

    fn axes(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.sizes().iter().copied().zip(self.strides().iter().copied())
    }

    pub fn elements(&self) -> usize {
        self.sizes().iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.sizes().contains(&0)
    }

    /// Elements from the first to the last in memory, both counted; 0 without elements.
    pub fn reach(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        1 + self.axes().map(|(size, stride)| (size - 1) * stride).sum::<usize>()
    }

    /// Row-major without gaps; strides of axes of size 1 do not count.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.is_empty()
            || self.axes().rev().all(|(size, stride)| {
                let fits = size == 1 || stride == step;
                step *= size;
                fits
            })
    }

    /// How many of the last axes are row-major without gaps among themselves; strides of axes of size 1 do not count.
    pub fn gapless_axes(&self) -> usize {
        let mut step = 1;
        let fits = |&(size, stride): &(usize, usize)| {
            let fits = size <= 1 || stride == step;
            step *= size;
            fits
        };
        self.axes().rev().take_while(fits).count()
    }

    /// Whether the elements fill their reach: contiguous in some order of the axes.
    pub fn is_dense(&self) -> bool {
        self.elements() == self.reach() && self.is_injective()
    }

    /// Whether no two elements share memory, as far as nested axes show it: each stride, from the smallest up, steps over all that
    /// the smaller ones reach.
    pub fn is_injective(&self) -> bool {
        // Most tensors' axes are in that order.
        if self.is_empty() || each_steps_over(self.axes().rev()) {
            return true;
        }
        let mut axes = [(1, 0); MAX_RANK];
        axes.iter_mut().zip(self.axes()).for_each(|(slot, axis)| *slot = axis);
        axes.sort_unstable_by_key(|&(_, stride)| stride);
        each_steps_over(axes.into_iter())
    }

    /// The stride along the last axis, where it matters.
    pub fn inner_stride(&self) -> usize {
        match self.axes().last() {
            Some((size, stride)) if size > 1 => stride,
            _ => 1,
        }
    }

    /// Exchanges the last two axes.
    pub fn swap_last(&mut self) {
        if self.rank >= 2 {
            self.sizes.swap(self.rank - 2, self.rank - 1);
            self.strides.swap(self.rank - 2, self.rank - 1);
        }
    }

    pub fn permuted(&self, order: &[usize]) -> Result<Layout> {
        let mut seen = [false; MAX_RANK];
        let valid = order.len() == self.rank
            && order.iter().all(|&axis| axis < self.rank && !std::mem::replace(&mut seen[axis], true));
        if !valid {
            let rank = self.rank;
            return Err(Error::Shape(format!(
                "{order:?} does not order the axes of a tensor of rank {rank} -- name each of 0..{rank} once"
            )));
        }
        let mut layout = *self;
        for (to, &from) in order.iter().enumerate() {
            layout.sizes[to] = self.sizes[from];
            layout.strides[to] = self.strides[from];
        }
        Ok(layout)
    }

    /// The layout of `range` along `axis`, and the offset of its first element.
    pub fn narrowed(&self, axis: usize, range: std::ops::Range<usize>) -> Result<(Layout, usize)> {
        let size = self.sizes().get(axis).copied();
        let Some(size) = size.filter(|&size| range.start <= range.end && range.end <= size) else {
            return Err(Error::Shape(format!(
                "{range:?} along axis {axis} is outside a tensor of sizes {:?} -- stay within its size",
                self.sizes()
            )));
        };
        let mut layout = *self;
        layout.sizes[axis] = range.len();
        // An empty range may start at the end, where there is no element.
        let offset = if range.start < size { range.start * self.strides[axis] } else { 0 };
        Ok((layout, offset))
    }

    /// Offsets of all elements in row-major order.
    pub fn offsets(&self) -> impl Iterator<Item = usize> + use<> {
        let layout = *self;
        let mut index = [0usize; MAX_RANK];
        let mut offset = 0usize;
        let mut left = self.elements();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let current = offset;
            for axis in (0..layout.rank).rev() {
                index[axis] += 1;
                offset += layout.strides[axis];
                if index[axis] < layout.sizes[axis] {
                    break;
                }
                offset -= layout.strides[axis] * layout.sizes[axis];
                index[axis] = 0;
            }
            Some(current)
        })
    }
}

impl std::fmt::Debug for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.sizes())?;
        if !self.is_contiguous() {
            write!(f, " strides {:?}", self.strides())?;
        }
        Ok(())
    }
}

fn too_large(sizes: &[usize]) -> Error {
    Error::Shape(format!("a tensor of sizes {sizes:?} is larger than memory can be -- use smaller sizes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(sizes: &[usize], strides: &[usize]) -> Layout {
        Layout::strided(sizes, strides).unwrap()
    }

    #[test]
    fn contiguous_means_row_major_without_gaps() {
        assert!(Layout::contiguous(&[3, 4, 5]).unwrap().is_contiguous());
        assert!(layout(&[3, 1, 5], &[5, 77, 1]).is_contiguous());
        assert!(!layout(&[3, 5], &[6, 1]).is_contiguous());
        assert!(layout(&[0, 5], &[6, 1]).is_contiguous());
        assert!(layout(&[3, 5], &[1, 3]).is_dense());
        assert!(!layout(&[3, 5], &[6, 1]).is_dense());
    }

    #[test]
    fn sizes_beyond_memory_are_errors() {
        assert!(Layout::contiguous(&[usize::MAX, 2]).is_err());
        assert!(Layout::contiguous(&[1 << 40, 1 << 40, 0]).is_err());
        assert!(Layout::contiguous(&[1; 7]).is_err());
        assert!(Layout::strided(&[3], &[usize::MAX]).is_err());
        assert!(Layout::strided(&[1 << 40, 1 << 40], &[0, 0]).is_err());
    }

    #[test]
    fn a_broadcast_or_interleaved_layout_is_not_injective() {
        assert!(!layout(&[4, 5], &[0, 1]).is_injective());
        assert!(!layout(&[4, 5], &[4, 1]).is_injective());
        assert!(layout(&[1, 5], &[0, 1]).is_injective());
        assert!(layout(&[4, 5], &[1, 4]).is_injective());
    }

    #[test]
    fn a_narrowed_layout_starts_at_its_range() {
        let (narrow, offset) = Layout::contiguous(&[4, 6]).unwrap().narrowed(1, 2..5).unwrap();
        assert_eq!((narrow.sizes(), narrow.strides(), offset), (&[4, 3][..], &[6, 1][..], 2));
        assert!(Layout::contiguous(&[4, 6]).unwrap().narrowed(1, 2..7).is_err());
        assert!(Layout::contiguous(&[4, 6]).unwrap().narrowed(2, 0..1).is_err());
    }

    proptest! {
        #[test]
        fn offsets_are_the_dot_products_of_index_and_stride(
            sizes in prop::collection::vec(0usize..4, 1..5),
            strides in prop::collection::vec(0usize..9, 4),
        ) {
            let layout = layout(&sizes, &strides[..sizes.len()]);
            let offsets: Vec<usize> = layout.offsets().collect();
            prop_assert_eq!(offsets.len(), layout.elements());
            for (position, offset) in offsets.iter().enumerate() {
                let (mut rest, mut expected) = (position, 0);
                for axis in (0..sizes.len()).rev() {
                    expected += (rest % sizes[axis]) * strides[axis];
                    rest /= sizes[axis];
                }
                prop_assert_eq!(*offset, expected);
            }
            prop_assert_eq!(layout.reach(), offsets.iter().max().map_or(0, |last| last + 1));
            let mut distinct = offsets.clone();
            distinct.sort_unstable();
            distinct.dedup();
            if layout.is_injective() {
                prop_assert_eq!(distinct.len(), offsets.len());
            }
        }
    }
}
