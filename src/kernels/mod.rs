//! Ready kernels, each written in the language itself: read one, copy it, change it.
//!
//! | module | kernels |
//! |---|---|
//! | [`gemm`] | products in four transpositions, batched products |
//! | [`linear`] | product, bias and activation, with a residual where wanted |
//! | [`conv`] | 2-D convolution with bias or batch norm, activation, and a residual where wanted |
//! | [`attention`] | attention with grouped queries, causal where wanted |
//! | [`softmax`] | softmax over rows |
//! | [`norm`] | layer norm and rms norm over rows |

pub mod attention;
pub mod conv;
pub mod gemm;
pub mod linear;
pub mod norm;
pub mod softmax;
