// Scalar functions under the language's names. Accurate to a few units in the last place over the whole range, unless said
// otherwise; none uses local memory. Where the toolkit's built-in function is all that, it stands here.
#pragma once

#include "tracea/trig.cuh"

namespace tracea {

// One MUFU: relative error 2^-22; results under 2^-126 become 0. PTX ISA, "Floating Point Instructions: ex2".
__device__ __forceinline__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two instructions, where expf takes eight: x * log2(e) is rounded at its own size, so the relative error grows with |x|, by
// |x| * 2^-23. Kernels that take exponentials of whole tiles are bound by them otherwise.
__device__ __forceinline__ float exp(float x) { return exp2(x * 1.4426950408889634f); }

__device__ __forceinline__ float log(float x) { return ::logf(x); }
__device__ __forceinline__ float log2(float x) { return ::log2f(x); }
__device__ __forceinline__ float sqrt(float x) { return ::sqrtf(x); }
__device__ __forceinline__ float rsqrt(float x) { return ::rsqrtf(x); }
__device__ __forceinline__ float recip(float x) { return 1.0f / x; }
__device__ __forceinline__ float tanh(float x) { return ::tanhf(x); }
__device__ __forceinline__ float erf(float x) { return ::erff(x); }
__device__ __forceinline__ float pow(float x, float y) { return ::powf(x, y); }
__device__ __forceinline__ float floor(float x) { return ::floorf(x); }
__device__ __forceinline__ float ceil(float x) { return ::ceilf(x); }
__device__ __forceinline__ float round(float x) { return ::roundf(x); }  // halves away from zero, as Rust
__device__ __forceinline__ float abs(float x) { return ::fabsf(x); }
// Of a NaN and a number, the number: as Rust.
__device__ __forceinline__ float min(float a, float b) { return ::fminf(a, b); }
__device__ __forceinline__ float max(float a, float b) { return ::fmaxf(a, b); }

__device__ __forceinline__ int min(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int max(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ int abs(int a) { return a < 0 ? -a : a; }

}  // namespace tracea
