//! The runtime of Tracea: tensors, devices, NVRTC, launches, CPU execution and verification.
pub mod dim;
pub mod dtype;
pub mod plan;
