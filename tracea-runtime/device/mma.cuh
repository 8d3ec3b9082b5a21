// Tensor-core products c += a * b of one warp, one PTX instruction a function. PTX ISA, "Warp-level matrix instructions:
// mma"; sm_80. Fragments: "Matrix Fragments for mma.m16n8k16 with floating point type" and "… for mma.m16n8k8".
//
// With g = lane / 4 and t = lane % 4:
//     c                 (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
//     16-bit  a, pairs  (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8)      b, pairs  (2t, g) (2t+8, g)
//     tf32    a         (g, t)  (g+8, t)  (g, t+4)  (g+8, t+4)       b         (t, g)  (t+4, g)
#pragma once

#include "tracea/types.cuh"

namespace tracea {

__device__ __forceinline__ void mma_m16n8k16_f16(float* c, const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_m16n8k16_bf16(float* c, const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_m16n8k8_tf32(float* c, const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 32 bytes of K: 16 elements of a 16-bit type, 8 of tf32.
template <class T>
__device__ __forceinline__ void mma(float* c, const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (same<T, f16>) {
        mma_m16n8k16_f16(c, a, b);
    } else if constexpr (same<T, bf16>) {
        mma_m16n8k16_bf16(c, a, b);
    } else {
        static_assert(same<T, tf32>, "tensor cores multiply f16, bf16 and tf32");
        mma_m16n8k8_tf32(c, a, b);
    }
}

}  // namespace tracea
