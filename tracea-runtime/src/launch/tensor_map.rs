//! Tensor maps: what TMA needs to know of a tensor (CUDA driver API, "Tensor Map Object Management").

use crate::cuda::Checked;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::tensor::RawTensor;
use cudarc::driver::sys;
use std::ffi::c_void;

/// Ranks that a tensor map takes.
const MOST_AXES: usize = 5;
/// TMA reads rows that begin on multiples of 16 bytes.
const ALIGNMENT: u32 = 16;

/// The alignment that a tensor's machine code is made for: the largest of 16, 8, 4, 2, 1 that divides the address and, in bytes,
/// every stride but the last.
pub(super) fn alignment_of(tensor: &RawTensor) -> u32 {
    let layout = tensor.layout();
    let outer = layout.rank().saturating_sub(1);
    let axes = layout.sizes().iter().zip(layout.strides()).take(outer).filter(|(size, _)| **size > 1);
    let all = axes.fold(16 | tensor.device_address(), |all, (_, stride)| {
        // A repeated row has no stride that a tensor map could hold, so its code is the one that needs none.
        let bytes = (stride * tensor.dtype().bytes()) as u64;
        all | if bytes == 0 { 8 } else { bytes }
    });
    1 << all.trailing_zeros()
}

/// The map's 128 bytes; zeros for a tensor whose code does not use it.
pub(super) fn tensor_map(tensor: &RawTensor, boxes: &[u32]) -> Result<[u8; 128]> {
    let layout = tensor.layout();
    let rank = layout.rank();
    let empty = layout.sizes().contains(&0);
    if alignment_of(tensor) < ALIGNMENT || rank > MOST_AXES || rank != boxes.len() || empty {
        return Ok([0; 128]);
    }
    // The driver counts axes from the innermost.
    let (mut sizes, mut strides, mut extents) = ([1u64; MOST_AXES], [0u64; MOST_AXES], [1u32; MOST_AXES]);
    for (at, axis) in (0..rank).rev().enumerate() {
        sizes[at] = layout.sizes()[axis] as u64;
        extents[at] = boxes[axis];
        if at > 0 {
            let bytes = (layout.strides()[axis] * tensor.dtype().bytes()) as u64;
            // The stride of an axis of one element is never taken; the driver still asks for a multiple of 16.
            strides[at - 1] = if sizes[at] == 1 { u64::from(ALIGNMENT) } else { bytes };
        }
    }
    let dtype = match tensor.dtype() {
        Dtype::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::Bf16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Dtype::F32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Dtype::I32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
    };
    let steps = [1u32; MOST_AXES];
    let mut map = std::mem::MaybeUninit::<sys::CUtensorMap>::zeroed();
    // SAFETY: the arrays have at least `rank` entries, the map is 128 bytes of the driver's own type, and the call only encodes: it
    // does not touch the tensor's memory.
    let map = unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            dtype,
            rank as u32,
            tensor.device_address() as usize as *mut c_void,
            sizes.as_ptr(),
            strides.as_ptr(),
            extents.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        .result()
        .doing("describing a tensor to TMA")?;
        map.assume_init()
    };
    // SAFETY: a tensor map is 128 plain bytes.
    Ok(unsafe { std::mem::transmute::<sys::CUtensorMap, [u8; 128]>(map) })
}
