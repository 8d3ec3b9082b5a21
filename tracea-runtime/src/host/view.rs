//! A tensor as a kernel's body sees it: tiles are loaded from it and stored to it.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

use super::arg::{Access, HostArray, size};
use super::footprint::{Footprint, Lane};
use crate::axis::{Index, Slot, Within};
use crate::element::{Stored, Value};
use crate::tile::Tile;
use crate::tile::raw::{Data, Raw};
use crate::verify::Comparator;

/// A tensor of `T`s with the shape `S`.
///
/// Elements outside the tensor read as 0 and are not written.
pub struct View<'a, T, S> {
    array: HostArray,
    access: Access<'a>,
    types: PhantomData<fn() -> (T, S)>,
}

impl<T, S> fmt::Debug for View<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.array.fmt(f)
    }
}

impl<'a, T: Stored, S> View<'a, T, S> {
    pub(crate) fn new(array: HostArray, access: Access<'a>) -> Self {
        View { array, access, types: PhantomData }
    }

    /// The size of an axis.
    pub fn size(&self, axis: usize) -> i32 {
        size(self.array.sizes[axis])
    }

    fn address(&self) -> *mut T::Storage {
        self.array.address.cast()
    }

    /// The tile at an index.
    pub fn load<I: Index<S>>(&self, index: I) -> Tile<T, I::Axes> {
        let slots = index.slots(self.array.sizes());
        let footprint = Footprint::new(&slots, self.array.sizes(), self.array.strides());
        let form = footprint.form;
        if slots.iter().any(|slot| matches!(slot, Slot::Plane { .. })) {
            let offsets = footprint.one_by_one(&slots, self.array.sizes(), self.array.strides());
            // SAFETY: offsets come from coordinates inside the tensor, whose elements are readable.
            let read = |offset: usize| T::load(unsafe { *self.address().add(offset) });
            let values = offsets.into_iter().map(|offset| offset.map_or(T::ZERO, read)).collect();
            return Tile::new(Raw::owned(form, values));
        }
        let Some(base) = footprint.base else {
            return Tile::new(Raw::uniform(form, T::ZERO));
        };
        let in_place = TypeId::of::<T>() == TypeId::of::<T::Storage>() && matches!(self.access, Access::Read);
        match footprint.strides() {
            Some(strides) if in_place => {
                let address = self.address().wrapping_add(base).cast_const().cast::<T>();
                let form = crate::tile::Form { strides, ..form };
                Tile::new(Raw { data: Data::Borrowed(address), form })
            }
            _ => Tile::new(Raw::owned(form, self.gather(&footprint, base))),
        }
    }

    fn gather(&self, footprint: &Footprint, base: usize) -> Vec<T> {
        let (sizes, [outer, middle, inner]) = footprint.innermost_last();
        let mut values = Vec::with_capacity(footprint.form.len());
        // SAFETY: offsets come from coordinates inside the tensor, whose elements are readable.
        let read = |offset: usize| T::load(unsafe { *self.address().add(offset) });
        for p0 in 0..sizes[0] {
            for p1 in 0..sizes[1] {
                let Some(start) = outer.at(p0).zip(middle.at(p1)).map(|(a, b)| base + a + b) else {
                    values.resize(values.len() + sizes[2], T::ZERO);
                    continue;
                };
                match inner {
                    Lane::Even(1) => {
                        // SAFETY: as above; the row is one piece. Nobody writes it now: an output's tiles belong to one point
                        // of the grid, which is here.
                        let row = unsafe { std::slice::from_raw_parts(self.address().add(start), sizes[2]) };
                        values.extend(row.iter().map(|&x| T::load(x)));
                    }
                    Lane::Even(stride) => values.extend((0..sizes[2]).map(|p| read(start + p * stride))),
                    Lane::Each(offsets) => {
                        values.extend(offsets.iter().map(|offset| offset.map_or(T::ZERO, |o| read(start + o))));
                    }
                }
            }
        }
        values
    }

