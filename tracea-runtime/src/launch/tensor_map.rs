//! Tensor maps: what TMA needs to know of a tensor (CUDA driver API, "Tensor Map Object Management").

use super::alignment::{TMA_ALIGNMENT, alignment_of, row_alignment_of};
use super::window::Corners;
use crate::cuda::Checked;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::plan::Window;
use crate::tensor::RawTensor;
use cudarc::driver::sys;
use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Ranks that a tensor map takes.
pub(super) const MOST_AXES: usize = 5;

const INTERLEAVE: sys::CUtensorMapInterleave = sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE;
const SWIZZLE: sys::CUtensorMapSwizzle = sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B;
/// Zeros outside.
const FILL: sys::CUtensorMapFloatOOBfill = sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

/// A tensor map as a kernel takes it.
pub(super) type TensorMap = [u8; 128];

/// For code that does not use it.
pub(super) const UNUSED_MAP: TensorMap = [0; 128];

/// What the driver asks of every tensor, axes from the innermost.
struct Described {
    dtype: sys::CUtensorMapDataType,
    rank: usize,
    sizes: [u64; MOST_AXES],
    /// In bytes, of all axes but the innermost.
    strides: [u64; MOST_AXES],
    /// What L2 fetches at once of what TMA reads.
    promotion: sys::CUtensorMapL2promotion,
}

/// A box's row is 128 bytes, and what lies beside it is read by the loop's next step. Slower memory gives both at once sooner than one after the
/// other, and nothing else keeps them apart in a tensor that L2 cannot hold: on an H100, 128 rows by weights of 28672 x 8192 take 165 µs by pairs of
/// lines, and 178 by lines. Of rows that share pairs with their neighbours half is fetched twice: 4095 x 4097 x 4104 took 271 µs for 244.
fn promotion(first: u64, row_bytes: u64, strides: &[u64], bytes: u64, pairs_above: u64) -> sys::CUtensorMapL2promotion {
    const PAIR: u64 = 256;
    let pairs = first.is_multiple_of(PAIR)
        && row_bytes.is_multiple_of(PAIR)
        && strides.iter().all(|stride| stride.is_multiple_of(PAIR));
    if pairs && bytes > pairs_above {
        sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B
    } else {
        sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B
    }
}

/// Maps as they were encoded last for the same plan, by their place among its parameters, with the addresses that they are of: all else
/// that a map says follows from the plan.
pub(crate) struct EncodedMaps {
    encoded: RefCell<Vec<Option<(u64, TensorMap)>>>,
    /// Tensors of more bytes come from memory by pairs of lines.
    pub pairs_above: u64,
}

impl EncodedMaps {
    /// For a GPU of so many bytes of L2, and bytes a second from memory.
    pub fn of(l2_bytes: usize, bandwidth: f64) -> EncodedMaps {
        /// An H100 has 3.35e12, and an H200 4.9e12: 16 rows by weights of 28672 x 4096 take 60.7 µs there by pairs of lines, and 57.7 by lines.
        const FAST: f64 = 4e12;
        let pairs_above = if bandwidth < FAST { l2_bytes as u64 } else { u64::MAX };
        EncodedMaps { encoded: RefCell::default(), pairs_above }
    }

    /// Passes on the map, encoded now if it was of another address.
    pub fn read<T>(
        &self,
        place: usize,
        address: u64,
        encode: impl FnOnce() -> Result<TensorMap>,
        take: impl FnOnce(&TensorMap) -> Result<T>,
    ) -> Result<T> {
        let mut maps = self.encoded.borrow_mut();
        if maps.len() <= place {
            maps.resize(place + 1, None);
        }
        match &mut maps[place] {
            Some((known, map)) if *known == address => take(map),
            slot => take(&slot.insert((address, encode()?)).1),
        }
    }
}

/// Whether TMA can fetch from the tensor.
pub(super) fn fetchable(tensor: &RawTensor) -> bool {
    let layout = tensor.layout();
    alignment_of(tensor) >= TMA_ALIGNMENT && layout.rank() <= MOST_AXES && !layout.sizes().contains(&0)
}

/// Whether TMA writes to the tensor without writing beside it: it writes whole chunks of 16 bytes, however a row ends.
pub(super) fn writable(tensor: &RawTensor) -> bool {
    row_alignment_of(tensor) >= TMA_ALIGNMENT
}

