// Changes of layout by way of shared memory: each value is written by one thread that holds it and read by all that want it.
//
// Scratch may still be read by other threads when one of these is called (it begins with a barrier), and is when it returns.
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/layout.cuh"
#include "tracea/shared_tile.cuh"
#include "tracea/store.cuh"
#include "tracea/words.cuh"

namespace tracea {

// Shared memory → registers, converted. The counterpart of write_tile (store.cuh).
template <class L, class Tile, class E>
__device__ __forceinline__ void read_tile(E (&x)[L::size], const typename Tile::element* shared) {
    using T = typename Tile::type;
    static_assert(Tile::rows == L::rows && Tile::cols == L::cols, "one shape");
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    constexpr int width = vector_bytes(16, L::vec * element_bytes, element_bytes), count = width / element_bytes;
#pragma unroll
    for (int r = 0; r < L::size; r += count) {
        const Words<width> v = load_words<width>(shared + Tile::offset(L::row(r), L::col(r)));
#pragma unroll
        for (int i = 0; i < count; ++i) x[r + i] = to<E>(element<T>(v, i));
    }
}

// A tile of any type and shape. Rows of whole 16-byte chunks are swizzled and moved as vectors; others lie plainly.
template <class From, class To, class T>
__device__ __forceinline__ void exchange(const T (&x)[From::size], T (&y)[To::size], T* scratch) {
    static_assert(From::rows == To::rows && From::cols == To::cols, "one shape");
    tile_barrier();
    if constexpr (From::cols * sizeof(T) % 16 == 0 && !same<T, tf32>) {
        using Tile = SharedTile<T, From::rows, From::cols>;
        write_tile<From, Tile>(x, scratch);
        tile_barrier();
        read_tile<To, Tile>(y, scratch);
    } else {
        if (From::owns()) {
#pragma unroll
            for (int r = 0; r < From::size; ++r) scratch[From::row(r) * From::cols + From::col(r)] = x[r];
        }
        tile_barrier();
#pragma unroll
        for (int r = 0; r < To::size; ++r) y[r] = scratch[To::row(r) * To::cols + To::col(r)];
    }
}

// A tile (rows, columns) of From → its transpose in To.
template <class From, class To, class T>
__device__ __forceinline__ void exchange_transposed(const T (&x)[From::size], T (&y)[To::size], T* scratch) {
    static_assert(From::rows == To::cols && From::cols == To::rows, "transposed shape");
    tile_barrier();
    if constexpr (From::cols * sizeof(T) % 16 == 0 && !same<T, tf32>) {
        using Tile = SharedTile<T, From::rows, From::cols>;
        write_tile<From, Tile>(x, scratch);
        tile_barrier();
#pragma unroll
        for (int r = 0; r < To::size; ++r) y[r] = scratch[Tile::offset(To::col(r), To::row(r))];
    } else {
        if (From::owns()) {
#pragma unroll
            for (int r = 0; r < From::size; ++r) scratch[From::row(r) * From::cols + From::col(r)] = x[r];
        }
        tile_barrier();
#pragma unroll
        for (int r = 0; r < To::size; ++r) y[r] = scratch[To::col(r) * From::cols + To::row(r)];
    }
}

// ---- slices

template <class L, class T>
__device__ __forceinline__ void write_rows(const T (&x)[L::row_size], T* shared) {
    if (!L::owns_row()) return;
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) shared[L::row_at(s)] = x[s];
}

template <class L, class T>
__device__ __forceinline__ void write_cols(const T (&x)[L::col_size], T* shared) {
    if (!L::owns_col()) return;
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) shared[L::col_at(s)] = x[s];
}

template <class L, class T>
__device__ __forceinline__ void read_rows(T (&x)[L::row_size], const T* shared) {
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) x[s] = shared[L::row_at(s)];
}

template <class L, class T>
__device__ __forceinline__ void read_cols(T (&x)[L::col_size], const T* shared) {
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) x[s] = shared[L::col_at(s)];
}

template <class From, class To, class T>
__device__ __forceinline__ void exchange_rows(const T (&x)[From::row_size], T (&y)[To::row_size], T* scratch) {
    static_assert(From::rows == To::rows, "one length");
    tile_barrier();
    write_rows<From>(x, scratch);
    tile_barrier();
    read_rows<To>(y, scratch);
}

template <class From, class To, class T>
__device__ __forceinline__ void exchange_cols(const T (&x)[From::col_size], T (&y)[To::col_size], T* scratch) {
    static_assert(From::cols == To::cols, "one length");
    tile_barrier();
    write_cols<From>(x, scratch);
    tile_barrier();
    read_cols<To>(y, scratch);
}

// A slice along one tile's rows as a slice along another's columns: what a transposed tile asks for.
template <class From, class To, class T>
__device__ __forceinline__ void exchange_rows_to_cols(const T (&x)[From::row_size], T (&y)[To::col_size], T* scratch) {
    static_assert(From::rows == To::cols, "one length");
    tile_barrier();
    write_rows<From>(x, scratch);
    tile_barrier();
    read_cols<To>(y, scratch);
}

template <class From, class To, class T>
__device__ __forceinline__ void exchange_cols_to_rows(const T (&x)[From::col_size], T (&y)[To::row_size], T* scratch) {
    static_assert(From::cols == To::rows, "one length");
    tile_barrier();
    write_cols<From>(x, scratch);
    tile_barrier();
    read_rows<To>(y, scratch);
}

}  // namespace tracea
