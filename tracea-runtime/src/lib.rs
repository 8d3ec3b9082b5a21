//! The runtime of Tracea: tensors, devices, NVRTC, launches, CPU execution and verification.
pub mod axis;
pub mod cuda;
pub mod device;
pub mod dim;
pub mod dtype;
pub mod element;
pub mod error;
pub mod host;
pub mod launch;
pub mod oracle;
pub mod plan;
pub mod real;
pub mod tensor;
pub mod tile;
pub mod verify;

pub use axis::ordinal::{N0, N1, N2, N3, N4, N5, N6, N7, N8, N9, N10, N11, N12, N13, N14};
pub use axis::{Axis, AxisName, Extent, Flat, Ix, Whole, flat};
pub use dim::{Const, Dim, Dyn};
pub use dtype::Dtype;
pub use element::{Arithmetic, Element, Float, bf16, f16, tf32};
pub use host::{GridAxis, GridPoint, GridShape, HostArg, HostArray, HostKernel, Sample, View, Work, each, tiles};
pub use oracle::{Bf16, Bounded, F16, F32, Tf32};
pub use real::{Real, from_int, num};
pub use tile::{Tile, dot, full, int, iota, lit, scalar, select, zeros};
pub use verify::Comparator;
