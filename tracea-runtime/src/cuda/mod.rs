//! CUDA: the driver, device memory, and the way from a kernel's source to loaded machine code.
//!
//! ```text
//! plan::Variant ─source─▶ text ─compile (nvrtc) or cache─▶ cubin ─module─▶ a function that a launch enqueues
//! ```
//!
//! Nothing here needs CUDA to be installed: a missing driver or NVRTC is an error that says what was looked for. The environment may
//! say where things are: `TRACEA_NVRTC` (the library, or a folder that holds it), `TRACEA_CACHE` (the folder of the cubin cache;
//! empty for none), `TRACEA_CACHE_LIMIT` (its size in MiB, 512 where unset).

mod cache;
mod compile;
mod driver;
mod gpu;
mod headers;
mod locate;
mod memory;
mod module;
mod nvrtc;
mod room;
mod source;
mod specialization;
mod timer;
mod workspace;

pub use compile::{Compiled, Resources, compile_variant};
pub use nvrtc::nvrtc_version;
pub use source::render_source;
pub use specialization::Specialization;

pub(crate) use driver::{Checked, cuda_count};
pub(crate) use gpu::Gpu;
pub(crate) use memory::CudaBlock;
pub(crate) use module::{Grid, LoadedKernel, load};
pub(crate) use room::{MOST_ROOM, Room};
pub(crate) use timer::Stopwatch;
pub(crate) use workspace::{Addresses, MOST_TILES, PARTS_BYTES, Workspace};