/// Size and stride of the leading axes as one; nothing where steps along it would not be even.
fn merged_axis(tensor: &RawTensor, merged: usize) -> Option<(usize, usize)> {
    let layout = tensor.layout();
    let axes = layout.sizes().iter().zip(layout.strides()).take(merged).rev();
    axes.filter(|(size, _)| **size > 1).try_fold((1, 0), |(size, stride), (next, next_stride)| match size {
        1 => Some((*next, *next_stride)),
        _ => (*next_stride == size * stride).then_some((size * next, stride)),
    })
}

/// Whether a map may count the leading axes as one.
pub(super) fn merges(tensor: &RawTensor, merged: usize) -> bool {
    merged_axis(tensor, merged).is_some()
}

fn described(tensor: &RawTensor, merged: usize, pairs_above: u64) -> Option<Described> {
    let layout = tensor.layout();
    if alignment_of(tensor) < TMA_ALIGNMENT || layout.sizes().contains(&0) || merged > layout.rank() {
        return None;
    }
    let first = merged_axis(tensor, merged)?;
    let rest = layout.sizes().iter().zip(layout.strides()).skip(merged).map(|(size, stride)| (*size, *stride));
    let rank = layout.rank() + 1 - merged;
    if rank > MOST_AXES {
        return None;
    }
    let (mut sizes, mut strides) = ([1u64; MOST_AXES], [0u64; MOST_AXES]);
    for (axis, (size, stride)) in std::iter::once(first).chain(rest).enumerate() {
        let at = rank - 1 - axis;
        sizes[at] = size as u64;
        if at > 0 {
            let bytes = (stride * tensor.dtype().bytes()) as u64;
            // The stride of an axis of one element is never taken; the driver still asks for a multiple of 16.
            strides[at - 1] = if sizes[at] == 1 { u64::from(TMA_ALIGNMENT) } else { bytes };
        }
    }
    let dtype = match tensor.dtype() {
        Dtype::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::Bf16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Dtype::F32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Dtype::I32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
    };
    let element = tensor.dtype().bytes() as u64;
    let bytes = sizes.iter().product::<u64>() * element;
    let promotion = promotion(tensor.device_address(), sizes[0] * element, &strides[..rank - 1], bytes, pairs_above);
    Some(Described { dtype, rank, sizes, strides, promotion })
}

/// Of so many elements, as many chunks of 16 bytes as a row of the tensor has: `columns_of` in `device/panel_tile.cuh`.
fn narrowed(tensor: &RawTensor, elements: u32) -> u32 {
    let row = tensor.layout().sizes().last().copied().unwrap_or(1);
    let chunk = TMA_ALIGNMENT as usize / tensor.dtype().bytes();
    elements.min(row.next_multiple_of(chunk).try_into().unwrap_or(elements))
}

/// Of boxes, innermost first: no wider than the tensor's rows, and no taller than the map's axes are long, where that is asked for.
fn extents_of(
    tensor: &RawTensor,
    sizes: &[u64; MOST_AXES],
    boxes: &[u32],
    narrow: bool,
    short: bool,
) -> [u32; MOST_AXES] {
    let mut extents = [1u32; MOST_AXES];
    boxes.iter().rev().zip(&mut extents).for_each(|(from, to)| *to = *from);
    extents[0] = if narrow { narrowed(tensor, extents[0]) } else { extents[0] };
    if short {
        let outer = extents.iter_mut().zip(sizes).skip(1);
        outer.for_each(|(extent, size)| *extent = u32::try_from(*size).map_or(*extent, |size| size.min(*extent)));
    }
    extents
}

/// Boxes of a tensor, no wider than its rows and no taller than it where that is asked for; zeros where its code does not use them.
pub(super) fn box_map(
    tensor: &RawTensor,
    merged: usize,
    boxes: &[u32],
    narrow: bool,
    short: bool,
    pairs_above: u64,
) -> Result<TensorMap> {
    let Some(Described { dtype, rank, sizes, strides, promotion }) = described(tensor, merged.max(1), pairs_above)
    else {
        return Ok(UNUSED_MAP);
    };
    if rank != boxes.len() {
        return Ok(UNUSED_MAP);
    }
    let extents = extents_of(tensor, &sizes, boxes, narrow, short);
    let steps = [1u32; MOST_AXES];
    let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
    // SAFETY: the arrays have at least `rank` entries, the map is 128 bytes of the driver's own type, and the call only encodes: it
    // does not touch the tensor's memory.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            dtype,
            rank as u32,
            tensor.device_address() as usize as *mut c_void,
            sizes.as_ptr(),
            strides.as_ptr(),
            extents.as_ptr(),
            steps.as_ptr(),
            INTERLEAVE,
            SWIZZLE,
            promotion,
            FILL,
        )
    };
    finished(status, map)
}

