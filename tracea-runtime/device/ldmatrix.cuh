// Fragments from shared memory, one PTX instruction a function. PTX ISA, "Warp-level matrix load instruction: ldmatrix".
//
// Each instruction loads two or four 8x8 matrices of 16-bit elements. Lane 8*j + i gives the address of row i of matrix j (16
// bytes). Thread 4*g + t receives, of each matrix, elements (g, 2t) and (g, 2t+1) in one register; with _trans, elements
// (2t, g) and (2t+1, g). 32-bit elements pass as pairs: row i of a matrix is then four of them, and thread 4*g + t
// receives element (g, t).
#pragma once

namespace tracea {

__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

// Into the B fragments of two neighbouring blocks.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[2][2], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0][0]), "=r"(r[0][1]), "=r"(r[1][0]), "=r"(r[1][1])
                 : "r"(shared)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x2(unsigned (&r)[2], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared)
                 : "memory");
}

// Into the B fragments of two neighbouring blocks.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[2][2], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0][0]), "=r"(r[0][1]), "=r"(r[1][0]), "=r"(r[1][1])
                 : "r"(shared)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x2_trans(unsigned (&r)[2], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared)
                 : "memory");
}

}  // namespace tracea
