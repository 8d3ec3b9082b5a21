//! The kernel that copies tensors with another axis contiguous (`device/transpose.cuh`): its parameters, and all such copies in one
//! launch.

use super::alignment::TMA_ALIGNMENT;
use super::builtin::Builtin;
use super::check::Tensors;
use super::copies::{Copies, MOST_COPIES, Way};
use super::outer_axes::OuterAxes;
use super::params::FastDiv;
use crate::tensor::{Layout, RawTensor};

const THREADS: u32 = 256;
/// Elements that a block turns: so many rows and columns of them, or fewer of one and more of the other.
const PIECE: usize = SIDE * SIDE;
const SIDE: usize = 64;
const LEAST_SIDE: usize = 8;

pub(super) static TRANSPOSE: Builtin = Builtin::new("transpose", include_str!("../../device/transpose.cu"), THREADS);

/// `Transposed` of `device/transpose.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    source: u64,
    target: u64,
    row_stride: i64,
    first_block: u32,
    rows: u32,
    columns: u32,
    pitch: u32,
    element_bytes: u32,
    filled: u32,
    width_bits: u32,
    across: FastDiv,
    down: FastDiv,
    planes: OuterAxes,
}

/// `Transposition` of `device/transpose.cuh`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Entries {
    count: u32,
    entries: [Entry; MOST_COPIES],
}

const _: () = assert!(size_of::<Entry>() == 176 && size_of::<Entries>() == 712, "as the header lays them out");

/// The table of operands' copies, and the blocks of the grid that covers it.
pub(super) fn entries(copies: &Copies, tensors: &Tensors<'_>, room: u64) -> (Entries, u32) {
    Entries::of(copies.by(Way::Transposed).filter_map(|copied| {
        let raw = tensors.get(copied.tensor)?;
        let (entry, pieces) = Entry::of(raw, copied.last, &copied.layout);
        // The last chunk of a row is filled up.
        let filled = entry.rows.next_multiple_of(TMA_ALIGNMENT / entry.element_bytes);
        Some((Entry { target: room + copied.offset, filled, ..entry }, pieces))
    }))
}

/// The same of results, from their copies.
pub(super) fn entries_back(copies: &Copies, tensors: &Tensors<'_>, room: u64) -> (Entries, u32) {
    Entries::of(copies.by(Way::TurnedBack).filter_map(|copied| {
        let raw = tensors.get(copied.tensor)?;
        let start = std::ptr::without_provenance_mut((room + copied.offset) as usize);
        let copy = RawTensor::borrowing(copied.dtype, copied.layout, start, raw.device().clone());
        let (entry, pieces) = Entry::of(&copy, copied.last, raw.layout());
        Some((Entry { target: raw.device_address(), ..entry }, pieces))
    }))
}

impl Entries {
    /// Of copies and the pieces that each is made of.
    fn of(copies: impl Iterator<Item = (Entry, u32)>) -> (Entries, u32) {
        let (mut all, mut blocks) = (Entries::default(), 0);
        for ((entry, pieces), slot) in copies.zip(&mut all.entries) {
            *slot = Entry { first_block: blocks, ..entry };
            blocks += pieces;
            all.count += 1;
        }
        (all, blocks)
    }
}

impl Entry {
    /// And the pieces that it is made of. A copy's size is limited, so that what counts its parts fits 31 bits.
    fn of(raw: &RawTensor, last: usize, copy: &Layout) -> (Entry, u32) {
        let layout = raw.layout();
        let contiguous = layout.rank().saturating_sub(1);
        let axis = |at: usize| {
            let (size, stride) = (layout.sizes().get(at), layout.strides().get(at));
            size.copied().zip(stride.copied()).unwrap_or((1, 0))
        };
        let ((rows, row_stride), (mut columns, _)) = (axis(last), axis(contiguous));
        // Axes that lie evenly behind the copy's last one are columns too.
        let mut inner = contiguous;
        while inner > last + 1 && axis(inner - 1).1 == columns {
            inner -= 1;
            columns *= axis(inner).0;
        }
        let outer = (0..inner).filter(|at| *at != last).map(axis);
        let planes: usize = outer.clone().map(|(size, _)| size).product();
        let width = width(rows, columns);
        let (across, down) = (columns.div_ceil(width), rows.div_ceil(PIECE / width));
        let entry = Entry {
            source: raw.device_address(),
            row_stride: row_stride as i64,
            rows: rows as u32,
            columns: columns as u32,
            filled: rows as u32,
            width_bits: width.ilog2(),
            element_bytes: raw.dtype().bytes() as u32,
            pitch: copy.strides().iter().rev().nth(1).map_or(0, |pitch| *pitch as u32),
            across: FastDiv::new(across as u32),
            down: FastDiv::new(down as u32),
            planes: OuterAxes::of(outer, raw.dtype().bytes()),
            ..Entry::default()
        };
        (entry, (planes * across * down) as u32)
    }
}

