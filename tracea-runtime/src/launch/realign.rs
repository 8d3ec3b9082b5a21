//! The kernel that makes a launch's copies (`device/realign.cuh`): its parameters, and all copies in one launch.

use super::builtin::Builtin;
use super::check::Tensors;
use super::copies::{Copies, MOST_COPIES};
use super::params::FastDiv;
use crate::cuda::{Gpu, LoadedKernel, Room};
use crate::error::Result;
use crate::tensor::{Layout, MAX_RANK, RawTensor};
use cudarc::driver::CudaStream;
use std::ffi::c_void;

const THREADS: u32 = 256;
/// 16-byte chunks of the copies that a block makes.
const BLOCK_CHUNKS: u32 = 4 * THREADS;
/// Axes that rows run over.
const MOST_AXES: usize = MAX_RANK - 1;

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
    axes: u32,
    sizes: [FastDiv; MOST_AXES - 1],
    strides: [i64; MOST_AXES],
}

/// `Realignment` of `device/realign.cuh`.
#[repr(C)]
#[derive(Debug, Default)]
struct Entries {
    count: u32,
    entries: [Entry; MOST_COPIES],
}

const _: () = assert!(size_of::<Entry>() == 144 && size_of::<Entries>() == 584, "as the header lays them out");

/// Loaded code.
#[derive(Clone, Copy)]
pub(super) struct Realign(&'static LoadedKernel);

impl Realign {
    pub fn loaded(gpu: &Gpu) -> Result<Realign> {
        Ok(Realign(REALIGN.loaded(gpu)?))
    }

    /// # Safety
    ///
    /// The context is current, the tensors stay valid until the stream has run the launch and nothing writes them meanwhile, and the room
    /// has as many bytes as the copies take.
    pub unsafe fn enqueue(
        self,
        stream: &CudaStream,
        copies: &Copies,
        tensors: &Tensors<'_>,
        room: &Room<'_>,
    ) -> Result<()> {
        let (mut entries, blocks) = entries(copies, tensors, room.address());
        let parameter: *mut c_void = (&raw mut entries).cast();
        // SAFETY: the kernel takes one parameter of this layout, whose addresses are valid as the caller vouches.
        unsafe { self.0.enqueue(stream, blocks, 0, &mut [parameter]) }
    }
}

/// The table, and the blocks of the grid that covers it.
fn entries(copies: &Copies, tensors: &Tensors<'_>, room: u64) -> (Entries, u32) {
    let (mut all, mut blocks) = (Entries::default(), 0);
    for (copied, slot) in copies.iter().zip(&mut all.entries) {
        let Some(raw) = tensors.get(copied.tensor) else { continue };
        *slot = Entry { target: room + copied.offset, first_block: blocks, ..Entry::of(raw, &copied.layout) };
        blocks += slot.chunks.div_ceil(BLOCK_CHUNKS);
        all.count += 1;
    }
    (all, blocks)
}

impl Entry {
    /// A copy's size is limited, so that what counts its parts fits 31 bits.
    fn of(raw: &RawTensor, copy: &Layout) -> Entry {
        let bytes = raw.dtype().bytes();
        let (rows, columns) = copy.sizes().split_last().map_or((1, 1), |(last, outer)| (outer.iter().product(), *last));
        let row_chunks = (columns * bytes).div_ceil(16);
        let range = raw.byte_range();
        let mut entry = Entry {
            source: range.start as u64,
            end: range.end as u64,
            chunks: (rows * row_chunks) as u32,
            row_bytes: (columns * bytes) as u32,
            row_chunks: FastDiv::new(row_chunks as u32),
            ..Entry::default()
        };
        let mut axes = 0;
        for (size, stride) in outer_axes(raw.layout()) {
            if let Some(slot) = entry.sizes.get_mut(axes) {
                *slot = FastDiv::new(size as u32);
            }
            entry.strides[axes] = (stride * bytes) as i64;
            axes += 1;
        }
        entry.axes = axes.max(1) as u32;
        entry
    }
}

/// Sizes and strides of all axes but the last, from the innermost, those that lie evenly as one.
fn outer_axes(layout: &Layout) -> impl Iterator<Item = (usize, usize)> {
    let mut axes = [(1, 0); MOST_AXES];
    let mut count = 0usize;
    let outer = layout.rank().saturating_sub(1);
    let all = layout.sizes().iter().copied().zip(layout.strides().iter().copied()).take(outer).rev();
    for (size, stride) in all.filter(|(size, _)| *size > 1) {
        match count.checked_sub(1).map(|last| &mut axes[last]) {
            Some((inner, step)) if *inner * *step == stride => *inner *= size,
            _ => {
                axes[count] = (size, stride);
                count += 1;
            }
        }
    }
    axes.into_iter().take(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::Dtype;
    use proptest::prelude::*;

    /// Where the kernel finds a row, by its own arithmetic.
    fn row(entry: &Entry, mut index: u32) -> u64 {
        let mut place = entry.source;
        for axis in 0..entry.axes as usize - 1 {
            place += u64::from(index % entry.sizes[axis].divisor) * entry.strides[axis] as u64;
            index /= entry.sizes[axis].divisor;
        }
        place + u64::from(index) * entry.strides[entry.axes as usize - 1] as u64
    }

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
            let entry = Entry::of(&raw, &layout);
            let columns = sizes[rank - 1];
            let rows: Vec<usize> = layout.offsets().step_by(columns).collect();
            let chunks = (columns * 2).div_ceil(16);
            prop_assert_eq!((entry.chunks as usize, entry.row_bytes as usize), (rows.len() * chunks, columns * 2));
            prop_assert_eq!(entry.row_chunks.divisor as usize, chunks);
            for (index, offset) in rows.iter().enumerate() {
                prop_assert_eq!(row(&entry, index as u32), 0x1002 + 2 * *offset as u64);
            }
            prop_assert_eq!(entry.end as usize, raw.byte_range().end);
        }
    }

    #[test]
    fn rows_of_a_dense_tensor_lie_along_one_axis() {
        let layout = Layout::contiguous(&[4, 1, 5, 6, 3]).unwrap();
        assert_eq!(outer_axes(&layout).collect::<Vec<_>>(), [(120, 3)]);
        let turned = Layout::strided(&[4, 5, 6, 3], &[3, 72, 12, 1]).unwrap();
        assert_eq!(outer_axes(&turned).collect::<Vec<_>>(), [(30, 12), (4, 3)]);
    }
}
