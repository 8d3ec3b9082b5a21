//! A tile's axes at run time: which, how long, where they begin, and how the elements lie.

pub const MAX_RANK: usize = 3;

/// Up to three axes, outer first. Positions at and after `rank` have size 1 and stride 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub(crate) rank: usize,
    pub(crate) ids: [u8; MAX_RANK],
    pub(crate) sizes: [usize; MAX_RANK],
    /// In elements.
    pub(crate) strides: [usize; MAX_RANK],
    /// The coordinate of each axis' first element.
    pub(crate) origins: [i32; MAX_RANK],
}

impl Default for Form {
    fn default() -> Self {
        Form { rank: 0, ids: [u8::MAX; 3], sizes: [1; 3], strides: [0; 3], origins: [0; 3] }
    }
}

impl Form {
    /// Adds an axis inside the others and lays the elements out row-major. The types have seen to it that there is room.
    pub(crate) fn push(&mut self, id: u8, size: usize, origin: i32) {
        assert!(self.rank < MAX_RANK, "a tile spans at most three axes");
        for stride in &mut self.strides[..self.rank] {
            *stride *= size;
        }
        self.ids[self.rank] = id;
        self.sizes[self.rank] = size;
        self.strides[self.rank] = 1;
        self.origins[self.rank] = origin;
        self.rank += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.sizes.iter().product()
    }

    pub(crate) fn position(&self, id: u8) -> Option<usize> {
        self.ids[..self.rank].iter().position(|&own| own == id)
    }

    pub(crate) fn is_row_major(&self) -> bool {
        let mut expected = 1;
        (0..self.rank).rev().all(|axis| {
            let fits = self.sizes[axis] == 1 || self.strides[axis] == expected;
            expected *= self.sizes[axis];
            fits
        })
    }

    pub(crate) fn row_major(&self) -> Form {
        let mut form = Form::default();
        for axis in 0..self.rank {
            form.push(self.ids[axis], self.sizes[axis], self.origins[axis]);
        }
        form
    }

    /// The same axes in the same order with the same sizes.
    pub(crate) fn agrees(&self, other: &Form) -> bool {
        self.rank == other.rank && self.ids == other.ids && self.sizes == other.sizes
    }

    pub(crate) fn transposed(mut self) -> Form {
        self.ids.swap(0, 1);
        self.sizes.swap(0, 1);
        self.strides.swap(0, 1);
        self.origins.swap(0, 1);
        self
    }

    pub(crate) fn without(&self, axis: usize) -> Form {
        let mut form = Form::default();
        for kept in (0..self.rank).filter(|&kept| kept != axis) {
            form.push(self.ids[kept], self.sizes[kept], self.origins[kept]);
        }
        form
    }

    /// The axes of an operator's result, row-major: what [`Union`](crate::axis::Union) says of types. An axis has one size
    /// in both operands; the smaller one keeps every access inside should a caller have mixed blocks.
    pub(crate) fn union(&self, other: &Form) -> Form {
        let covered = self.ids[..self.rank].iter().all(|&id| other.position(id).is_some());
        let declared_later = self.rank == 1 && other.rank == 1 && self.ids[0] > other.ids[0];
        let (first, second) = if covered || declared_later { (other, self) } else { (self, other) };
        let mut form = Form::default();
        for axis in 0..first.rank {
            let size = match second.position(first.ids[axis]) {
                Some(same) => first.sizes[axis].min(second.sizes[same]),
                None => first.sizes[axis],
            };
            form.push(first.ids[axis], size, first.origins[axis]);
        }
        for axis in (0..second.rank).filter(|&axis| first.position(second.ids[axis]).is_none()) {
            form.push(second.ids[axis], second.sizes[axis], second.origins[axis]);
        }
        form
    }

    /// Sizes and strides with the innermost axis at the end and axes of size 1 before the outermost.
    pub(crate) fn innermost_last(&self) -> ([usize; MAX_RANK], [usize; MAX_RANK]) {
        let (mut sizes, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        let skipped = MAX_RANK - self.rank;
        sizes[skipped..].copy_from_slice(&self.sizes[..self.rank]);
        strides[skipped..].copy_from_slice(&self.strides[..self.rank]);
        (sizes, strides)
    }

    /// This tile's strides along the axes of `out`: 0 where it is broadcast.
    pub(crate) fn strides_in(&self, out: &Form) -> [usize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        for (axis, stride) in strides.iter_mut().enumerate().take(out.rank) {
            if let Some(own) = self.position(out.ids[axis]) {
                *stride = self.strides[own];
            }
        }
        strides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(axes: &[(u8, usize)]) -> Form {
        let mut form = Form::default();
        axes.iter().for_each(|&(id, size)| form.push(id, size, 0));
        form
    }

    #[test]
    fn unions() {
        let (i, j, ij, ji) = (form(&[(0, 2)]), form(&[(1, 3)]), form(&[(0, 2), (1, 3)]), form(&[(1, 3), (0, 2)]));
        assert_eq!(i.union(&j), ij);
        assert_eq!(j.union(&i), ij);
        assert_eq!(j.union(&ij), ij);
        assert_eq!(ij.union(&j), ij);
        assert_eq!(ij.union(&ji), ji);
        assert_eq!(Form::default().union(&i), i);
        assert_eq!(j.strides_in(&ij), [0, 1, 0]);
        assert_eq!(ij.transposed().strides_in(&ij), [3, 1, 0]);
    }

    #[test]
    fn layouts() {
        let f = form(&[(0, 2), (1, 3), (2, 5)]);
        assert_eq!(f.strides, [15, 5, 1]);
        assert!(f.is_row_major() && !f.transposed().is_row_major());
        assert_eq!(f.without(1), form(&[(0, 2), (2, 5)]));
        assert_eq!(form(&[(0, 0), (1, 4)]).len(), 0);
    }
}
