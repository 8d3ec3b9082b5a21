//! Windows of tensors in a launch's own numbers: whether TMA's im2col mode can walk them, and between which corners (CUDA driver API,
//! `cuTensorMapEncodeIm2col`; PTX ISA, "im2col mode").
//!
//! ```text
//! lower    lower + step    lower + 2 * step    …    lower + (count - 1) * step = size - 1 + upper
//! ```
//! is where a line of rows lies along an axis of the tensor at offset 0. The instruction adds an offset to all of them, so that one
//! map serves every place in the window.

use super::check::{Scalars, Sizes, Tensors};
use super::tensor_map::fetchable;
use crate::plan::{Number, Window, WindowAxis};

const MOST_WINDOWS: usize = 8;
/// Axes of a tensor between the first and the last.
const MOST_AXES: usize = 3;
const MOST_STEP: i64 = 8;

/// A launch's windows, by position in the variant's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    described: &'static [Window],
    corners: [Option<Corners>; MOST_WINDOWS],
}

/// What a tensor map says of a window, along the tensor's axes but the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corners {
    axes: [AxisCorners; MOST_AXES],
    count: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AxisCorners {
    pub lower: i32,
    /// Counted from the last element.
    pub upper: i32,
    pub step: u32,
}

impl Windows {
    pub(super) fn of(described: &'static [Window], sizes: &Sizes, tensors: &Tensors<'_>, scalars: &Scalars) -> Windows {
        let mut corners = [None; MOST_WINDOWS];
        for (window, slot) in described.iter().zip(&mut corners) {
            let tensor = tensors.get(window.tensor).filter(|tensor| fetchable(tensor));
            *slot = tensor.and_then(|tensor| Corners::of(window, tensor.layout().sizes(), sizes, scalars));
        }
        Windows { described, corners }
    }

    /// The window and its corners, where TMA can walk it.
    pub(super) fn get(&self, position: usize) -> Option<(&'static Window, &Corners)> {
        Some((self.described.get(position)?, self.corners.get(position)?.as_ref()?))
    }

    /// Whether TMA can walk all windows of a tensor.
    pub(super) fn fit(&self, tensor: usize) -> bool {
        let mut positions = (0..self.described.len()).filter(|&position| self.described[position].tensor == tensor);
        positions.all(|position| self.get(position).is_some())
    }
}

impl Corners {
    /// `extents` are those of the tensor's axes.
    fn of(window: &Window, extents: &[usize], sizes: &Sizes, scalars: &Scalars) -> Option<Corners> {
        let mut corners = Corners { axes: Default::default(), count: window.axes.len() };
        if extents.len() != window.axes.len() + 2 {
            return None;
        }
        // Fewer bits are left for each axis where there are more of them.
        let (least, most_reach) = match window.axes.len() {
            1 => (-(1 << 15), (1 << 16) - 1),
            2 => (-(1 << 7), (1 << 8) - 1),
            3 => (-(1 << 4), (1 << 5) - 1),
            _ => return None,
        };
        for (at, (axis, slot)) in window.axes.iter().zip(&mut corners.axes).enumerate() {
            let (extent, value) = (*extents.get(at + 1)? as i64, |number: &Number| number.evaluate(sizes, scalars));
            let WindowAxis { count, step, corner, reach } = axis;
            let (step, lower, reach) = (value(step)?, value(corner)?, value(reach)?);
            let last = (sizes.get(*count) as i64).checked_sub(1)?.checked_mul(step)?.checked_add(lower)?;
            let upper = last.checked_sub(extent.checked_sub(1)?)?;
            let within = |corner| (least..-least).contains(&corner);
            if !(1..=MOST_STEP).contains(&step)
                || !(0..=most_reach).contains(&reach)
                || !within(lower)
                || !within(upper)
            {
                return None;
            }
            *slot = AxisCorners { lower: lower as i32, upper: upper as i32, step: step as u32 };
        }
        Some(corners)
    }

    pub fn axes(&self) -> impl DoubleEndedIterator<Item = &AxisCorners> {
        self.axes.iter().take(self.count)
    }

    pub fn lower(&self, axis: usize) -> Option<i32> {
        self.axes().nth(axis).map(|axis| axis.lower)
    }
}

#[cfg(test)]
mod tests {
    use super::super::arg::Scalar;
    use super::*;
    use crate::plan::IntOp;

    const N: usize = 2;

    fn of(op: IntOp, a: Number, b: Number) -> Number {
        Number::Binary(op, Box::leak(Box::new(a)), Box::leak(Box::new(b)))
    }

    /// Images whose rows lie at `part * stride + tap * dilation - pad`, as lowering describes it. Dims are N, then each axis' count,
    /// then each axis' taps.
    struct Convolution {
        extents: Vec<usize>,
        counts: Vec<usize>,
        taps: Vec<usize>,
        stride: i32,
        pad: i32,
        dilation: i32,
    }

    impl Convolution {
        /// With as many rows as have their window within the padded image.
        fn new(extents: &[usize], taps: &[usize], stride: i32, pad: i32, dilation: i32) -> Convolution {
            let padded = |extent: usize| extent as i32 + 2 * pad;
            let count = |(extent, taps): (&usize, &usize)| {
                (padded(*extent) - (*taps as i32 - 1) * dilation.abs() - 1) / stride + 1
            };
            let counts = extents.iter().zip(taps).map(|axis| count(axis) as usize).collect();
            Convolution { extents: extents.to_vec(), counts, taps: taps.to_vec(), stride, pad, dilation }
        }

