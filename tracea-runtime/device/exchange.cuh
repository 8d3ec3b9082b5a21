// Changes of layout by way of shared memory: each value is written by one thread that holds it and read by all that want it.
//
// Scratch may still be read by other threads when one of these is called (it begins with a barrier), and is when it returns.
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/layout.cuh"
#include "tracea/ldmatrix.cuh"
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

// ---- transposes

// Scratch of a transpose: rows as they come, in 16-byte chunks that are permuted by the row, so that neither side meets a bank
// twice. A quarter of a warp writes a row's eight chunks, or a whole one writes pairs to one chunk of eight rows (accumulators);
// whoever reads wants one chunk column again, of
//
//     16-bit elements   rows 8q + 2m and 8q + 2m + 1 for four q, one m: one matrix of the ldmatrix below
//     words             rows 4q + v for eight q, one v: the v-th words of eight threads' vectors
//
// So a row's permutation joins the bits that differ on either side. As in SharedTile, rows of fewer chunks take fewer bits.
template <class T, int ROWS, int COLS>
struct TurningTile {
    using Plain = SharedTile<T, ROWS, COLS>;
    using type = T;
    using element = typename Plain::element;

    static constexpr int rows = ROWS, cols = COLS;
    // The permutation repeats after so many rows.
    static constexpr int period = 32;

    static __device__ __forceinline__ constexpr int swizzle(int row) {
        if constexpr (sizeof(T) == 2) {
            return Plain::swizzle(row ^ (row >> 2 & 6));
        } else {
            return ((row >> 2) ^ (row << 1 & 6)) & Plain::swizzle_mask;
        }
    }

    static __device__ __forceinline__ constexpr int offset(int row, int col) {
        return row * COLS + ((col / Plain::chunk) ^ swizzle(row)) * Plain::chunk + col % Plain::chunk;
    }
};

// Whether a warp holds blocks of eight rows and 32 columns, eight columns of one row a thread: what four transposed matrices
// give, if matrix m is made of rows {8q + 2m, 8q + 2m + 1 : q = 0 … 3}. Thread 4*g + t then has rows 8t … 8t + 7 of column g.
template <class L>
constexpr bool holds_turned_matrices = false;
template <int ROWS, int COLS, int THREADS_M>
constexpr bool holds_turned_matrices<Blocked<ROWS, COLS, THREADS_M, 4, 8>> = true;

template <class To, class Tile>
__device__ __forceinline__ void read_turned_matrices(typename Tile::type (&y)[To::size], const typename Tile::element* shared) {
    using T = typename Tile::type;
    const int matrix = lane_index() / 8, in_matrix = lane_index() % 8;
    const int row = in_matrix / 2 * 8 + matrix * 2 + in_matrix % 2;
#pragma unroll
    for (int r = 0; r < To::size; r += 8) {
        const int first_row = To::col_slot(r) / 8 * Tile::period, col = To::row(r) & ~7;
        unsigned words[4];
        ldmatrix_x4_trans(words, shared_address(shared + Tile::offset(row, col) + first_row * Tile::cols));
#pragma unroll
        for (int i = 0; i < 8; ++i) y[r + i] = from_bits<T>(words[i / 2] >> i % 2 * 16 & 0xffffu);
    }
}

// A tile (rows, columns) of From → its transpose in To, converted to T on the way.
template <class From, class To, class E, class T>
__device__ __forceinline__ void exchange_transposed(const E (&x)[From::size], T (&y)[To::size], T* scratch) {
    static_assert(From::rows == To::cols && From::cols == To::rows, "transposed shape");
    tile_barrier();
    if constexpr (From::cols * sizeof(T) % 16 == 0 && !same<T, tf32>) {
        using Tile = TurningTile<T, From::rows, From::cols>;
        write_tile<From, Tile>(x, scratch);
        tile_barrier();
        if constexpr (sizeof(T) == 2 && holds_turned_matrices<To>) {
            read_turned_matrices<To, Tile>(y, scratch);
        } else {
#pragma unroll
            for (int r = 0; r < To::size; ++r) y[r] = scratch[Tile::offset(To::col(r), To::row(r))];
        }
    } else {
        if (From::owns()) {
#pragma unroll
            for (int r = 0; r < From::size; ++r) scratch[From::row(r) * From::cols + From::col(r)] = to<T>(x[r]);
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