    /// Writes a tile at an index; a tile of fewer axes repeats along the others.
    pub fn store<I: Index<S>, L: Within<I::Axes>>(&mut self, index: I, tile: Tile<T, L>) {
        let slots = index.slots(self.array.sizes());
        let tile = tile.raw.settled();
        match self.access {
            Access::Write => self.write(&slots, &tile),
            Access::Compare(comparator) => compare(comparator, &slots, &tile),
            Access::Read => unreachable!("the expansion stores to outputs only"),
        }
    }

    fn write(&self, slots: &[Slot], tile: &Raw<T>) {
        let footprint = Footprint::new(slots, self.array.sizes(), self.array.strides());
        let address = self.address();
        each_row(&footprint, tile, |_, target, source, step, len| match target {
            Target::Row(offset) if step == 1 => {
                // SAFETY: the row lies inside the tensor, which is writable, and this point of the grid is the only one that
                // touches it; the tile's elements are its own or another tensor's.
                unsafe {
                    let to = std::slice::from_raw_parts_mut(address.add(offset), len);
                    let from = std::slice::from_raw_parts(source, len);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = from.store());
                }
            }
            target => {
                for p in 0..len {
                    if let Some(offset) = target.at(p) {
                        // SAFETY: as above.
                        unsafe { *address.add(offset) = (*source.add(p * step)).store() };
                    }
                }
            }
        });
    }
}

fn compare<T: Value>(comparator: &Comparator, slots: &[Slot], tile: &Raw<T>) {
    let actual = comparator.actual();
    let footprint = Footprint::new(slots, actual.sizes(), actual.strides());
    let mut tally = comparator.tally();
    each_row(&footprint, tile, |[p0, p1], target, source, step, len| {
        for p2 in 0..len {
            if let Some(offset) = target.at(p2) {
                // SAFETY: `each_row` gives rows of the tile.
                let expected = unsafe { *source.add(p2 * step) };
                tally.compare(offset, expected.to_f64(), || footprint.index(slots, [p0, p1, p2]));
            }
        }
    });
}

/// Where one row of a tile goes.
#[derive(Clone, Copy)]
enum Target<'a> {
    /// Side by side from this offset on.
    Row(usize),
    /// From an offset on, along a lane.
    Lane(usize, &'a Lane),
}

impl Target<'_> {
    #[inline(always)]
    fn at(self, position: usize) -> Option<usize> {
        match self {
            Target::Row(offset) => Some(offset + position),
            Target::Lane(offset, lane) => Some(offset + lane.at(position)?),
        }
    }
}

/// Calls `f` for every row of the footprint that is inside: position, target, the tile's elements for it, their step and count.
fn each_row<T: Value>(
    footprint: &Footprint,
    tile: &Raw<T>,
    mut f: impl FnMut([usize; 2], Target<'_>, *const T, usize, usize),
) {
    let Some(base) = footprint.base else { return };
    let mut form = footprint.form;
    for axis in 0..form.rank {
        // An axis has one size in the index and in the tile; the smaller keeps every access inside should a caller have mixed blocks.
        if let Some(own) = tile.form.position(form.ids[axis]) {
            form.sizes[axis] = form.sizes[axis].min(tile.form.sizes[own]);
        }
    }
    form.strides = tile.strides_in(&form);
    let (sizes, strides) = form.innermost_last();
    let (_, [outer, middle, inner]) = footprint.innermost_last();
    for p0 in 0..sizes[0] {
        for p1 in 0..sizes[1] {
            let Some(start) = outer.at(p0).zip(middle.at(p1)).map(|(a, b)| base + a + b) else { continue };
            let target = if matches!(inner, Lane::Even(1)) { Target::Row(start) } else { Target::Lane(start, inner) };
            f([p0, p1], target, tile.address().wrapping_add(p0 * strides[0] + p1 * strides[1]), strides[2], sizes[2]);
        }
    }
}
