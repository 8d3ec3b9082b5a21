//! Launches of hand-written kernels: on the CPU, and on a GPU where there is one.

mod cpu;
mod gpu;
mod kernels;
mod nvrtc;

/// `0, 1/8, 2/8, …`: exact in f32.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|number| number as f32 / 8.0).collect()
}
