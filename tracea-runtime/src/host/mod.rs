//! Kernels on the CPU: the grid's points run in parallel, each a call of the kernel's body.
//!
//! The same driver runs the body natively, or in the oracle's arithmetic with stores that compare.
mod arg;
mod block;
mod footprint;
mod grid;
mod kernel;
mod view;

#[cfg(test)]
mod properties;

pub use arg::{HostArg, HostArray};
pub use grid::{GridAxis, GridPoint, GridShape, Tiles, Work, each, tiles};
pub use kernel::{HostKernel, Sample, SampleTaken};
pub use view::View;
