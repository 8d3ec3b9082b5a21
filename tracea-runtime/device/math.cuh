// Scalar functions under the language's names. Accurate to a few units in the last place over the whole range, unless said
// otherwise; none uses local memory. Where the toolkit's built-in function is all that, it stands here.
//
// Division is the operator: kernels are compiled with -prec-div=false, so that `a / b` is PTX's div.full and `1 / b` its
// rcp.approx. Both are right to 2 units in the last place, subnormal numbers included, and neither branches.
#pragma once

#include "tracea/trig.cuh"

namespace tracea {

// One MUFU: relative error 2^-22; results under 2^-126 become 0. PTX ISA, "Floating Point Instructions: ex2".
__device__ __forceinline__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// p / (a + b) of a number `a` between 1 and 2^100 and a `b` that is not negative. Nothing has to ask how large a quarter of the sum is: its
// reciprocal is a normal number. Right to 2 units in the last place, subnormal numbers included. PTX ISA, "Floating Point Instructions: rcp".
__device__ __forceinline__ float over_sum(float p, float a, float b) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaf(b, 0.25f, a * 0.25f)));
    return p * 0.25f * y;
}

// Two instructions, where expf takes several times as many: x * log2(e) is rounded at its own size, so the relative error grows with |x|, by
// |x| * 2^-23. Kernels that take exponentials of whole tiles are bound by them otherwise.
__device__ __forceinline__ float exp(float x) { return exp2(x * 1.4426950408889634f); }

// How fast differences to x become exponents of two: `most`, between 1 and 2, or less where |x| is 2^24 or more, whose neighbours differ by 2 or
// more. The product with x stays under 2^25, so that its rounding moves an exponent by no more than 1: no exponential of a difference that
// is not positive overflows 16 bits, as it would beside masks of -1e9. Slower rates are powers of two, which round nothing.
__device__ __forceinline__ float exponent_rate(float x, float most) {
    // 2^(24 - e) of 2^e <= |x| < 2^(e + 1), or what exceeds any positive float as an unsigned number.
    const unsigned slower = 0x8b000000u - (__float_as_uint(x) & 0x7f800000u);
    const unsigned rate = __float_as_uint(most);
    return __uint_as_float(slower < rate ? slower : rate);
}

__device__ __forceinline__ float log(float x) { return ::logf(x); }
__device__ __forceinline__ float log2(float x) { return ::log2f(x); }
__device__ __forceinline__ float sqrt(float x) { return ::sqrtf(x); }
__device__ __forceinline__ float rsqrt(float x) { return ::rsqrtf(x); }
__device__ __forceinline__ float recip(float x) { return 1.0f / x; }
__device__ __forceinline__ float tanh(float x) { return ::tanhf(x); }
__device__ __forceinline__ float pow(float x, float y) { return ::powf(x, y); }
__device__ __forceinline__ float floor(float x) { return ::floorf(x); }
__device__ __forceinline__ float ceil(float x) { return ::ceilf(x); }
__device__ __forceinline__ float round(float x) { return ::roundf(x); }  // halves away from zero, as Rust
__device__ __forceinline__ float abs(float x) { return ::fabsf(x); }
// Of a NaN and a number, the number: as Rust.
__device__ __forceinline__ float min(float a, float b) { return ::fminf(a, b); }
__device__ __forceinline__ float max(float a, float b) { return ::fmaxf(a, b); }

// Within [-limit, limit]; of a NaN, a NaN. PTX ISA, "Floating Point Instructions: min, max": .NaN needs sm_80.
__device__ __forceinline__ float clamped(float x, float limit) {
    float y;
    asm("{\n\t"
        ".reg .f32 below;\n\t"
        "min.NaN.f32 below, %1, %2;\n\t"
        "max.NaN.f32 %0, below, %3;\n\t"
        "}"
        : "=f"(y)
        : "f"(x), "f"(limit), "f"(-limit));
    return y;
}

// One MUFU: relative error 2^-22.9; for normal numbers. PTX ISA, "Floating Point Instructions: rsqrt".
__device__ __forceinline__ float rsqrt_of_normal(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// erf x = t / sqrt(1 + t^2), t = x * P(x^2): 15 instructions where erff takes 22. Of a relative error of t, erf sees no more than
// 1 / (1 + t^2), so a polynomial of low degree serves all the way; this one was fitted with that weight, and leaves 2^-24.5.
// Over all floats, erf is right to 3.6 units in the last place with a reciprocal root that is rounded to nearest, and to 6 (6.7
// roundings) at the worst that PTX lets it be.
//
// At the limit, t is 2^12 and 1 + t^2 rounds to 2^24: erf is exactly 1 from there on.
__device__ __forceinline__ float erf(float x) {
    x = clamped(x, 3.95480871f);
    const float s = x * x;
    float p = fmaf(s, 2.18815131e-7f, -1.59315584e-6f);
    p = fmaf(p, s, 2.51254496e-5f);
    p = fmaf(p, s, 9.33377014e-5f);
    p = fmaf(p, s, 1.46019261e-3f);
    p = fmaf(p, s, 1.25897983e-2f);
    p = fmaf(p, s, 8.04802924e-2f);
    p = fmaf(p, s, 3.42219710e-1f);
    p = fmaf(p, s, 1.12837923f);
    const float t = x * p;
    return t * rsqrt_of_normal(fmaf(t, t, 1.0f));
}

__device__ __forceinline__ int min(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int max(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ int abs(int a) { return a < 0 ? -a : a; }
// By the count's last five bits, as Rust's wrapping shifts.
__device__ __forceinline__ int shift_left(int a, int count) { return static_cast<int>(unsigned(a) << (count & 31)); }
__device__ __forceinline__ int shift_right(int a, int count) { return a >> (count & 31); }

}  // namespace tracea
