// Operands of a dot C (M x N) += A (M x K) · B (K x N): where they are, and how their fragments come into registers.
//
// An operand is a small value that names its place. Its `Left<Acc, PAIRS>` reads it as A for accumulators in layout Acc: all
// the warp's 16-row blocks of one k step (32 bytes of K: 16 elements of a 16-bit type, 8 of tf32). Its `Right<Acc, PAIRS>`
// reads it as B: a pair of 8-column blocks of one k step, which is what one ldmatrix.x4 brings (of the last pair, the second
// may be missing). Lane addresses are computed once, when the reader is made; steps and blocks add constants.
//
// PAIRS: a product may visit K in any order, if A and B agree. For tf32, mma wants k = t and t+4 of each eight in thread t;
// an accumulator fragment holds 2t and 2t+1. With PAIRS, the element 2t stands for t and 2t+1 for t+4, so register operands
// need no shuffles. (16-bit fragments agree with accumulators as they are.)
#pragma once

#include "tracea/convert.cuh"
#include "tracea/layout.cuh"
#include "tracea/ldmatrix.cuh"
#include "tracea/shared_tile.cuh"
#include "tracea/types.cuh"

namespace tracea {

template <class T>
constexpr int k_step = 32 / static_cast<int>(sizeof(stored<T>));

// Shared memory holds tf32 operands as they were, and mma ignores the low bits: rounding here makes that nearest.
template <class T, int N>
__device__ __forceinline__ void round_fragment(unsigned (&fragment)[N]) {
    if constexpr (same<T, tf32>) {
#pragma unroll
        for (int i = 0; i < N; ++i) fragment[i] = to_bits(cvt_tf32_f32(__uint_as_float(fragment[i])));
    }
}

// In shared memory as SharedTile<T, MN, K>: the rows are m of A, n of B.
template <class T, int MN, int K>
struct SharedKMajor {
    using type = T;
    using Tile = SharedTile<T, MN, K>;
    static constexpr int mn = MN, k = K;
    static constexpr bool in_registers = false, mn_major = false;
    static_assert(K % k_step<T> == 0, "whole k steps");

    const stored<T>* p;

    // Rows of 16 bytes are what ldmatrix takes, so 16-bit elements and tf32 differ only in what the bytes mean. `row` and
    // `chunk` are this lane's within the step's 16 rows x 2 chunks.
    struct Lane {
        unsigned row_address, swizzled;

        __device__ __forceinline__ Lane(const stored<T>* p, int row, int chunk)
            : row_address(shared_address(p) + row * Tile::row_bytes), swizzled((chunk ^ Tile::swizzle(row)) * 16) {}
        __device__ __forceinline__ unsigned at(int row, int step) const {
            return row_address + (swizzled ^ step * 32) + row * Tile::row_bytes;
        }
    };

    // tf32 by pairs: elements (row, 8 step + 2t) and the next.
    static __device__ __forceinline__ uint2 neighbours(const float* p, int row, int step) {
        const int k = step * 8 + lane_index() % 4 * 2;
        return *reinterpret_cast<const uint2*>(p + Tile::offset(row, k));
    }

    template <class Acc, bool PAIRS>
    struct Left {
        static_assert(Acc::rows == MN, "A has the rows of the accumulators");
        const stored<T>* p;
        Lane lane;

        __device__ __forceinline__ explicit Left(const SharedKMajor& a)
            : p(a.p), lane(a.p, Acc::warp_m() * Acc::warp_rows + lane_index() % 16, lane_index() / 16) {}

        __device__ __forceinline__ void load(unsigned (&fragment)[Acc::row_blocks][4], int step) const {
#pragma unroll
            for (int i = 0; i < Acc::row_blocks; ++i) {
                if constexpr (PAIRS && same<T, tf32>) {
                    const int row = Acc::warp_m() * Acc::warp_rows + i * 16 + lane_index() / 4;
                    const uint2 upper = neighbours(p, row, step), lower = neighbours(p, row + 8, step);
                    fragment[i][0] = upper.x, fragment[i][1] = lower.x, fragment[i][2] = upper.y, fragment[i][3] = lower.y;
                } else {
                    ldmatrix_x4(fragment[i], lane.at(i * 16, step));
                }
                round_fragment<T>(fragment[i]);
            }
        }
    };

    template <class Acc, bool PAIRS>
    struct Right {
        static_assert(Acc::cols == MN, "B has the columns of the accumulators");
        const stored<T>* p;
        Lane lane;

        __device__ __forceinline__ explicit Right(const SharedKMajor& b)
            : p(b.p), lane(b.p, Acc::warp_n() * Acc::warp_cols + lane_index() / 16 * 8 + lane_index() % 8, lane_index() / 8 % 2) {}

