// Fragments to shared memory, one PTX instruction a function. PTX ISA, "Warp-level matrix store instruction: stmatrix"; sm_90.
//
// The way back of ldmatrix (ldmatrix.cuh): lane 8*j + i gives the address of row i of matrix j (16 bytes). Thread 4*g + t gives, of each matrix,
// elements (g, 2t) and (g, 2t+1) in one register; with _trans, elements (2t, g) and (2t+1, g).
#pragma once

namespace tracea {

__device__ __forceinline__ void stmatrix_x4(unsigned shared, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

__device__ __forceinline__ void stmatrix_x4_trans(unsigned shared, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

}  // namespace tracea
