// Element types and the conversions between them.
//
// f16 and bf16 are storage: arithmetic happens in float, so they have no operators. A tf32 value is a float whose low 13
// bits were rounded away; in memory a tf32 tensor is plain floats (`stored<tf32>`), rounded where a dot reads them, or cut
// where wgmma reads them by itself.
#pragma once

#include "tracea/convert.cuh"

namespace tracea {

struct f16 {
    unsigned short bits;
};
struct bf16 {
    unsigned short bits;
};
struct tf32 {
    float value;
};

template <class A, class B>
constexpr bool same = false;
template <class A>
constexpr bool same<A, A> = true;

// What an element type looks like in memory.
template <class T>
struct Stored {
    using type = T;
};
template <>
struct Stored<tf32> {
    using type = float;
};
template <class T>
using stored = typename Stored<T>::type;

// ---- conversions: every pair goes through float, which holds each 16-bit format exactly, so each value is rounded once.
// Integers beyond 2^24 are rounded to float first, as `x as f32` is on the host.

template <class From>
__device__ __forceinline__ float to_float(From x) {
    if constexpr (same<From, f16>) {
        return cvt_f32_f16(x.bits);
    } else if constexpr (same<From, bf16>) {
        return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
    } else if constexpr (same<From, tf32>) {
        return x.value;
    } else if constexpr (same<From, bool>) {
        return x ? 1.0f : 0.0f;
    } else {
        static_assert(same<From, float> || same<From, int>, "not an element type");
        return static_cast<float>(x);
    }
}

template <class To, class From>
__device__ __forceinline__ To to(From x) {
    if constexpr (same<To, From>) {
        return x;
    } else if constexpr (same<To, float>) {
        return to_float(x);
    } else if constexpr (same<To, f16>) {
        return f16{cvt_f16_f32(to_float(x))};
    } else if constexpr (same<To, bf16>) {
        return bf16{cvt_bf16_f32(to_float(x))};
    } else if constexpr (same<To, tf32>) {
        return tf32{cvt_tf32_f32(to_float(x))};
    } else if constexpr (same<To, int>) {
        if constexpr (same<From, bool>) {
            return x ? 1 : 0;
        } else {
            return cvt_s32_f32(to_float(x));
        }
    } else {
        static_assert(same<To, bool>, "not an element type");
        if constexpr (same<From, int>) {
            return x != 0;
        } else {
            return to_float(x) != 0.0f;
        }
    }
}

template <class T>
__device__ __forceinline__ T zero() {
    return T{};
}

// ---- bits of one element, low end of the word

template <class T>
__device__ __forceinline__ unsigned to_bits(T x) {
    if constexpr (same<T, f16> || same<T, bf16>) {
        return x.bits;
    } else if constexpr (same<T, float>) {
        return __float_as_uint(x);
    } else if constexpr (same<T, tf32>) {
        return __float_as_uint(x.value);
    } else {
        return static_cast<unsigned>(x);
    }
}

template <class T>
__device__ __forceinline__ T from_bits(unsigned bits) {
    if constexpr (same<T, f16> || same<T, bf16>) {
        return T{static_cast<unsigned short>(bits)};
    } else if constexpr (same<T, float>) {
        return __uint_as_float(bits);
    } else if constexpr (same<T, tf32>) {
        return tf32{__uint_as_float(bits)};
    } else if constexpr (same<T, bool>) {
        return (bits & 0xffu) != 0;
    } else {
        return static_cast<T>(bits);
    }
}

// ---- two 16-bit elements in one register, the first in the lower half (what mma and 4-byte stores take)

template <class T>
__device__ __forceinline__ unsigned pack2(float lower, float upper) {
    if constexpr (same<T, f16>) {
        return cvt_f16x2_f32(lower, upper);
    } else {
        static_assert(same<T, bf16>, "pairs are of 16-bit types");
        return cvt_bf16x2_f32(lower, upper);
    }
}

// Elements that already have the type are joined, all others are converted together.
template <class T, class From>
__device__ __forceinline__ unsigned pack2_from(From lower, From upper) {
    if constexpr (same<T, From>) {
        return to_bits(lower) | to_bits(upper) << 16;
    } else {
        return pack2<T>(to_float(lower), to_float(upper));
    }
}

template <class T>
__device__ __forceinline__ void unpack2(unsigned pair, float& lower, float& upper) {
    static_assert(sizeof(T) == 2, "pairs are of 16-bit types");
    lower = to_float(from_bits<T>(pair & 0xffffu));
    upper = to_float(from_bits<T>(pair >> 16));
}

}  // namespace tracea