        __device__ __forceinline__ void load(unsigned (&fragment)[2][2], int pair, int step) const {
            const bool two = pair * 2 + 1 < Acc::col_blocks;
            if constexpr (PAIRS && same<T, tf32>) {
#pragma unroll
                for (int i = 0; i < (two ? 2 : 1); ++i) {
                    const int row = Acc::warp_n() * Acc::warp_cols + pair * 16 + i * 8 + lane_index() / 4;
                    const uint2 v = neighbours(p, row, step);
                    fragment[i][0] = v.x, fragment[i][1] = v.y;
                }
            } else if (two) {
                ldmatrix_x4(fragment, lane.at(pair * 16, step));
            } else {
                ldmatrix_x2(fragment[0], lane.at(pair * 16, step));
            }
            round_fragment<T>(fragment[0]);
            if (two) round_fragment<T>(fragment[1]);
        }
    };
};

// In shared memory as SharedTile<T, K, MN>: the rows are k. ldmatrix transposes 16-bit elements on the way; 32-bit ones are
// loaded one by one (with PAIRS, from four rows that the swizzle keeps apart).
template <class T, int MN, int K>
struct SharedMnMajor {
    using type = T;
    using Tile = SharedTile<T, K, MN>;
    static constexpr int mn = MN, k = K;
    static constexpr bool in_registers = false, mn_major = true;
    static_assert(K % k_step<T> == 0, "whole k steps");

    const stored<T>* p;

    // Offsets of this lane's chunk in one row of every step; `chunk` is its place in the warp's part, 0 or 1.
    template <int WARP_CHUNKS>
    struct Lane {
        unsigned row_offset;
        int chunk, swizzle;

        __device__ __forceinline__ Lane(int row, int warp, int chunk)
            : row_offset(row * Tile::row_bytes), chunk(warp * WARP_CHUNKS + chunk), swizzle(Tile::swizzle(row)) {}
        // `chunks` is even.
        __device__ __forceinline__ unsigned at(int chunks, int step) const {
            if constexpr (WARP_CHUNKS % 8 == 0 || (WARP_CHUNKS & (WARP_CHUNKS - 1)) == 0) {
                // The sum has no carries: few values that depend on the lane, each with many constants added.
                const int place = (chunk ^ swizzle ^ chunks % 8) + chunks / 8 * 8;
                return row_offset + place * 16 + step * k_step<T> * Tile::row_bytes;
            } else {
                return row_offset + ((chunk + chunks) ^ swizzle) * 16 + step * k_step<T> * Tile::row_bytes;
            }
        }
    };

    // For tf32, the rows of this thread's two elements in a step of eight.
    template <bool PAIRS>
    static __device__ __forceinline__ int element_row(int half) {
        const int t = lane_index() % 4;
        return PAIRS ? 2 * t + half : t + 4 * half;
    }
    static __device__ __forceinline__ unsigned element(const stored<T>* p, unsigned offset) {
        return *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(p) + offset + lane_index() / 4 % 4 * 4);
    }

    template <class Acc, bool PAIRS>
    struct Left {
        static_assert(Acc::rows == MN, "A has the rows of the accumulators");
        using Place = Lane<Acc::warp_rows / Tile::chunk>;
        const stored<T>* p;
        Place lane, other;  // the second is for tf32

        __device__ __forceinline__ explicit Left(const SharedMnMajor& a)
            : p(a.p),
              lane(same<T, tf32> ? Place(element_row<PAIRS>(0), Acc::warp_m(), lane_index() / 16)
                                 : Place(lane_index() / 16 * 8 + lane_index() % 8, Acc::warp_m(), lane_index() / 8 % 2)),
              other(element_row<PAIRS>(1), Acc::warp_m(), lane_index() / 16) {}

        __device__ __forceinline__ void load(unsigned (&fragment)[Acc::row_blocks][4], int step) const {
#pragma unroll
            for (int i = 0; i < Acc::row_blocks; ++i) {
                if constexpr (same<T, tf32>) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        fragment[i][e] = element(p, (e < 2 ? lane : other).at(i * 4 + e % 2 * 2, step));
                    }
                } else {
                    ldmatrix_x4_trans(fragment[i], shared_address(p) + lane.at(i * 2, step));
                }
                round_fragment<T>(fragment[i]);
            }
        }
    };

    template <class Acc, bool PAIRS>
    struct Right {
        static_assert(Acc::cols == MN, "B has the columns of the accumulators");
        using Place = Lane<Acc::warp_cols / Tile::chunk>;
        const stored<T>* p;
        Place lane, other;  // the second is for tf32

        __device__ __forceinline__ explicit Right(const SharedMnMajor& b)
            : p(b.p),
              lane(same<T, tf32> ? Place(element_row<PAIRS>(0), Acc::warp_n(), lane_index() / 16)
                                 : Place(lane_index() % 16, Acc::warp_n(), lane_index() / 16)),
              other(element_row<PAIRS>(1), Acc::warp_n(), lane_index() / 16) {}

        __device__ __forceinline__ void load(unsigned (&fragment)[2][2], int pair, int step) const {
            const bool two = pair * 2 + 1 < Acc::col_blocks;
            if constexpr (same<T, tf32>) {
#pragma unroll
                for (int i = 0; i < (two ? 2 : 1); ++i) {
                    fragment[i][0] = element(p, lane.at(pair * 4 + i * 2, step));
                    fragment[i][1] = element(p, other.at(pair * 4 + i * 2, step));
                }
            } else if (two) {
                ldmatrix_x4_trans(fragment, shared_address(p) + lane.at(pair * 2, step));
            } else {
                ldmatrix_x2_trans(fragment[0], shared_address(p) + lane.at(pair * 2, step));
            }
            round_fragment<T>(fragment[0]);
            if (two) round_fragment<T>(fragment[1]);
        }
    };
};