/// Columns of a piece of a plane.
fn width(rows: usize, columns: usize) -> usize {
    let side = |size: usize| size.next_power_of_two().clamp(LEAST_SIDE, SIDE);
    if rows < columns { PIECE / side(rows) } else { side(columns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::Dtype;
    use crate::launch::check::Sizes;
    use crate::launch::copies::relaid;
    use crate::plan::{Relaid, Variant};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SOURCE: u64 = 0x1004;
    const TARGET: u64 = 0x10000;

    /// What a block of the kernel copies: from which address to which.
    fn copied(entry: &Entry, block: u32) -> Vec<(u64, u64)> {
        let (place, across) = (block / entry.across.divisor, block % entry.across.divisor);
        let (plane, down) = (place / entry.down.divisor, place % entry.down.divisor);
        let source = entry.source + entry.planes.offset(plane);
        let bytes = u64::from(entry.element_bytes);
        let target = entry.target + bytes * u64::from(plane) * u64::from(entry.columns) * u64::from(entry.pitch);
        let width = 1 << entry.width_bits;
        let height = PIECE as u32 / width;
        let rows = (down * height..(down + 1) * height).filter(|row| *row < entry.rows);
        let columns = (across * width..(across + 1) * width).filter(|column| *column < entry.columns);
        let from =
            |row: u32, column: u32| source + bytes * (u64::from(row) * entry.row_stride as u64 + u64::from(column));
        let to = |row: u32, column: u32| target + bytes * (u64::from(column) * u64::from(entry.pitch) + u64::from(row));
        rows.flat_map(|row| columns.clone().map(move |column| (row, column)))
            .map(|(row, column)| (from(row, column), to(row, column)))
            .collect()
    }

    proptest! {
        #[test]
        fn every_element_goes_to_its_place_once(
            (sizes, last) in prop::collection::vec(prop_oneof![1usize..4, 60usize..70], 2..=5)
                .prop_filter("few elements", |sizes| sizes.iter().product::<usize>() < 40_000)
                .prop_flat_map(|sizes| { let last = 0..sizes.len() - 1; (Just(sizes), last) }),
            gaps in prop::collection::vec(0usize..3, 5),
            order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
            dtype in prop_oneof![Just(Dtype::F32), Just(Dtype::F16)],
        ) {
            let bytes = dtype.bytes();
            let rank = sizes.len();
            let (mut strides, mut next) = (vec![1; rank], sizes[rank - 1] + gaps[4]);
            for &axis in order.iter().filter(|axis| **axis + 1 < rank) {
                strides[axis] = next;
                next = next * sizes[axis] + gaps[axis];
            }
            let layout = Layout::strided(&sizes, &strides).unwrap();
            let raw = RawTensor::borrowing(
                dtype, layout, std::ptr::without_provenance_mut(SOURCE as usize), Device::cpu(),
            );
            let copy = relaid(&layout, last, bytes).unwrap();
            let (entry, pieces) = Entry::of(&raw, last, &copy);
            let entry = Entry { target: TARGET, ..entry };
            let mut actual = BTreeMap::new();
            for (from, to) in (0..pieces).flat_map(|block| copied(&entry, block)) {
                prop_assert_eq!(actual.insert(to, from), None, "written once");
            }
            // The same axes in the copy's order.
            let order: Vec<usize> = (0..rank).filter(|axis| *axis != last).chain([last]).collect();
            let turned = layout.permuted(&order).unwrap();
            prop_assert_eq!(turned.sizes(), copy.sizes());
            let places = turned.offsets().zip(copy.offsets());
            let expected: BTreeMap<u64, u64> =
                places.map(|(from, to)| (TARGET + (bytes * to) as u64, SOURCE + (bytes * from) as u64)).collect();
            prop_assert_eq!(actual, expected);
        }

        #[test]
        fn results_come_back_to_their_places(
            sizes in prop::collection::vec(prop_oneof![1usize..4, 60usize..70], 2..=4)
                .prop_filter("few elements", |sizes| sizes.iter().product::<usize>() < 40_000),
            gap in 0usize..3,
        ) {
            let rank = sizes.len();
            let (mut strides, mut next) = (vec![1; rank], sizes[rank - 1] + gap);
            for axis in (0..rank - 1).rev() {
                strides[axis] = next;
                next *= sizes[axis];
            }
            let result = Layout::strided(&sizes, &strides).unwrap();
            let raw = RawTensor::borrowing(
                Dtype::F16, result, std::ptr::without_provenance_mut(TARGET as usize), Device::cpu(),
            );
            let last = rank - 2;
            static TURNED: [[Relaid; 1]; 3] = [
                [Relaid { tensor: 0, last: 0, written: true }],
                [Relaid { tensor: 0, last: 1, written: true }],
                [Relaid { tensor: 0, last: 2, written: true }],
            ];
            let variant = Variant { relaid: &TURNED[last], ..Variant::of_source("k", "", 128) };
            let mut tensors = Tensors::new();
            tensors.push(&raw);
            let copies = Copies::needed(&variant, &[], &Sizes::of(&[]), &tensors).expect("an even result");
            let (table, pieces) = entries_back(&copies, &tensors, SOURCE);
            let entry = table.entries[0];
            prop_assert_eq!((table.count, entry.filled), (1, sizes[rank - 1] as u32), "nothing behind a row is written");
            let actual: BTreeMap<u64, u64> =
                (0..pieces).flat_map(|block| copied(&entry, block)).map(|(from, to)| (to, from)).collect();
            let copy = copies.iter().next().expect("one copy").layout;
            let order: Vec<usize> = (0..rank).filter(|axis| *axis != last).chain([last]).collect();
            let places = result.permuted(&order).unwrap().offsets().zip(copy.offsets()).collect::<Vec<_>>();
            let expected: BTreeMap<u64, u64> =
                places.into_iter().map(|(to, from)| (TARGET + 2 * to as u64, SOURCE + 2 * from as u64)).collect();
            prop_assert_eq!(actual, expected);
        }
    }
}
