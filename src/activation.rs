//! Activations: scalar functions that kernels apply element by element, on the host and on the device.
//!
//! Write more of them in the same way; a kernel maps any `#[device]` function that is in scope.

use crate::prelude::*;

/// `x`
#[device]
pub fn identity(x: f32) -> f32 {
    x
}

/// `max(x, 0)`
#[device]
pub fn relu(x: f32) -> f32 {
    x.max(0.0)
}

/// `x` above zero, `slope · x` below
#[device]
pub fn leaky_relu(x: f32, slope: f32) -> f32 {
    if x > 0.0 { x } else { slope * x }
}

/// `x` above zero, `scale · (eˣ − 1)` below
#[device]
pub fn elu(x: f32, scale: f32) -> f32 {
    if x > 0.0 { x } else { scale * (x.exp() - 1.0) }
}

/// `x · Φ(x)`, Φ being the normal distribution function ([Hendrycks and Gimpel](https://arxiv.org/abs/1606.08415))
///
/// `max(x, 0) − a · Φ(−a)` with `a = |x|`, where `log₂ Φ(−a)` is a polynomial: it cancels nothing, and takes fewer instructions
/// than an error function. The polynomial is right to `2⁻²⁴ |x|`, and below zero to `2⁻¹³` of the result as far as −5.5, where
/// half precision ends.
#[device]
pub fn gelu(x: f32) -> f32 {
    let a = x.abs();
    let p = -9.3591177e-7 * a + 1.6014195e-5;
    let p = p * a - 7.397476e-5;
    let p = p * a - 4.052861e-4;
    let p = p * a + 7.4024037e-3;
    let p = p * a - 5.271746e-2;
    let p = p * a - 0.45914072;
    let p = p * a - 1.1511127;
    let p = p * a - 0.9999999;
    // Of an infinity the second term is 0, and of a NaN a NaN.
    x.max(0.0) - a.min(f32::MAX) * p.exp2()
}

/// The approximation of [`gelu`] by `tanh`, `½x · (1 + tanh u)` with `u = √(2/π) · (x + 0.044715 x³)` in section 2 of the same
/// paper, by way of `½ (1 + tanh u) = sigmoid(2u)`
#[device]
pub fn gelu_tanh(x: f32) -> f32 {
    x / (1.0 + (-1.5957691 * x * (1.0 + 0.044715 * x * x)).exp())
}

/// `1 / (1 + e⁻ˣ)`
#[device]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `x · sigmoid(x)`
#[device]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// The hyperbolic tangent
#[device]
pub fn tanh(x: f32) -> f32 {
    x.tanh()
}

/// `ln(1 + eˣ)`, without overflow
#[device]
pub fn softplus(x: f32) -> f32 {
    x.max(0.0) + (1.0 + (-x.abs()).exp()).log()
}