// A tile in accumulator layout L = Mma16816<M, K, WARPS, 1>, used as A: two neighbouring 16x8 blocks are one 16x16 block of
// A, register for register (the C and A fragments of mma.m16n8k16 were made so). All of it is converted when the reader is
// made, so that the floats need not live on through the product.
template <class T, class L>
struct RegisterA {
    using type = T;
    static constexpr int mn = L::rows, k = L::cols;
    static constexpr bool in_registers = true, mn_major = false;
    static_assert(L::warps_n == 1, "a warp holds whole rows of A");
    static_assert(L::cols % k_step<T> == 0, "whole k steps");

    const float (&x)[L::size];

    template <class Acc, bool PAIRS>
    struct Left {
        static_assert(Acc::rows == L::rows && Acc::warps_m == L::warps_m && Acc::warps_n == 1, "the same rows in the same warps");
        static constexpr int steps = L::cols / k_step<T>;
        unsigned packed[steps][L::row_blocks][4];

        __device__ __forceinline__ explicit Left(const RegisterA& a) {
#pragma unroll
            for (int step = 0; step < steps; ++step) {
#pragma unroll
                for (int i = 0; i < L::row_blocks; ++i) {
                    const int block = (i * L::col_blocks + step * L::col_blocks / steps) * 4;
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        if constexpr (same<T, tf32>) {
                            packed[step][i][e] = to_bits(to<tf32>(a.x[block + e % 2 * 2 + e / 2]));
                        } else {
                            packed[step][i][e] = pack2<T>(a.x[block + e * 2], a.x[block + e * 2 + 1]);
                        }
                    }
                }
            }
        }
        __device__ __forceinline__ void load(unsigned (&fragment)[Acc::row_blocks][4], int step) const {
#pragma unroll
            for (int i = 0; i < Acc::row_blocks; ++i) {
#pragma unroll
                for (int e = 0; e < 4; ++e) fragment[i][e] = packed[step][i][e];
            }
        }
    };
};

// A tile computed in layout L = MmaA<M, K, WARPS_M, WARPS_N>; E is the type of its registers.
template <class T, class L, class E = T>
struct FragmentA {
    using type = T;
    static constexpr int mn = L::rows, k = L::cols;
    static constexpr bool in_registers = true, mn_major = false;

    const E (&x)[L::size];

    template <class Acc, bool PAIRS>
    struct Left {
        static_assert(Acc::rows == L::rows && Acc::warps_m == L::warps_m && Acc::warps_n == L::warps_n, "the same warps");
        const E (&x)[L::size];

        __device__ __forceinline__ explicit Left(const FragmentA& a) : x(a.x) {}
        __device__ __forceinline__ void load(unsigned (&fragment)[Acc::row_blocks][4], int step) const {
#pragma unroll
            for (int i = 0; i < Acc::row_blocks; ++i) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if constexpr (same<T, tf32>) {
                        const int block = (i * L::col_blocks + step / 2) * 8 + step % 2 * 4;
                        fragment[i][e] = to_bits(to<tf32>(x[block + e % 2 * 2 + e / 2]));
                    } else {
                        const int block = (i * L::col_blocks + step) * 8;
                        fragment[i][e] = pack2_from<T>(x[block + e * 2], x[block + e * 2 + 1]);
                    }
                }
            }
        }
    };
};

// A tile computed in layout L = MmaB<K, N, WARPS_M, WARPS_N>; E is the type of its registers.
template <class T, class L, class E = T>
struct FragmentB {
    using type = T;
    static constexpr int mn = L::cols, k = L::rows;
    static constexpr bool in_registers = true, mn_major = false;

    const E (&x)[L::size];

    template <class Acc, bool PAIRS>
    struct Right {
        static_assert(Acc::cols == L::cols && Acc::warps_m == L::warps_m && Acc::warps_n == L::warps_n, "the same warps");
        const E (&x)[L::size];

        __device__ __forceinline__ explicit Right(const FragmentB& b) : x(b.x) {}
        __device__ __forceinline__ void load(unsigned (&fragment)[2][2], int pair, int step) const {
#pragma unroll
            for (int i = 0; i < (pair * 2 + 1 < Acc::col_blocks ? 2 : 1); ++i) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    if constexpr (same<T, tf32>) {
                        const int block = (step / 2 * L::col_blocks + pair * 2 + i) * 4 + step % 2 * 2;
                        fragment[i][e] = to_bits(to<tf32>(x[block + e]));
                    } else {
                        const int block = (step * L::col_blocks + pair * 2 + i) * 4;
                        fragment[i][e] = pack2_from<T>(x[block + e * 2], x[block + e * 2 + 1]);
                    }
                }
            }
        }
    };
};

}  // namespace tracea
