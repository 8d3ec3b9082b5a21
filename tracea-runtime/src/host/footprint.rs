//! Where a tile's elements lie in a tensor: the index arithmetic of a load or a store.

use crate::axis::Slot;
use crate::tile::Form;

/// A tile's form, and for each of its axes the offsets into the tensor along it.
pub(crate) struct Footprint {
    pub(crate) form: Form,
    /// The tensor's offset at the tile's first element; `None` where an integer index lies outside.
    pub(crate) base: Option<usize>,
    lanes: [Lane; 3],
}

/// Offsets along one axis of a tile.
#[derive(Clone, Debug)]
pub(crate) enum Lane {
    /// Evenly spaced, all inside.
    Even(usize),
    /// One by one; `None` is outside the tensor.
    Each(Vec<Option<usize>>),
}

impl Lane {
    #[inline(always)]
    pub(crate) fn at(&self, position: usize) -> Option<usize> {
        match self {
            Lane::Even(stride) => Some(position * stride),
            Lane::Each(offsets) => offsets[position],
        }
    }

    fn plus(&self, other: &Lane, len: usize) -> Lane {
        match (self, other) {
            (Lane::Even(a), Lane::Even(b)) => Lane::Even(a + b),
            _ => Lane::Each((0..len).map(|p| Some(self.at(p)? + other.at(p)?)).collect()),
        }
    }
}

impl Footprint {
    pub(crate) fn new(slots: &[Slot], sizes: &[usize], strides: &[usize]) -> Self {
        let mut footprint = Footprint { form: Form::default(), base: Some(0), lanes: [const { Lane::Even(0) }; 3] };
        for ((slot, &size), &stride) in slots.iter().zip(sizes).zip(strides) {
            let inside = |coord: i64| usize::try_from(coord).ok().filter(|&coord| coord < size);
            match slot {
                Slot::Point(coord) => {
                    let offset = inside(i64::from(*coord)).map(|coord| coord * stride);
                    footprint.base = footprint.base.zip(offset).map(|(base, offset)| base + offset);
                }
                Slot::Span { id, start, len } => {
                    let coords = (0..*len).map(|p| inside(i64::from(*start) + p as i64));
                    footprint.join(*id, *start, *len, coords, stride);
                }
                Slot::Map { id, origin, coords } => {
                    let coords = coords.iter().map(|&coord| inside(i64::from(coord)));
                    footprint.join(*id, *origin, coords.len(), coords, stride);
                }
                Slot::Plane { ids, origins, sizes, .. } => {
                    for axis in 0..2 {
                        footprint.join(ids[axis], origins[axis], sizes[axis], (0..sizes[axis]).map(|_| Some(0)), 0);
                    }
                }
            }
        }
        footprint
    }

    /// Adds a tensor axis' coordinates along the tile axis `id`.
    fn join(
        &mut self,
        id: u8,
        origin: i32,
        len: usize,
        coords: impl Iterator<Item = Option<usize>> + Clone,
        stride: usize,
    ) {
        let lane = match even(coords.clone()) {
            Some((first, step)) => {
                self.base = self.base.map(|base| base + first * stride);
                Lane::Even(step * stride)
            }
            None => Lane::Each(coords.map(|coord| Some(coord? * stride)).collect()),
        };
        match self.form.position(id) {
            Some(axis) => self.lanes[axis] = self.lanes[axis].plus(&lane, len.min(self.form.sizes[axis])),
            None => {
                self.form.push(id, len, origin);
                self.lanes[self.form.rank - 1] = lane;
            }
        }
    }

    /// The strides of the tile's axes, where the tile lies evenly inside the tensor.
    pub(crate) fn strides(&self) -> Option<[usize; 3]> {
        let mut strides = [0; 3];
        for (stride, lane) in strides.iter_mut().zip(&self.lanes) {
            match lane {
                Lane::Even(own) => *stride = *own,
                Lane::Each(_) => return None,
            }
        }
        Some(strides)
    }

    /// Sizes and lanes with the innermost axis last.
    pub(crate) fn innermost_last(&self) -> ([usize; 3], [&Lane; 3]) {
        const ALONE: &Lane = &Lane::Even(0);
        let (mut sizes, mut lanes) = ([1; 3], [ALONE; 3]);
        let skipped = 3 - self.form.rank;
        for axis in 0..self.form.rank {
            sizes[skipped + axis] = self.form.sizes[axis];
            lanes[skipped + axis] = &self.lanes[axis];
        }
        (sizes, lanes)
    }

