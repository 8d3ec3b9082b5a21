//! Axes of a tensor that its rows, or its planes, run over, as `device/outer_axes.cuh` takes them.

use super::params::FastDiv;
use crate::tensor::MAX_RANK;

const MOST: usize = MAX_RANK - 1;

/// From the innermost, those that lie evenly as one: all sizes but the last one's, and strides in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OuterAxes {
    count: u32,
    sizes: [FastDiv; MOST - 1],
    strides: [i64; MOST],
}

const _: () = assert!(size_of::<OuterAxes>() == 96, "as the header lays them out");

impl OuterAxes {
    /// Sizes, and strides in elements, from the outermost; axes beyond those that a tensor has are left out.
    pub fn of(axes: impl DoubleEndedIterator<Item = (usize, usize)>, element_bytes: usize) -> OuterAxes {
        let (merged, count) = merged(axes);
        let mut all = OuterAxes { count: count.max(1) as u32, ..OuterAxes::default() };
        for (slot, (size, _)) in all.sizes.iter_mut().zip(merged) {
            *slot = FastDiv::new(size as u32);
        }
        for (slot, (_, stride)) in all.strides.iter_mut().zip(merged) {
            *slot = (stride * element_bytes) as i64;
        }
        all
    }

    /// What `offset` of the header does.
    #[cfg(test)]
    pub fn offset(&self, mut index: u32) -> u64 {
        let last = self.count as usize - 1;
        let mut offset = 0;
        for axis in 0..last {
            offset += u64::from(index % self.sizes[axis].divisor) * self.strides[axis] as u64;
            index /= self.sizes[axis].divisor;
        }
        offset + u64::from(index) * self.strides[last] as u64
    }
}

fn merged(axes: impl DoubleEndedIterator<Item = (usize, usize)>) -> ([(usize, usize); MOST], usize) {
    let (mut merged, mut count) = ([(1, 0); MOST], 0usize);
    for (size, stride) in axes.rev().filter(|(size, _)| *size != 1) {
        match count.checked_sub(1).map(|last| &mut merged[last]) {
            Some((inner, step)) if *inner * *step == stride => *inner *= size,
            _ => {
                if let Some(slot) = merged.get_mut(count) {
                    *slot = (size, stride);
                    count += 1;
                }
            }
        }
    }
    (merged, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged_axes(axes: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let (merged, count) = merged(axes.iter().copied());
        merged[..count].to_vec()
    }

    #[test]
    fn axes_that_lie_evenly_are_one() {
        assert_eq!(merged_axes(&[(4, 90), (1, 90), (5, 18), (6, 3)]), [(120, 3)]);
        assert_eq!(merged_axes(&[(4, 3), (5, 72), (6, 12)]), [(30, 12), (4, 3)]);
        assert_eq!(merged_axes(&[]), []);
    }
}
