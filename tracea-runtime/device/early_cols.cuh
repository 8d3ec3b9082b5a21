// Column slices that a tile takes in after a loop: each warpgroup fetches its own copy before it, so that they come while it multiplies.
//
//     fetch_cols_early or fetch_elements_early; the loop; await_early_cols; early_cols, or early_cols_of_panel panel by panel
#pragma once

#include "tracea/cp_async.cuh"
#include "tracea/layout.cuh"
#include "tracea/ldmatrix.cuh"
#include "tracea/warpgroup.cuh"
#include "tracea/words.cuh"

namespace tracea {

// Where this warpgroup's slice lies: 32 columns are read at a time.
template <class L, class T>
__device__ __forceinline__ T* own_cols(T* slices) {
    return slices + static_cast<int>(threadIdx.x) / 128 * ((L::cols + 31) / 32 * 32);
}

// Columns [0, valid_cols) of a row that is aligned to ALIGN bytes, and zeros.
template <class L, int ALIGN, class T, class Rows>
__device__ __forceinline__ void fetch_cols_early(T* slices, Rows source, int valid_cols) {
    constexpr int element_bytes = static_cast<int>(sizeof(T)), pair = 2 * element_bytes;
    const auto from = source(0);
    T* const own = own_cols<L>(slices);
    // A slice that was fetched for a tile that another block has put together, and which nobody read, may still be on its way.
    cp_async_wait<0>();
    warpgroup_barrier();
#pragma unroll
    for (int first = 0; first < L::cols; first += 256) {
        const int col = first + static_cast<int>(threadIdx.x) % 128 * 2;
        if (col >= L::cols) break;
        const int exist = from.valid ? max(0, min(2, valid_cols - col)) : 0;
        if constexpr (ALIGN >= pair && pair >= 4) {
            cp_async<pair>(shared_address(own + col), exist > 0 ? from.pointer + col : from.pointer, exist * element_bytes);
        } else {
            own[col] = exist > 0 ? from.pointer[col] : T{};
            own[col + 1] = exist > 1 ? from.pointer[col + 1] : T{};
        }
    }
    cp_async_commit();
}

// The same of columns whose elements lie anywhere.
template <class L, class T, class Elements>
__device__ __forceinline__ void fetch_elements_early(T* slices, Elements source) {
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    static_assert(element_bytes >= 4, "fewer bytes do not come asynchronously");
    T* const own = own_cols<L>(slices);
    cp_async_wait<0>();
    warpgroup_barrier();
#pragma unroll
    for (int first = 0; first < L::cols; first += 128) {
        const int col = first + static_cast<int>(threadIdx.x) % 128;
        if (col >= L::cols) break;
        const auto from = source(col);
        cp_async<element_bytes>(shared_address(own + col), from.pointer, from.valid ? element_bytes : 0);
    }
    cp_async_commit();
}

// Until the slices that this warpgroup's threads have fetched are there for all of them.
__device__ __forceinline__ void await_early_cols() {
    cp_async_wait<0>();
    warpgroup_barrier();
}

// COUNT of a thread's columns from slot `first` on, two of each eight.
template <class L, int COUNT, class T, class E>
__device__ __forceinline__ void read_early_cols(E (&x)[L::col_size], int first, T* slices) {
    static_assert(L::warps_n == 1 && L::vec == 2 && COUNT % 2 == 0, "a thread has two of each eight columns");
    constexpr int pair = 2 * static_cast<int>(sizeof(T));
    const T* const own = own_cols<L>(slices);
    if constexpr (pair == 4) {
        // All rows of a matrix are the same eight columns.
        const unsigned at = shared_address(own + lane_index() / 8 * 8);
#pragma unroll
        for (int n = 0; n < COUNT; n += 8) {
            if (first + n >= L::col_size) break;
            unsigned pairs[4];
            ldmatrix_x4(pairs, at + (first + n) * 8);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (n + i < COUNT && first + n + i < L::col_size) x[first + n + i] = to<E>(element<T>(Words<4>{pairs[i / 2]}, i % 2));
            }
        }
    } else {
#pragma unroll
        for (int s = first; s < first + COUNT; s += 2) {
            if (s >= L::col_size) break;
            const auto v = load_words<pair>(own + L::col_at(s));
            x[s] = to<E>(element<T>(v, 0));
            x[s + 1] = to<E>(element<T>(v, 1));
        }
    }
}

template <class L, class T, class E>
__device__ __forceinline__ void early_cols(E (&x)[L::col_size], T* slices) {
    read_early_cols<L, L::col_size>(x, 0, slices);
}

// Those of a panel that has so many of a thread's registers, four in each eight columns.
template <class L, int REGISTERS, class T, class E>
__device__ __forceinline__ void early_cols_of_panel(E (&x)[L::col_size], int panel, T* slices) {
    constexpr int registers = L::size / L::row_blocks, beside = (registers + REGISTERS - 1) / REGISTERS;
    read_early_cols<L, REGISTERS / 2>(x, (L::row_blocks == 1 ? panel : panel % beside) * (REGISTERS / 2), slices);
}

}  // namespace tracea
