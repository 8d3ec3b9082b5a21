// Products of tiles, accumulated in registers.
#pragma once

#include "tracea/mma.cuh"
#include "tracea/operand.cuh"

namespace tracea {

// acc += a · b on tensor cores; Acc is an Mma16816.
//
// Fragments are loaded before they are wanted, so that shared memory's latency hides behind products: those of A a whole k
// step ahead, those of B by pairs of 8-column blocks, with eight products or more in between. (Holding a step of B as well
// would take twice as many registers as A in attention, where a warp has all the columns.)
template <class Acc, int K, class A, class B>
__device__ __forceinline__ void dot(float (&acc)[Acc::size], A a, B b) {
    using T = typename A::type;
    static_assert(same<T, typename B::type>, "operands of one type");
    static_assert(A::k == K && B::k == K, "operands of one length");
    constexpr bool k_pairs = A::in_registers || B::in_registers || (A::mn_major && B::mn_major);
    constexpr int steps = K / k_step<T>, pairs = (Acc::col_blocks + 1) / 2, total = steps * pairs;
    constexpr int ahead = Acc::row_blocks < 4 ? 4 / Acc::row_blocks : 1, ring = ahead + 1;

    const typename A::template Left<Acc, k_pairs> left(a);
    const typename B::template Right<Acc, k_pairs> right(b);
    unsigned fa[2][Acc::row_blocks][4], fb[ring][2][2];
    left.load(fa[0], 0);
#pragma unroll
    for (int n = 0; n < ahead && n < total; ++n) right.load(fb[n], n % pairs, n / pairs);
#pragma unroll
    for (int n = 0; n < total; ++n) {
        const int pair = n % pairs, step = n / pairs, next = n + ahead;
        if (next < total) right.load(fb[next % ring], next % pairs, next / pairs);
        if (pair == 0 && step + 1 < steps) left.load(fa[(step + 1) % 2], step + 1);
#pragma unroll
        for (int j = 0; j < 2 && pair * 2 + j < Acc::col_blocks; ++j) {
#pragma unroll
            for (int m = 0; m < Acc::row_blocks; ++m) {
                // There and back: the next product shares one operand with the last.
                const int i = j == 0 ? m : Acc::row_blocks - 1 - m;
                mma<T>(acc + (i * Acc::col_blocks + pair * 2 + j) * 4, fa[step % 2][i], fb[n % ring][j]);
            }
        }
    }
}

// acc += a · b in exact float arithmetic, for operands in shared memory; Acc is a Simt, or a Blocked of single columns where
// rows of B run along k. Four steps of k at a time, so that operands of either major are read by 16 bytes wherever their rows
// run along. Unrolled, places in a tile fold to constants and a few values for each thread; where columns of B are read by four
// terms each, more than sixteen fill the registers.
template <class Acc, int K, class A, class B>
__device__ __forceinline__ void dot_fma(float (&acc)[Acc::size], A a, B b) {
    static_assert(same<typename A::type, float> && same<typename B::type, float>, "for other types there is dot");
    static_assert(A::k == K && B::k == K && A::mn == Acc::rows && B::mn == Acc::cols, "shapes agree");
    static_assert(K % 4 == 0 && (Acc::vec == 4 || !B::mn_major), "fours");
    static_assert((Acc::threads_m & (Acc::threads_m - 1)) == 0, "a thread's rows have its own bits, and others");
    constexpr int unrolled = B::mn_major ? K / 4 : 4;
#pragma unroll unrolled
    for (int k = 0; k < K; k += 4) {
        float y[4][Acc::col_size];
        if constexpr (B::mn_major) {
            constexpr int span = Acc::threads_n * 4;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
#pragma unroll
                for (int j = 0; j < Acc::col_size; j += 4) {
                    const int at = B::Tile::template offset<span>(k + e, Acc::thread_n() * 4, j / 4 * span);
                    const float4 v = *reinterpret_cast<const float4*>(b.p + at);
                    y[e][j] = v.x, y[e][j + 1] = v.y, y[e][j + 2] = v.z, y[e][j + 3] = v.w;
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < Acc::col_size; ++j) {
                const int at = B::Tile::offset_of_row(Acc::col_base(), Acc::col_offset(j), k);
                const float4 v = *reinterpret_cast<const float4*>(b.p + at);
                y[0][j] = v.x, y[1][j] = v.y, y[2][j] = v.z, y[3][j] = v.w;
            }
        }
#pragma unroll
        for (int i = 0; i < Acc::row_size; ++i) {
            float x[4];
            if constexpr (A::mn_major) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    x[e] = a.p[A::Tile::template offset<Acc::threads_m>(k + e, Acc::thread_m(), i * Acc::threads_m)];
                }
            } else {
                const int at = A::Tile::offset_of_row(Acc::thread_m(), i * Acc::threads_m, k);
                const float4 v = *reinterpret_cast<const float4*>(a.p + at);
                x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) {
#pragma unroll
                for (int j = 0; j < Acc::col_size; ++j) {
                    float& c = acc[i * Acc::col_size + j];
                    c = fmaf(x[e], y[e][j], c);
                }
            }
        }
    }
}

}  // namespace tracea
