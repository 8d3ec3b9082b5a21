// Conversions between number formats, one PTX instruction a function. PTX ISA, "Data Movement and Conversion
// Instructions: cvt". The packed forms, bf16 and tf32 need sm_80.
#pragma once

namespace tracea {

__device__ __forceinline__ float cvt_f32_f16(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short cvt_f16_f32(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned short cvt_bf16_f32(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// The instruction's first source becomes the upper half.
__device__ __forceinline__ unsigned cvt_f16x2_f32(float lower, float upper) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
    return pair;
}

__device__ __forceinline__ unsigned cvt_bf16x2_f32(float lower, float upper) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
    return pair;
}

// Nearest, ties away from zero: the only rounding to tf32 that sm_80 has.
__device__ __forceinline__ float cvt_tf32_f32(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}

// Toward zero; saturates, NaN gives 0: Rust's `as i32`.
__device__ __forceinline__ int cvt_s32_f32(float value) {
    int integer;
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(integer) : "f"(value));
    return integer;
}

}  // namespace tracea
