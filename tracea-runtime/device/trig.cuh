// Sine and cosine of a float of any size, without the local memory that the toolkit's reduction of large arguments takes.
#pragma once

namespace tracea {

// x = quadrant * pi/2 + remainder, |remainder| <= pi/4; the quadrant modulo 4.
struct QuarterTurns {
    float remainder;
    int quadrant;
};

// Cody and Waite: pi/2 as the sum of three floats. The first difference is exact: it is a multiple of 2^-23 and under 1.
__device__ __forceinline__ QuarterTurns reduce_small_angle(float x) {
    const float n = rintf(x * 0.636619747f);
    float r = fmaf(n, -1.57079637e+0f, x);
    r = fmaf(n, 4.37113883e-8f, r);
    r = fmaf(n, 1.71512451e-15f, r);
    return {r, static_cast<int>(n)};
}

// Payne and Hanek: x * 2/pi modulo 4 in integers. 24 bits of x meet the 96 bits of 2/pi that matter at its exponent; the
// bits before them are whole turns, the bits behind them too small.
__device__ __forceinline__ QuarterTurns reduce_large_angle(float x) {
    // 2/pi = 0.A2F9836E 4E441529 FC2757D1 F534DDC0 DB629599 3C439041 FE5163AB... in base 2^32
    constexpr unsigned a = 0xA2F9836Eu, b = 0x4E441529u, c = 0xFC2757D1u, d = 0xF534DDC0u, e = 0xDB629599u, f = 0x3C439041u;
    const unsigned bits = __float_as_uint(x), mantissa = (bits & 0x007fffffu) | 0x00800000u;
    // x = mantissa * 2^exponent, exponent >= -7 here. The window begins at bit exponent - 2 behind the point, so that the
    // product's top two bits count quarter turns.
    const int begin = static_cast<int>(bits >> 23 & 0xffu) - 150 - 2 + 32;  // from a zero word before the point
    const int whole = begin / 32, rest = begin % 32;
    const unsigned w0 = whole == 0 ? 0u : whole == 1 ? a : whole == 2 ? b : whole == 3 ? c : d;
    const unsigned w1 = whole == 0 ? a : whole == 1 ? b : whole == 2 ? c : whole == 3 ? d : e;
    const unsigned w2 = whole == 0 ? b : whole == 1 ? c : whole == 2 ? d : whole == 3 ? e : f;
    const unsigned w3 = whole == 0 ? c : whole == 1 ? d : whole == 2 ? e : whole == 3 ? f : 0xFE5163ABu;
    const unsigned high = __funnelshift_l(w1, w0, rest), middle = __funnelshift_l(w2, w1, rest);
    const unsigned low = __funnelshift_l(w3, w2, rest);
    // (high : middle : low) * mantissa modulo 2^96, of which the upper 64 bits are kept.
    const unsigned long long tail = static_cast<unsigned long long>(low) * mantissa;
    const unsigned long long product =
        (static_cast<unsigned long long>(high * mantissa) << 32) + static_cast<unsigned long long>(middle) * mantissa + (tail >> 32);
    // To the nearest quarter turn; the fraction as a signed number of 2^-62 of them.
    const long long fraction = static_cast<long long>(product << 2) >> 2;
    const int quadrant = static_cast<int>((product + (1ull << 61)) >> 62);
    const float r = static_cast<float>(static_cast<double>(fraction) * 3.4061215800865546e-19);  // pi/2 * 2^-62
    return {x < 0.0f ? -r : r, x < 0.0f ? -quadrant : quadrant};
}

__device__ __forceinline__ QuarterTurns reduce_angle(float x) {
    if (fabsf(x) <= 100000.0f) return reduce_small_angle(x);
    if (fabsf(x) <= 3.402823466e+38f) return reduce_large_angle(x);
    return {__uint_as_float(0x7fffffffu), 0};  // infinities and NaN have no sine
}

// Minimax polynomials on [-pi/4, pi/4]; errors 4e-9 and 1e-10.
__device__ __forceinline__ float sine_near_zero(float r) {
    const float s = r * r;
    float p = fmaf(s, -1.95172962e-4f, 8.33217800e-3f);
    p = fmaf(p, s, -1.66666552e-1f);
    return fmaf(p * s, r, r);
}

__device__ __forceinline__ float cosine_near_zero(float r) {
    const float s = r * r;
    float p = fmaf(s, 2.44384480e-5f, -1.38873677e-3f);
    p = fmaf(p, s, 4.16666456e-2f);
    p = fmaf(p, s, -0.5f);
    return fmaf(p, s, 1.0f);
}

__device__ __forceinline__ float sine_of_turns(QuarterTurns angle) {
    const float y = angle.quadrant & 1 ? cosine_near_zero(angle.remainder) : sine_near_zero(angle.remainder);
    return angle.quadrant & 2 ? -y : y;
}

__device__ __forceinline__ float sin(float x) { return sine_of_turns(reduce_angle(x)); }

__device__ __forceinline__ float cos(float x) {
    QuarterTurns angle = reduce_angle(x);
    angle.quadrant += 1;
    return sine_of_turns(angle);
}

}  // namespace tracea
