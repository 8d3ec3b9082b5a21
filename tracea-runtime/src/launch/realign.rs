//! The kernel that copies tensors to aligned rows (`device/realign.cuh`): its parameters, and all such copies in one launch.

use super::builtin::Builtin;
use super::check::Tensors;
use super::copies::{Copies, MOST_COPIES, Way};
use super::outer_axes::OuterAxes;
use super::params::FastDiv;
use crate::tensor::{Layout, RawTensor};

/// Of a block, and the 16-byte chunks of the copies that it makes.
const THREADS: u32 = 256;

pub(super) static REALIGN: Builtin = Builtin::new("realign", include_str!("../../device/realign.cu"), THREADS);

/// `Realigned` of `device/realign.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    source: u64,
    end: u64,
    target: u64,
    first_block: u32,
    chunks: u32,
    row_bytes: u32,
    row_chunks: FastDiv,
    rows: OuterAxes,
}

/// `Realignment` of `device/realign.cuh`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Entries {
    count: u32,
    entries: [Entry; MOST_COPIES],
}

const _: () = assert!(size_of::<Entry>() == 144 && size_of::<Entries>() == 584, "as the header lays them out");

/// The table, and the blocks of the grid that covers it.
pub(super) fn entries(copies: &Copies, tensors: &Tensors<'_>, room: u64) -> (Entries, u32) {
    let (mut all, mut blocks) = (Entries::default(), 0);
    for (copied, slot) in copies.by(Way::Realigned).zip(&mut all.entries) {
        let Some(raw) = tensors.get(copied.tensor) else { continue };
        *slot = Entry { target: room + copied.offset, first_block: blocks, ..Entry::of(raw, &copied.layout) };
        blocks += slot.chunks.div_ceil(THREADS);
        all.count += 1;
    }
    (all, blocks)
}

impl Entry {
    /// A copy's size is limited, so that what counts its parts fits 31 bits.
    fn of(raw: &RawTensor, copy: &Layout) -> Entry {
        let bytes = raw.dtype().bytes();
        let (rows, columns) = copy.sizes().split_last().map_or((1, 1), |(last, outer)| (outer.iter().product(), *last));
        let pitch = copy.strides().iter().rev().nth(1).map_or(columns, |pitch| *pitch);
        let row_chunks = (pitch * bytes).div_ceil(16);
        let range = raw.byte_range();
        let outer = raw.layout().rank().saturating_sub(1);
        let axes = raw.layout().sizes().iter().copied().zip(raw.layout().strides().iter().copied());
        Entry {
            source: range.start as u64,
            end: range.end as u64,
            chunks: (rows * row_chunks) as u32,
            row_bytes: (columns * bytes) as u32,
            row_chunks: FastDiv::new(row_chunks as u32),
            rows: OuterAxes::of(axes.take(outer), bytes),
            ..Entry::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::Dtype;
    use crate::launch::copies::relaid;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_find_every_row(
            sizes in prop::collection::vec(1usize..5, 1..=5),
            gaps in prop::collection::vec(0usize..3, 5),
            order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
        ) {
            let rank = sizes.len();
            let (mut strides, mut next) = (vec![1; rank], sizes[rank - 1] + gaps[4]);
            for &axis in order.iter().filter(|axis| **axis + 1 < rank) {
                strides[axis] = next;
                next = next * sizes[axis] + gaps[axis];
            }
            let layout = Layout::strided(&sizes, &strides).unwrap();
            let start = std::ptr::without_provenance_mut(0x1002);
            let raw = RawTensor::borrowing(Dtype::Bf16, layout, start, Device::cpu());
            let copy = relaid(&layout, rank - 1, 2).unwrap();
            let entry = Entry::of(&raw, &copy);
            let columns = sizes[rank - 1];
            let rows: Vec<usize> = layout.offsets().step_by(columns).collect();
            let pitch = if rank > 1 { copy.strides()[rank - 2] } else { columns };
            let chunks = (pitch * 2).div_ceil(16);
            prop_assert_eq!((entry.chunks as usize, entry.row_bytes as usize), (rows.len() * chunks, columns * 2));
            prop_assert_eq!(entry.row_chunks.divisor as usize, chunks);
            for (index, offset) in rows.iter().enumerate() {
                prop_assert_eq!(entry.source + entry.rows.offset(index as u32), 0x1002 + 2 * *offset as u64);
            }
            prop_assert_eq!(entry.end as usize, raw.byte_range().end);
        }
    }
}
