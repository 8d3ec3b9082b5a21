//! 2-D convolution, channels last, as an implicit GEMM: no im2col buffer anywhere.
//!
//! Shapes: x (N, H, W, C), w (K, R, S, C), bias, scale and shift (K), residual and y (N, P, Q, K), where
//! `P = (H + 2·pad − dilation·(R − 1) − 1) / stride + 1` and Q alike from W and S; [`output_size`] computes them. Any number of channels works.
//! Sums and what follows them are f32; y is rounded once.

use crate::prelude::*;

/// Size of the output along one axis, 0 where the window does not fit.
pub fn output_size(input: usize, window: usize, stride: usize, pad: usize, dilation: usize) -> usize {
    let reach = dilation * window.saturating_sub(1) + 1;
    match (input + 2 * pad).checked_sub(reach) {
        Some(room) if stride > 0 => room / stride + 1,
        _ => 0,
    }
}

macro_rules! conv2d {
    ($($name:ident: $act:ident, $formula:literal;)*) => {$(
        #[doc = $formula]
        #[kernel(T = [f16, bf16])]
        pub fn $name<T: Float, N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
            x: &Tensor<T, (N, H, W, C)>, w: &Tensor<T, (K, R, S, C)>, bias: &Tensor<T, (K,)>, y: &mut Tensor<T, (N, P, Q, K)>,
            stride: i32, pad: i32, dilation: i32,
        ) {
            tile!(for (npq, ko) in (flat(N, P, Q), K) {
                let (n, p, q) = npq.coords();
                let mut acc = zeros::<f32>((npq, ko));
                tile!(for (r, s, c) in (each(R), each(S), C) {
                    let window = x[(n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)];
                    acc += dot(window, w[(ko, r, s, c)].t());
                });
                y[(n, p, q, ko)] = (acc + bias[ko].to::<f32>()).map($act).to();
            });
        }
    )*};
}

macro_rules! conv2d_residual {
    ($($name:ident: $act:ident, $formula:literal;)*) => {$(
        #[doc = $formula]
        #[kernel(T = [f16, bf16])]
        pub fn $name<T: Float, N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
            x: &Tensor<T, (N, H, W, C)>, w: &Tensor<T, (K, R, S, C)>, bias: &Tensor<T, (K,)>, residual: &Tensor<T, (N, P, Q, K)>,
            y: &mut Tensor<T, (N, P, Q, K)>, stride: i32, pad: i32, dilation: i32,
        ) {
            tile!(for (npq, ko) in (flat(N, P, Q), K) {
                let (n, p, q) = npq.coords();
                let mut acc = zeros::<f32>((npq, ko));
                tile!(for (r, s, c) in (each(R), each(S), C) {
                    let window = x[(n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)];
                    acc += dot(window, w[(ko, r, s, c)].t());
                });
                let sum = acc + bias[ko].to::<f32>() + residual[(n, p, q, ko)].to::<f32>();
                y[(n, p, q, ko)] = sum.map($act).to();
            });
        }
    )*};
}

macro_rules! conv2d_norm {
    ($($name:ident: $act:ident, $formula:literal;)*) => {$(
        #[doc = $formula]
        #[kernel(T = [f16, bf16])]
        pub fn $name<T: Float, N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
            x: &Tensor<T, (N, H, W, C)>, w: &Tensor<T, (K, R, S, C)>, scale: &Tensor<f32, (K,)>, shift: &Tensor<f32, (K,)>,
            y: &mut Tensor<T, (N, P, Q, K)>, stride: i32, pad: i32, dilation: i32,
        ) {
            tile!(for (npq, ko) in (flat(N, P, Q), K) {
                let (n, p, q) = npq.coords();
                let mut acc = zeros::<f32>((npq, ko));
                tile!(for (r, s, c) in (each(R), each(S), C) {
                    let window = x[(n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)];
                    acc += dot(window, w[(ko, r, s, c)].t());
                });
                y[(n, p, q, ko)] = (acc * scale[ko] + shift[ko]).map($act).to();
            });
        }
    )*};
}

macro_rules! conv2d_norm_residual {
    ($($name:ident: $act:ident, $formula:literal;)*) => {$(
        #[doc = $formula]
        #[kernel(T = [f16, bf16])]
        pub fn $name<T: Float, N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
            x: &Tensor<T, (N, H, W, C)>, w: &Tensor<T, (K, R, S, C)>, scale: &Tensor<f32, (K,)>, shift: &Tensor<f32, (K,)>,
            residual: &Tensor<T, (N, P, Q, K)>, y: &mut Tensor<T, (N, P, Q, K)>, stride: i32, pad: i32, dilation: i32,
        ) {
            tile!(for (npq, ko) in (flat(N, P, Q), K) {
                let (n, p, q) = npq.coords();
                let mut acc = zeros::<f32>((npq, ko));
                tile!(for (r, s, c) in (each(R), each(S), C) {
                    let window = x[(n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)];
                    acc += dot(window, w[(ko, r, s, c)].t());
                });
                let sum = acc * scale[ko] + shift[ko] + residual[(n, p, q, ko)].to::<f32>();
                y[(n, p, q, ko)] = sum.map($act).to();
            });
        }
    )*};
}

conv2d! {
    conv2d: identity, "`y = conv(x, w) + bias`";
    conv2d_relu: relu, "`y = relu(conv(x, w) + bias)`";
    conv2d_silu: silu, "`y = silu(conv(x, w) + bias)`";
}

conv2d_residual! {
    conv2d_residual: identity, "`y = conv(x, w) + bias + residual`";
    conv2d_relu_residual: relu, "`y = relu(conv(x, w) + bias + residual)`";
    conv2d_silu_residual: silu, "`y = silu(conv(x, w) + bias + residual)`";
}

conv2d_norm! {
    conv2d_norm: identity, "`y = conv(x, w) · scale + shift`: a batch norm of known statistics, folded";
    conv2d_norm_relu: relu, "`y = relu(conv(x, w) · scale + shift)`";
    conv2d_norm_silu: silu, "`y = silu(conv(x, w) · scale + shift)`";
}

conv2d_norm_residual! {
    conv2d_norm_residual: identity, "`y = conv(x, w) · scale + shift + residual`";
    conv2d_norm_relu_residual: relu, "`y = relu(conv(x, w) · scale + shift + residual)`: the end of a ResNet block";
    conv2d_norm_silu_residual: silu, "`y = silu(conv(x, w) · scale + shift + residual)`";
}
