// Products of tiles, accumulated in registers.
#pragma once

#include "tracea/mma.cuh"
#include "tracea/operand.cuh"

namespace tracea {

// acc += a · b on tensor cores; Acc is an Mma16816. Fragments of step s + 1 are loaded before the products of step s are
// issued, so that shared memory's latency hides behind them.
template <class Acc, int K, class A, class B>
__device__ __forceinline__ void dot(float (&acc)[Acc::size], A a, B b) {
    using T = typename A::type;
    static_assert(same<T, typename B::type>, "operands of one type");
    static_assert(A::k == K && B::k == K, "operands of one length");
    constexpr int steps = K / k_step<T>;
    constexpr bool pairs = A::in_registers || B::in_registers || (A::mn_major && B::mn_major);

    const typename A::template Left<Acc, pairs> left(a);
    const typename B::template Right<Acc, pairs> right(b);
    unsigned fa[2][Acc::row_blocks][4], fb[2][Acc::col_blocks][2];
    left.load(fa[0], 0);
    right.load(fb[0], 0);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) {
            left.load(fa[(step + 1) % 2], step + 1);
            right.load(fb[(step + 1) % 2], step + 1);
        }
#pragma unroll
        for (int i = 0; i < Acc::row_blocks; ++i) {
#pragma unroll
            for (int n = 0; n < Acc::col_blocks; ++n) {
                // There and back: the next product shares one operand with the last.
                const int j = i % 2 == 0 ? n : Acc::col_blocks - 1 - n;
                mma<T>(acc + (i * Acc::col_blocks + j) * 4, fa[step % 2][i], fb[step % 2][j]);
            }
        }
    }
}

// acc += a · b in exact float arithmetic, for operands in shared memory; Acc is a Simt (or any Blocked of whole fours). Four
// steps of k at a time, so that operands of either major are read by 16 bytes wherever their rows run along.
template <class Acc, int K, class A, class B>
__device__ __forceinline__ void dot_fma(float (&acc)[Acc::size], A a, B b) {
    static_assert(same<typename A::type, float> && same<typename B::type, float>, "for other types there is dot");
    static_assert(A::k == K && B::k == K && A::mn == Acc::rows && B::mn == Acc::cols, "shapes agree");
    static_assert(K % 4 == 0 && Acc::vec == 4, "fours");
#pragma unroll 4
    for (int k = 0; k < K; k += 4) {
        float x[Acc::row_size][4], y[4][Acc::col_size];
#pragma unroll
        for (int i = 0; i < Acc::row_size; ++i) {
            if constexpr (A::mn_major) {
#pragma unroll
                for (int e = 0; e < 4; ++e) x[i][e] = a.p[A::Tile::offset(k + e, Acc::row_at(i))];
            } else {
                const float4 v = *reinterpret_cast<const float4*>(a.p + A::Tile::offset(Acc::row_at(i), k));
                x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
            }
        }
        if constexpr (B::mn_major) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
#pragma unroll
                for (int j = 0; j < Acc::col_size; j += 4) {
                    const float4 v = *reinterpret_cast<const float4*>(b.p + B::Tile::offset(k + e, Acc::col_at(j)));
                    y[e][j] = v.x, y[e][j + 1] = v.y, y[e][j + 2] = v.z, y[e][j + 3] = v.w;
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < Acc::col_size; ++j) {
                const float4 v = *reinterpret_cast<const float4*>(b.p + B::Tile::offset(Acc::col_at(j), k));
                y[0][j] = v.x, y[1][j] = v.y, y[2][j] = v.z, y[3][j] = v.w;
            }
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
            for (int i = 0; i < Acc::row_size; ++i) {
#pragma unroll
                for (int j = 0; j < Acc::col_size; ++j) {
                    float& c = acc[i * Acc::col_size + j];
                    c = fmaf(x[i][e], y[e][j], c);
                }
            }
        }
    }
}

}  // namespace tracea
