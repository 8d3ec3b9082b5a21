//! What can go wrong while the runtime works: one enum, cause first and cure after `--`.
//!
//! The driver's words and NVRTC's log are kept as they came.

use crate::dtype::Dtype;
use crate::verify::Mismatch;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two tensors disagree about a dim of the kernel.
    #[error("{dim} is {size} in `{tensor}` (axis {axis}) but {other_size} in `{other}` (axis {other_axis})")]
    ShapeMismatch {
        dim: &'static str,
        size: usize,
        tensor: &'static str,
        axis: usize,
        other_size: usize,
        other: &'static str,
        other_axis: usize,
    },

    /// A tensor disagrees with a size that the kernel fixes.
    #[error(
        "{dim} is {size} in `{tensor}` (axis {axis}), the kernel fixes it at {fixed} -- pass a tensor of that size"
    )]
    FixedSize { dim: &'static str, size: usize, tensor: &'static str, axis: usize, fixed: usize },

    #[error("`{tensor}` holds {given}, the kernel takes {expected} -- convert it first")]
    DtypeMismatch { tensor: &'static str, given: Dtype, expected: Dtype },

    #[error("`{kernel}` was not compiled for {selector} = {given} -- listed are {listed}")]
    NoInstance { kernel: &'static str, selector: &'static str, given: String, listed: String },

    #[error("`{output}` is written and shares memory with `{other}` -- give the output memory of its own")]
    Alias { output: &'static str, other: &'static str },

    #[error("`{output}` is written and several of its elements share memory -- pass a tensor with distinct elements")]
    SelfAlias { output: &'static str },

    #[error("`{tensor}` is on {device} but `{other}` is on {other_device} -- bring them together with `to(&device)`")]
    DeviceMismatch { tensor: &'static str, device: String, other: &'static str, other_device: String },

    #[error("`{tensor}` is on {device}, the launch was asked for on {asked} -- pass a handle of the tensors' device")]
    AskedElsewhere { tensor: &'static str, device: String, asked: String },

    #[error("{what} is {size}, the kernel's index arithmetic ends at {limit} -- split the work")]
    TooLarge { what: String, size: u128, limit: u64 },

    #[error(
        "`{tensor}` has stride {stride} along its last axis, the GPU code needs 1 -- copy it to a contiguous tensor \
         with `to_contiguous()`"
    )]
    InnerStride { tensor: &'static str, stride: usize },

    #[error("`{kernel}` has no code for {device}: {why}")]
    NoVariant { kernel: &'static str, device: String, why: String },

    #[error("`{kernel}` has no schedule `{asked}` for {device} -- there are {listed}")]
    NoSchedule { kernel: &'static str, device: String, asked: String, listed: String },

    #[error(
        "schedule `{schedule}` has {tensors} in memory of the launch's own, for which there is no room or no leave, or from which no \
         way leads back to a result with gaps -- let the launch choose its schedule"
    )]
    NotCopied { schedule: String, tensors: String },

    #[error(
        "schedule `{schedule}` needs the rows of {tensors} to begin equally far past multiples of 16 bytes -- let the launch \
         choose its schedule"
    )]
    NotAlike { schedule: String, tensors: String },

    #[error(
        "schedule `{schedule}` needs the rows of {tensors} to begin at multiples of 16 bytes, or a launch that may copy them -- let the launch \
         choose its schedule"
    )]
    NotAligned { schedule: String, tensors: String },

    #[error(
        "schedule `{schedule}` takes the last axes of {tensors} as one, between which something lies -- let the launch choose its \
         schedule"
    )]
    NotGapless { schedule: String, tensors: String },

    #[error(
        "schedule `{schedule}` takes rows of 1 to {most} elements whole, these have {given} -- let the launch choose its \
         schedule"
    )]
    RowLength { schedule: String, most: usize, given: usize },

    #[error("`{kernel}` was handed {given} {what} -- it takes {expected}")]
    Arguments { kernel: &'static str, what: &'static str, given: usize, expected: usize },

    /// A shape and the memory, or the shape and its type, disagree.
    #[error("{0}")]
    Shape(String),

    #[error("no CUDA device {ordinal}: {why}")]
    NoDevice { ordinal: usize, why: String },

    #[error("{doing} needs {needed} of memory -- the machine has not that much left")]
    OutOfHostMemory { doing: &'static str, needed: String },

    /// A call into the CUDA driver failed; `name` and `message` are the driver's.
    #[error("{doing}: the CUDA driver says {name}: {message}")]
    Driver { doing: &'static str, name: String, message: String },

    #[error(
        "NVRTC was not found (looked for {looked}) -- install the CUDA toolkit, or set TRACEA_NVRTC to the library"
    )]
    NoNvrtc { looked: String },

    #[error("{doing}: NVRTC says {message}")]
    Nvrtc { doing: &'static str, message: String },

    /// NVRTC refused a kernel's source; `log` is NVRTC's, verbatim.
    #[error("NVRTC could not compile `{kernel}` for {arch}\n{log}")]
    Compile { kernel: &'static str, arch: String, log: String },

    /// The result is not what the same kernel gives in f64.
    #[error("{0}")]
    Mismatch(Box<Mismatch>),
}

impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
