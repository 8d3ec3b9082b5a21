//! What all kernels do with shared memory, played out on a machine without a GPU: who waits for whom, and what is there when it is read.

mod copies;
#[path = "../kernels/mod.rs"]
mod kernels;
mod roles;
mod trace;
