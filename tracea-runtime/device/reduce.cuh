// Reductions of tiles and slices, in the layout's order: within the thread, over lanes, over the parts of the block.
//
// Elements outside the tile's axes must hold the identity. Each function may be called by all threads of the layout only,
// which are those of tile_barrier().
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/layout.cuh"
#include "tracea/types.cuh"

namespace tracea {

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }

struct Sum {
    template <class T>
    static __device__ __forceinline__ T identity() {
        return T{};
    }
    static __device__ __forceinline__ float apply(float a, float b) { return a + b; }
    static __device__ __forceinline__ int apply(int a, int b) { return a + b; }
};
// Of a NaN and a number, the number: as Rust's f32::max.
struct Max {
    template <class T>
    static __device__ __forceinline__ T identity() {
        if constexpr (same<T, float>) {
            return -infinity();
        } else {
            return -2147483647 - 1;
        }
    }
    static __device__ __forceinline__ float apply(float a, float b) { return fmaxf(a, b); }
    static __device__ __forceinline__ int apply(int a, int b) { return a > b ? a : b; }
};
struct Min {
    template <class T>
    static __device__ __forceinline__ T identity() {
        if constexpr (same<T, float>) {
            return infinity();
        } else {
            return 2147483647;
        }
    }
    static __device__ __forceinline__ float apply(float a, float b) { return fminf(a, b); }
    static __device__ __forceinline__ int apply(int a, int b) { return a < b ? a : b; }
};

// ---- shared memory that a reduction needs, in bytes for 4-byte elements; 0: none, and no barrier either

template <class L>
constexpr int reduce_cols_scratch = L::cols_parts > 1 ? L::cols_parts * L::rows * 4 : 0;
template <class L>
constexpr int reduce_rows_scratch = L::rows_parts > 1 ? L::rows_parts * L::cols * 4 : 0;
template <class L>
constexpr int reduce_row_slice_scratch = L::rows_parts > 1 ? L::rows_parts * 4 : 0;
template <class L>
constexpr int reduce_col_slice_scratch = L::cols_parts > 1 ? L::cols_parts * 4 : 0;

// Enough for any reduction in the layout.
template <class L>
__host__ __device__ constexpr int reduce_scratch() {
    int bytes = reduce_cols_scratch<L>;
    if (bytes < reduce_rows_scratch<L>) bytes = reduce_rows_scratch<L>;
    if (bytes < reduce_row_slice_scratch<L>) bytes = reduce_row_slice_scratch<L>;
    if (bytes < reduce_col_slice_scratch<L>) bytes = reduce_col_slice_scratch<L>;
    return bytes;
}

// Over the lanes that differ in the bits LANES; all of them get the result.
template <class Op, int LANES, class T>
__device__ __forceinline__ T reduce_lanes(T x) {
#pragma unroll
    for (int bit = 16; bit > 0; bit /= 2) {
        if (LANES & bit) x = Op::apply(x, __shfl_xor_sync(0xffffffffu, x, bit));
    }
    return x;
}

// Whether the condition holds for any of COUNT registers of any thread of the warp.
template <int COUNT, class Condition>
__device__ __forceinline__ bool any_of_warp(Condition condition) {
    bool any = false;
#pragma unroll
    for (int reg = 0; reg < COUNT; ++reg) any |= condition(reg);
    return __any_sync(0xffffffffu, any);
}

// ---- a tile → a slice: what a thread holds itself is folded into its share, and shares are spread among the threads that hold
// the same row or column. Many tiles may be folded before their shares are spread.

template <class Op, class L, class T>
__device__ __forceinline__ void fold_cols(const T (&x)[L::size], T (&share)[L::row_size]) {
    constexpr int apart = 4;
    if constexpr (L::row_size == 1 && L::size % apart == 0) {
        // Of one row, by so many that do not wait for each other.
        T folded[apart];
#pragma unroll
        for (int r = 0; r < L::size; ++r) folded[r % apart] = r < apart ? x[r] : Op::apply(folded[r % apart], x[r]);
        share[0] = Op::apply(share[0], Op::apply(Op::apply(folded[0], folded[1]), Op::apply(folded[2], folded[3])));
    } else {
#pragma unroll
        for (int r = 0; r < L::size; ++r) share[L::row_slot(r)] = Op::apply(share[L::row_slot(r)], x[r]);
    }
}

// Some registers of one row, by pairs first, so that few wait for each other.
template <class Op, class S, class T, int N>
__device__ __forceinline__ T folded(const T (&x)[N], S) {
    static_assert((S::count & (S::count - 1)) == 0, "pairs of pairs");
    T fold[S::count];
#pragma unroll
    for (int i = 0; i < S::count; ++i) fold[i] = x[S::first + i];
#pragma unroll
    for (int half = S::count / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; ++i) fold[i] = Op::apply(fold[i], fold[i + half]);
    }
    return fold[0];
}