    /// The tensor's index of the element at a position of the tile (innermost last), which is inside.
    pub(crate) fn index(&self, slots: &[Slot], position: [usize; 3]) -> Vec<usize> {
        self.coordinates(slots, position).into_iter().map(|at| at.max(0) as usize).collect()
    }

    fn coordinates(&self, slots: &[Slot], position: [usize; 3]) -> Vec<i32> {
        let skipped = 3 - self.form.rank;
        let along = |id: u8| self.form.position(id).map_or(0, |axis| position[skipped + axis]);
        let coord = |slot: &Slot| match slot {
            Slot::Point(coord) => *coord,
            Slot::Span { id, start, .. } => start + along(*id) as i32,
            Slot::Map { id, coords, .. } => coords[along(*id)],
            Slot::Plane { ids, sizes, coords, .. } => coords[along(ids[0]) * sizes[1] + along(ids[1])],
        };
        slots.iter().map(coord).collect()
    }

    /// Offsets of the elements one by one, row-major, where no lanes tell them; `None` is outside the tensor.
    pub(crate) fn one_by_one(&self, slots: &[Slot], sizes: &[usize], strides: &[usize]) -> Vec<Option<usize>> {
        let (rows, _) = self.innermost_last();
        let mut offsets = Vec::with_capacity(self.form.len());
        for p0 in 0..rows[0] {
            for p1 in 0..rows[1] {
                for p2 in 0..rows[2] {
                    let at = self.coordinates(slots, [p0, p1, p2]);
                    let parts = at.iter().zip(sizes).zip(strides).map(|((&at, &size), &stride)| {
                        usize::try_from(at).ok().filter(|&at| at < size).map(|at| at * stride)
                    });
                    offsets.push(parts.sum());
                }
            }
        }
        offsets
    }
}

/// First coordinate and step, where all are inside and evenly spaced upwards.
fn even(coords: impl Iterator<Item = Option<usize>> + Clone) -> Option<(usize, usize)> {
    let mut all = coords.clone();
    let Some(first) = all.next() else { return Some((0, 0)) };
    let first = first?;
    let step = match all.next() {
        None => return Some((first, 0)),
        Some(second) => second?.checked_sub(first)?,
    };
    let even = coords.enumerate().all(|(p, coord)| coord == Some(first + p * step));
    even.then_some((first, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_even() {
        let slots = [Slot::Point(1), Slot::Span { id: 0, start: 2, len: 3 }, Slot::Span { id: 1, start: 0, len: 4 }];
        let f = Footprint::new(&slots, &[2, 5, 4], &[20, 4, 1]);
        assert_eq!((f.base, f.strides()), (Some(28), Some([4, 1, 0])));
        assert_eq!(f.index(&slots, [0, 1, 3]), [1, 3, 3]);
    }

    #[test]
    fn outside_is_none() {
        let slots = [Slot::Map { id: 0, origin: 0, coords: vec![-1, 0, 1, 2] }];
        let f = Footprint::new(&slots, &[2], &[3]);
        let (_, lanes) = f.innermost_last();
        assert_eq!((0..4).map(|p| lanes[2].at(p)).collect::<Vec<_>>(), [None, Some(0), Some(3), None]);
        assert_eq!(Footprint::new(&[Slot::Point(2)], &[2], &[1]).base, None);
        assert_eq!(Footprint::new(&[Slot::Point(-1)], &[2], &[1]).base, None);
    }

    #[test]
    fn diagonals_add_strides() {
        let span = Slot::Span { id: 0, start: 1, len: 2 };
        let f = Footprint::new(&[span.clone(), span], &[3, 3], &[3, 1]);
        assert_eq!((f.form.rank, f.base, f.strides()), (1, Some(4), Some([4, 0, 0])));
    }

    #[test]
    fn diagonals_are_told_one_by_one() {
        let plane = Slot::Plane { ids: [0, 1], origins: [4, 0], sizes: [2, 3], coords: vec![2, 1, 0, 3, 2, -1] };
        let slots = [Slot::Point(1), plane];
        let f = Footprint::new(&slots, &[2, 3], &[3, 1]);
        assert_eq!((f.form.rank, f.form.len(), f.form.origins[0]), (2, 6, 4));
        assert_eq!(f.one_by_one(&slots, &[2, 3], &[3, 1]), [Some(5), Some(4), Some(3), None, Some(5), None]);
        assert_eq!(f.index(&slots, [0, 0, 1]), [1, 1]);
    }
}
