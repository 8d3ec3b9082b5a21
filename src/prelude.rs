//! What a file with kernels imports: `use tracea::prelude::*;`

pub use tracea_macros::{device, kernel, tile};
pub use tracea_runtime::axis::flat;
pub use tracea_runtime::device::Device;
pub use tracea_runtime::dim::{Const, Dim, Dyn};
pub use tracea_runtime::element::{Element, Float, bf16, f16, tf32};
pub use tracea_runtime::error::Error;
pub use tracea_runtime::host::each;
pub use tracea_runtime::launch::{Clock, Launch, Timing};
pub use tracea_runtime::tensor::{Tensor, TensorMut, TensorRef};
pub use tracea_runtime::tile::{Tile, dot, full, iota, select, zeros};
pub use tracea_runtime::verify::{Verified, Verify};

pub use crate::activation::*;