template <class Op, class L, class T, class S>
__device__ __forceinline__ void fold_cols(const T (&x)[L::size], T (&share)[L::row_size], S slots) {
    share[L::row_slot(S::first)] = Op::apply(share[L::row_slot(S::first)], folded<Op>(x, slots));
}

template <class Op, class L, class T>
__device__ __forceinline__ void fold_rows(const T (&x)[L::size], T (&share)[L::col_size]) {
#pragma unroll
    for (int r = 0; r < L::size; ++r) share[L::col_slot(r)] = Op::apply(share[L::col_slot(r)], x[r]);
}

// Each row's shares → one value, in every thread that holds the row.
template <class Op, class L, class T>
__device__ __forceinline__ void spread_cols(T (&out)[L::row_size], T* scratch) {
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) out[s] = reduce_lanes<Op, L::cols_lanes>(out[s]);
    if constexpr (L::cols_parts > 1) {
        tile_barrier();
        if (L::owns() && (lane_index() & L::cols_lanes) == 0) {
#pragma unroll
            for (int s = 0; s < L::row_size; ++s) scratch[L::cols_part() * L::rows + L::row_at(s)] = out[s];
        }
        tile_barrier();
#pragma unroll
        for (int s = 0; s < L::row_size; ++s) {
            out[s] = scratch[L::row_at(s)];
#pragma unroll
            for (int part = 1; part < L::cols_parts; ++part) {
                out[s] = Op::apply(out[s], scratch[part * L::rows + L::row_at(s)]);
            }
        }
    }
}

// Each column's shares → one value, in every thread that holds the column.
template <class Op, class L, class T>
__device__ __forceinline__ void spread_rows(T (&out)[L::col_size], T* scratch) {
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) out[s] = reduce_lanes<Op, L::rows_lanes>(out[s]);
    if constexpr (L::rows_parts > 1) {
        tile_barrier();
        if (L::owns() && (lane_index() & L::rows_lanes) == 0) {
#pragma unroll
            for (int s = 0; s < L::col_size; ++s) scratch[L::rows_part() * L::cols + L::col_at(s)] = out[s];
        }
        tile_barrier();
        // One thread a column, so that neighbours read neighbours and nobody else's sums are added again.
#pragma unroll 1
        for (int col = static_cast<int>(threadIdx.x); col < L::cols; col += L::threads) {
            T all = scratch[col];
#pragma unroll 8
            for (int part = 1; part < L::rows_parts; ++part) all = Op::apply(all, scratch[part * L::cols + col]);
            scratch[col] = all;
        }
        tile_barrier();
#pragma unroll
        for (int s = 0; s < L::col_size; ++s) out[s] = scratch[L::col_at(s)];
    }
}

// Over the columns: one value a row, in every thread that holds the row.
template <class Op, class L, class T>
__device__ __forceinline__ void reduce_cols(const T (&x)[L::size], T (&out)[L::row_size], T* scratch) {
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) out[s] = Op::template identity<T>();
    fold_cols<Op, L>(x, out);
    spread_cols<Op, L>(out, scratch);
}

// Over the rows: one value a column, in every thread that holds the column.
template <class Op, class L, class T>
__device__ __forceinline__ void reduce_rows(const T (&x)[L::size], T (&out)[L::col_size], T* scratch) {
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) out[s] = Op::template identity<T>();
    fold_rows<Op, L>(x, out);
    spread_rows<Op, L>(out, scratch);
}

// ---- a slice → one value, in every thread; each element counts once

template <class Op, class L, class T>
__device__ __forceinline__ T reduce_row_slice(const T (&x)[L::row_size], T* scratch) {
    T out = x[0];
#pragma unroll
    for (int s = 1; s < L::row_size; ++s) out = Op::apply(out, x[s]);
    out = reduce_lanes<Op, L::rows_lanes>(out);
    if constexpr (L::rows_parts > 1) {
        tile_barrier();
        if (L::owns_row() && (lane_index() & L::rows_lanes) == 0) scratch[L::rows_part()] = out;
        tile_barrier();
        out = scratch[0];
#pragma unroll 8
        for (int part = 1; part < L::rows_parts; ++part) out = Op::apply(out, scratch[part]);
    }
    return out;
}

template <class Op, class L, class T>
__device__ __forceinline__ T reduce_col_slice(const T (&x)[L::col_size], T* scratch) {
    T out = x[0];
#pragma unroll
    for (int s = 1; s < L::col_size; ++s) out = Op::apply(out, x[s]);
    out = reduce_lanes<Op, L::cols_lanes>(out);
    if constexpr (L::cols_parts > 1) {
        tile_barrier();
        if (L::owns_col() && (lane_index() & L::cols_lanes) == 0) scratch[L::cols_part()] = out;
        tile_barrier();
        out = scratch[0];
#pragma unroll 8
        for (int part = 1; part < L::cols_parts; ++part) out = Op::apply(out, scratch[part]);
    }
    return out;
}

}  // namespace tracea
