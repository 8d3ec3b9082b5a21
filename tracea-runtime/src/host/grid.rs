//! The grid of a kernel: the outermost `tile!`, cut into points that run in parallel; and the loops inside a point.

use std::marker::PhantomData;

use crate::axis::{AxisName, Extent, Integer, Ix};

pub(crate) const MAX_GRID: usize = 8;

/// What a kernel's body is made of, which decides how large its blocks should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It multiplies tiles.
    Products,
    /// Everything else.
    Elements,
}

/// One axis of the grid.
#[derive(Clone, Copy, Debug)]
pub struct GridAxis {
    pub(crate) lo: i32,
    pub(crate) len: usize,
    pub(crate) is_tiled: bool,
}

impl GridAxis {
    pub fn tiled<D>(extent: Extent<D>) -> Self {
        GridAxis { lo: extent.lo, len: extent.len(), is_tiled: true }
    }

    /// `each(..)`: one coordinate a point.
    pub fn each<D>(extent: Extent<D>) -> Self {
        GridAxis { lo: extent.lo, len: extent.len(), is_tiled: false }
    }
}

/// The grid before it is cut.
#[derive(Clone, Debug)]
pub struct GridShape {
    pub(crate) work: Work,
    pub(crate) axes: Vec<GridAxis>,
}

impl GridShape {
    pub fn new(work: Work, axes: &[GridAxis]) -> Self {
        assert!(axes.len() <= MAX_GRID, "a grid of more axes than a kernel has");
        GridShape { work, axes: axes.to_vec() }
    }
}

/// The grid cut into points.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    axes: Vec<GridAxis>,
    blocks: Vec<usize>,
    /// Elements of a block of the loops inside a point.
    inner: usize,
}

impl Grid {
    pub(crate) fn new(axes: Vec<GridAxis>, blocks: Vec<usize>, inner: usize) -> Self {
        debug_assert!(axes.len() == blocks.len() && blocks.iter().all(|&block| block > 0) && inner > 0);
        Grid { axes, blocks, inner }
    }

    /// Blocks along each axis.
    pub(crate) fn counts(&self) -> Vec<usize> {
        self.axes.iter().zip(&self.blocks).map(|(axis, &block)| axis.len.div_ceil(block)).collect()
    }

    pub(crate) fn points(&self) -> usize {
        self.counts().iter().product()
    }

    /// The point of that number, the last axis fastest.
    pub(crate) fn point(&self, mut number: usize) -> GridPoint {
        let mut ranges = [(0, 0); MAX_GRID];
        let counts = self.counts();
        for axis in (0..self.axes.len()).rev() {
            let (GridAxis { lo, len, .. }, block) = (self.axes[axis], self.blocks[axis]);
            let start = number % counts[axis] * block;
            let end = (start + block).min(len);
            // An extent's bounds are i32s, and so is everything between them.
            ranges[axis] = (lo + start as i32, lo + end as i32);
            number /= counts[axis];
        }
        GridPoint { ranges, inner: self.inner }
    }
}

/// One point of the grid: what one call of a kernel's body works on.
#[derive(Clone, Debug)]
pub struct GridPoint {
    ranges: [(i32, i32); MAX_GRID],
    inner: usize,
}

impl GridPoint {
    /// The block of the grid's axis `axis`, over the extent that the grid was given for it.
    pub fn tile<A: AxisName, D>(&self, axis: usize, extent: Extent<D>) -> Ix<A, D> {
        let (start, end) = self.ranges[axis];
        extent.ix(start, end)
    }

    /// The coordinate of an `each` axis.
    pub fn each<D>(&self, axis: usize, _: Extent<D>) -> i32 {
        self.ranges[axis].0
    }
}

/// The blocks of a loop inside a point.
pub fn tiles<A: AxisName, D>(point: &GridPoint, extent: Extent<D>) -> Tiles<A, D> {
    Tiles { extent, next: extent.lo, block: point.inner, name: PhantomData }
}

/// The coordinates of a scalar loop.
pub fn each<D>(extent: Extent<D>) -> std::ops::Range<i32> {
    extent.lo..extent.hi.max(extent.lo)
}

/// Blocks along an extent, first to last.
pub struct Tiles<A, D> {
    extent: Extent<D>,
    next: i32,
    block: usize,
    name: PhantomData<fn() -> A>,
}

impl<A: AxisName, D> Iterator for Tiles<A, D> {
    type Item = Ix<A, D>;

    fn next(&mut self) -> Option<Ix<A, D>> {
        if self.next >= self.extent.hi {
            return None;
        }
        let start = self.next;
        let end = (i64::from(start) + self.block as i64).min(i64::from(self.extent.hi)) as i32;
        self.next = end;
        Some(self.extent.ix(start, end))
    }
}

/// An extent's size, for the expansion's own arithmetic.
impl<D> From<Extent<D>> for i32 {
    fn from(extent: Extent<D>) -> i32 {
        extent.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_cover_the_grid_once() {
        let extent = |size| Extent::<()>::new(size);
        let axes = vec![GridAxis::tiled(extent(10)), GridAxis::each(extent(3)), GridAxis::tiled(extent(7).from(2))];
        let grid = Grid::new(axes, vec![4, 1, 3], 5);
        assert_eq!(grid.counts(), [3, 3, 2]);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..grid.points() {
            let [(i0, i1), (b, _), (j0, j1), ..] = grid.point(number).ranges;
            for i in i0..i1 {
                for j in j0..j1 {
                    assert!(seen.insert((i, b, j)));
                }
            }
        }
        assert_eq!(seen.len(), 10 * 3 * 5);
        assert!(seen.iter().all(|&(_, _, j)| (2..7).contains(&j)));
    }

    #[test]
    fn nothing_has_no_points() {
        let axes = vec![GridAxis::tiled(Extent::<()>::new(0)), GridAxis::tiled(Extent::<()>::new(5))];
        assert_eq!(Grid::new(axes, vec![1, 2], 1).points(), 0);
    }
}
