//! What expanded kernels name: no part of the public interface.

pub use tracea_runtime::axis::ordinal::{N0, N1, N2, N3, N4, N5, N6, N7, N8, N9, N10, N11, N12, N13, N14};
pub use tracea_runtime::axis::{Axis, AxisName, Extent, Flat, Integer, Ix, Whole, flat};
pub use tracea_runtime::dim::Const;
pub use tracea_runtime::dtype::Dtype;
pub use tracea_runtime::element::{Arithmetic, Element, bf16, f16, tf32};
pub use tracea_runtime::host::{GridAxis, GridPoint, GridShape, HostArg, HostKernel, View, Work, each, tiles};
pub use tracea_runtime::launch::{ArgRef, KernelSlot, Launch};
pub use tracea_runtime::oracle::{Bf16, Bounded, F16, F32, Tf32};
pub use tracea_runtime::plan::{self, Key};
pub use tracea_runtime::real::{Real, from_int, num};
pub use tracea_runtime::tile::{Tile, full, int, lit, scalar};

use tracea_runtime::plan::FunctionDef;

/// The type that `#[device]` puts beside a function, under the same name.
pub trait DeviceFunction {
    const DEF: &'static FunctionDef;
}