        fn window(&self) -> Window {
            let (stride, pad, dilation) = (Number::Scalar(0), Number::Scalar(1), Number::Scalar(2));
            let axes = (1..=self.extents.len()).map(|count| {
                let taps = Number::Dim(count + self.extents.len());
                let far = of(IntOp::Mul, dilation, of(IntOp::Sub, taps, Number::Const(1)));
                let (low, high) = (of(IntOp::Min, far, Number::Const(0)), of(IntOp::Max, far, Number::Const(0)));
                let origin = of(IntOp::Sub, Number::Const(0), pad);
                let (corner, reach) = (of(IntOp::Add, origin, low), of(IntOp::Sub, high, low));
                WindowAxis { count, step: stride, corner, reach }
            });
            Window { tensor: 0, rows: 128, channels: 64, narrow: false, axes: axes.collect::<Vec<_>>().leak() }
        }

        fn corners(&self) -> Option<Corners> {
            let sizes = [&[N], self.counts.as_slice(), &self.taps].concat();
            let mut scalars = Scalars::new();
            [self.stride, self.pad, self.dilation].into_iter().for_each(|value| scalars.push(Scalar::I32(value)));
            let extents = [&[N], self.extents.as_slice(), &[64]].concat();
            Corners::of(&self.window(), &extents, &Sizes::of(&sizes), &scalars)
        }

        /// Lower and upper corner and step of each axis, checked against the rows that the kernel means.
        fn checked(&self) -> Option<Vec<(i32, i32, u32)>> {
            let corners = self.corners()?;
            for (at, axis) in corners.axes().enumerate() {
                let end = self.extents[at] as i32 - 1 + axis.upper;
                let walked: Vec<i32> = (axis.lower..=end).step_by(axis.step as usize).collect();
                for tap in 0..self.taps[at] as i32 {
                    let offset = tap * self.dilation - self.pad - axis.lower;
                    assert!((0..1 << 16).contains(&offset), "an offset is not negative: {offset}");
                    let meant =
                        (0..self.counts[at] as i32).map(|part| part * self.stride + tap * self.dilation - self.pad);
                    assert!(meant.eq(walked.iter().map(|first| first + offset)), "axis {at}, tap {tap}: {walked:?}");
                }
            }
            Some(corners.axes().map(|axis| (axis.lower, axis.upper, axis.step)).collect())
        }
    }

    #[test]
    fn corners_enclose_the_rows_of_every_tap() {
        let checked = |extents: &[usize], taps: &[usize], stride, pad, dilation| {
            Convolution::new(extents, taps, stride, pad, dilation).checked()
        };
        assert_eq!(checked(&[56, 56], &[3, 3], 1, 1, 1), Some(vec![(-1, -1, 1); 2]));
        assert_eq!(checked(&[56, 56], &[1, 1], 1, 0, 1), Some(vec![(0, 0, 1); 2]));
        assert_eq!(checked(&[14, 9], &[3, 1], 1, 0, 1), Some(vec![(0, -2, 1), (0, 0, 1)]));
        assert_eq!(checked(&[224, 224], &[7, 7], 2, 3, 1), Some(vec![(-3, -4, 2); 2]));
        assert_eq!(checked(&[15, 224], &[7, 7], 2, 3, 1), Some(vec![(-3, -3, 2), (-3, -4, 2)]));
        assert_eq!(checked(&[20, 31], &[3, 5], 1, 3, 2), Some(vec![(-3, -1, 1), (-3, -5, 1)]));
        assert_eq!(checked(&[20, 20], &[3, 3], 1, -2, 1), Some(vec![(2, -4, 1); 2]));
        // Windows that reach back begin where their last tap does.
        let back = Convolution { counts: vec![20, 20], ..Convolution::new(&[20, 20], &[3, 3], 1, -2, -2) };
        assert_eq!(back.checked(), Some(vec![(-2, -2, 1); 2]));
        assert_eq!(checked(&[1000], &[9], 4, 400, 100), Some(vec![(-400, -403, 4)]));
        assert_eq!(checked(&[8, 9, 10], &[3, 3, 3], 1, 1, 1), Some(vec![(-1, -1, 1); 3]));
    }

    #[test]
    fn numbers_beyond_a_tensor_map_are_refused() {
        let refused = |extents: &[usize], taps: &[usize], stride, pad, dilation| {
            Convolution::new(extents, taps, stride, pad, dilation).corners().is_none()
        };
        assert!(!refused(&[300, 300], &[3, 3], 1, 128, 64));
        assert!(refused(&[300, 300], &[3, 3], 1, 129, 64), "lower corner");
        assert!(refused(&[600, 600], &[2, 2], 1, 0, 129), "upper corner");
        assert!(refused(&[600, 600], &[3, 3], 1, 128, 128), "reach");
        assert!(refused(&[56, 56], &[3, 3], 9, 1, 1), "step");
        assert!(refused(&[8, 8, 8], &[3, 3, 3], 1, 17, 1), "corner of three axes");
        assert!(refused(&[64, 64, 64], &[3, 3, 3], 1, 16, 16), "reach of three axes");
        let standing = Convolution { stride: 0, ..Convolution::new(&[8, 8], &[3, 3], 1, 1, 1) };
        assert!(standing.corners().is_none(), "step of 0");
        let huge = Convolution { counts: vec![usize::MAX >> 1, 8], ..Convolution::new(&[8, 8], &[3, 3], 8, 1, 1) };
        assert!(huge.corners().is_none(), "overflow");
        let far = Convolution { dilation: i32::MIN, ..Convolution::new(&[8, 8], &[3, 3], 1, 1, 1) };
        assert!(far.corners().is_none(), "reach far back");
    }
}