/// Windows of a tensor; zeros where its code does not use them.
pub(super) fn window_map(
    tensor: &RawTensor,
    window: &Window,
    corners: &Corners,
    pairs_above: u64,
) -> Result<TensorMap> {
    let Some(Described { dtype, rank, sizes, strides, promotion }) = described(tensor, 1, pairs_above) else {
        return Ok(UNUSED_MAP);
    };
    let (mut lower, mut upper, mut steps) = ([0i32; MOST_AXES], [0i32; MOST_AXES], [1u32; MOST_AXES]);
    for (at, axis) in corners.axes().rev().enumerate() {
        (lower[at], upper[at], steps[at + 1]) = (axis.lower, axis.upper, axis.step);
    }
    let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
    // SAFETY: as for boxes; the corners' arrays have more than `rank - 2` entries.
    let status = unsafe {
        sys::cuTensorMapEncodeIm2col(
            map.as_mut_ptr(),
            dtype,
            rank as u32,
            tensor.device_address() as usize as *mut c_void,
            sizes.as_ptr(),
            strides.as_ptr(),
            lower.as_ptr(),
            upper.as_ptr(),
            if window.narrow { narrowed(tensor, window.channels) } else { window.channels },
            window.rows,
            steps.as_ptr(),
            INTERLEAVE,
            SWIZZLE,
            promotion,
            FILL,
        )
    };
    finished(status, map)
}

/// `map` is as the driver left it, over zeros.
fn finished(status: sys::CUresult, map: MaybeUninit<sys::CUtensorMap>) -> Result<TensorMap> {
    status.result().doing("describing a tensor to TMA")?;
    // SAFETY: a tensor map is 128 plain bytes, each of them written.
    Ok(unsafe { std::mem::transmute::<sys::CUtensorMap, TensorMap>(map.assume_init()) })
}

#[cfg(test)]
mod tests {
    use super::{EncodedMaps, described, extents_of, narrowed};
    use crate::device::Device;
    use crate::dtype::Dtype;
    use crate::tensor::{Layout, RawTensor};
    use cudarc::driver::sys;

    fn tensor(dtype: Dtype, rows: usize, columns: usize) -> RawTensor {
        let layout = Layout::strided(&[rows, columns], &[columns.next_multiple_of(8), 1]).unwrap();
        RawTensor::borrowing(dtype, layout, std::ptr::without_provenance_mut(0x1000), Device::cpu())
    }

    #[test]
    fn short_boxes_hold_no_more_rows_than_there_are() {
        let of = |rows, narrow, short| {
            let tensor = tensor(Dtype::F16, rows, 24);
            let sizes = described(&tensor, 1, 0).unwrap().sizes;
            extents_of(&tensor, &sizes, &[64, 64], narrow, short)[..2].to_vec()
        };
        assert_eq!([1, 16, 64, 65].map(|rows| of(rows, false, true)), [[64, 1], [64, 16], [64, 64], [64, 64]]);
        assert_eq!(of(16, false, false), [64, 64]);
        assert_eq!(of(16, true, true), [24, 16]);
    }

    #[test]
    fn l2_fetches_pairs_of_lines_that_no_rows_share_of_what_it_cannot_hold() {
        const BYTES: usize = 64 * 1024 * 2;
        const SLOW: f64 = 3e12;
        let of = |rows, columns, l2_bytes, bandwidth| {
            let maps = EncodedMaps::of(l2_bytes, bandwidth);
            let promotion = described(&tensor(Dtype::F16, rows, columns), 1, maps.pairs_above).unwrap().promotion;
            promotion == sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B
        };
        assert!(of(64, 1024, BYTES - 1, SLOW));
        assert!(!of(64, 1024, BYTES, SLOW), "L2 holds it");
        assert!(!of(64, 1000, 0, SLOW) && !of(64, 1024 + 64, 0, SLOW), "rows end within a pair");
        assert!(!of(64, 1024, 0, 2.0 * SLOW), "memory is as fast by lines");
    }

    #[test]
    fn narrow_boxes_hold_whole_chunks() {
        let of = |dtype, elements, columns| narrowed(&tensor(dtype, 2, columns), elements);
        assert_eq!(
            [1, 8, 9, 24, 57, 64, 65, 1000].map(|columns| of(Dtype::F16, 64, columns)),
            [8, 8, 16, 24, 64, 64, 64, 64]
        );
        assert_eq!([1, 4, 5, 31, 32, 33].map(|columns| of(Dtype::F32, 32, columns)), [4, 4, 8, 32, 32, 32]);
    }
}
