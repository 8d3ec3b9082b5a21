//! Linear layers: product, bias, activation, and a residual where wanted, in one kernel.
//!
//! Shapes: x (M, K), w (N, K), bias (N), residual and y (M, N). Sums, bias and activation are f32; y is rounded once.

use crate::prelude::*;

macro_rules! linear {
    ($($name:ident: $act:ident, $formula:literal;)*) => {$(
        #[doc = $formula]
        #[kernel(T = [f16, bf16])]
        pub fn $name<T: Float, M: Dim, N: Dim, K: Dim>(
            x: &Tensor<T, (M, K)>, w: &Tensor<T, (N, K)>, bias: &Tensor<T, (N,)>, y: &mut Tensor<T, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K {
                    acc += dot(x[(i, k)], w[(j, k)].t());
                });
                y[(i, j)] = (acc + bias[j].to::<f32>()).map($act).to();
            });
        }
    )*};
}

macro_rules! linear_residual {
    ($($name:ident: $act:ident, $formula:literal;)*) => {$(
        #[doc = $formula]
        #[kernel(T = [f16, bf16])]
        pub fn $name<T: Float, M: Dim, N: Dim, K: Dim>(
            x: &Tensor<T, (M, K)>, w: &Tensor<T, (N, K)>, bias: &Tensor<T, (N,)>, residual: &Tensor<T, (M, N)>,
            y: &mut Tensor<T, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K {
                    acc += dot(x[(i, k)], w[(j, k)].t());
                });
                let activated = (acc + bias[j].to::<f32>()).map($act);
                y[(i, j)] = (activated + residual[(i, j)].to::<f32>()).to();
            });
        }
    )*};
}

linear! {
    linear: identity, "`y = x · wᵀ + bias`";
    linear_relu: relu, "`y = relu(x · wᵀ + bias)`";
    linear_gelu: gelu, "`y = gelu(x · wᵀ + bias)`";
    linear_gelu_tanh: gelu_tanh, "`y = gelu_tanh(x · wᵀ + bias)`";
    linear_silu: silu, "`y = silu(x · wᵀ + bias)`";
}

linear_residual! {
    linear_residual: identity, "`y = x · wᵀ + bias + residual`";
    linear_relu_residual: relu, "`y = relu(x · wᵀ + bias) + residual`";
    linear_gelu_residual: gelu, "`y = gelu(x · wᵀ + bias) + residual`";
    linear_gelu_tanh_residual: gelu_tanh, "`y = gelu_tanh(x · wᵀ + bias) + residual`";
    linear_silu_residual: silu, "`y = silu(x · wᵀ + bias) + residual`";
}
