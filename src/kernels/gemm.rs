//! Matrix products `C = op(A) · op(B)`.
//!
//! The two letters of a name say how `A` and `B` lie in memory: `n` as it stands in the formula, `t` transposed. The innermost
//! axis is contiguous; the others may have any stride. Products of f16 and bf16 run on tensor cores and accumulate in f32; products
//! of f32 are exact multiply-adds, and the `tf32` kernels give f32 operands to the tensor cores, which keep 10 bits of mantissa.

use crate::prelude::*;

/// `C = A · B`, with A (M, K) and B (K, N)
#[kernel(T = [f16, bf16, f32])]
pub fn gemm_nn<T: Float, M: Dim, N: Dim, K: Dim>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (K, N)>,
    c: &mut Tensor<T, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]);
        });
        c[(i, j)] = acc.to();
    });
}

/// `C = A · Bᵀ`, with A (M, K) and B (N, K)
#[kernel(T = [f16, bf16, f32])]
pub fn gemm_nt<T: Float, M: Dim, N: Dim, K: Dim>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)].t());
        });
        c[(i, j)] = acc.to();
    });
}

/// `C = Aᵀ · B`, with A (K, M) and B (K, N)
#[kernel(T = [f16, bf16, f32])]
pub fn gemm_tn<T: Float, M: Dim, N: Dim, K: Dim>(
    a: &Tensor<T, (K, M)>,
    b: &Tensor<T, (K, N)>,
    c: &mut Tensor<T, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(k, i)].t(), b[(k, j)]);
        });
        c[(i, j)] = acc.to();
    });
}

/// `C = Aᵀ · Bᵀ`, with A (K, M) and B (N, K)
#[kernel(T = [f16, bf16, f32])]
pub fn gemm_tt<T: Float, M: Dim, N: Dim, K: Dim>(
    a: &Tensor<T, (K, M)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(k, i)].t(), b[(j, k)].t());
        });
        c[(i, j)] = acc.to();
    });
}

/// `C = A · B` for each of a batch, with A (B, M, K) and B (B, K, N)
#[kernel(T = [f16, bf16, f32])]
pub fn gemm_batched<T: Float, B: Dim, M: Dim, N: Dim, K: Dim>(
    a: &Tensor<T, (B, M, K)>,
    b: &Tensor<T, (B, K, N)>,
    c: &mut Tensor<T, (B, M, N)>,
) {
    tile!(for (batch, i, j) in (each(B), M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(batch, i, k)], b[(batch, k, j)]);
        });
        c[(batch, i, j)] = acc.to();
    });
}

/// [`gemm_nn`] on tensor cores in tf32
#[kernel]
pub fn gemm_nn_tf32<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (K, N)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)].to::<tf32>(), b[(k, j)].to::<tf32>());
        });
        c[(i, j)] = acc;
    });
}

/// [`gemm_nt`] on tensor cores in tf32
#[kernel]
pub fn gemm_nt_tf32<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)].to::<tf32>(), b[(j, k)].to::<tf32>().t());
        });
        c[(i, j)] = acc;
    });
}

/// [`gemm_tn`] on tensor cores in tf32
#[kernel]
pub fn gemm_tn_tf32<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f32, (K, M)>,
    b: &Tensor<f32, (K, N)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(k, i)].to::<tf32>().t(), b[(k, j)].to::<tf32>());
        });
        c[(i, j)] = acc;
    });
}

/// [`gemm_tt`] on tensor cores in tf32
#[kernel]
pub fn gemm_tt_tf32<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f32, (K, M)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(k, i)].to::<tf32>().t(), b[(j, k)].to::<tf32>().t());
        });
        c[(i, j)] = acc;
    });
}
