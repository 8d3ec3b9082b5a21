// Registers → global memory. Nothing is written outside the tensor.
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/copy.cuh"
#include "tracea/layout.cuh"
#include "tracea/shared_tile.cuh"
#include "tracea/shifted_rows.cuh"
#include "tracea/staged_rows.cuh"
#include "tracea/words.cuh"

namespace tracea {

// Where a row of a tile begins (its first column), or where one element goes. An invalid one is not written.
template <class T>
struct RowTarget {
    T* pointer;
    bool valid;
};

// By rows, converted to T, with vector writes where the layout holds neighbouring columns: of at most ALIGN bytes (the alignment of
// the row pointers), or of whole chunks that lie across the vectors. Of each row, columns [0, valid_cols) exist, WHOLE vectors
// of ALIGN bytes where the caller knows so.
template <class L, int ALIGN, class T, bool WHOLE = false, class E, class Rows>
__device__ __forceinline__ void store_tile(const E (&x)[L::size], Rows target, int valid_cols) {
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    constexpr int width = vector_bytes(ALIGN, L::vec * element_bytes, element_bytes), count = width / element_bytes;
    if constexpr (Chunks<L, T>::shifted(ALIGN)) {
        store_tile_shifted<L, ALIGN, T>(x, target, valid_cols);
        return;
    }
    if (!L::owns()) return;
    // A vector exists wholly or not at all unless the edge cuts one: only unusual strides bring that about.
    const bool whole = WHOLE || count == 1 || valid_cols >= L::cols || valid_cols % count == 0;
    const int exist = valid_cols - L::col_base();
    if (whole) {
#pragma unroll
        for (int r = 0; r < L::size; r += count) {
            const auto at = target(L::row(r));
            const int col = L::col_offset(L::col_slot(r));
            if (at.valid && col < exist) store_words<width>(fixed_base(at.pointer + L::col_base()) + col, words_of<T, width>(x, r));
        }
    } else {
#pragma unroll
        for (int r = 0; r < L::size; ++r) {
            const auto at = target(L::row(r));
            const int col = L::col_offset(L::col_slot(r));
            if (at.valid && col < exist) at.pointer[L::col_base() + col] = to<T>(x[r]);
        }
    }
}

// Elements to anywhere: target(row, col) gives each one's place.
template <class L, class T, class E, class Elements>
__device__ __forceinline__ void store_tile_elements(const E (&x)[L::size], Elements target) {
    if (!L::owns()) return;
#pragma unroll
    for (int r = 0; r < L::size; ++r) {
        const auto at = target(L::row(r), L::col(r));
        if (at.valid) *at.pointer = to<T>(x[r]);
    }
}

// Slices are replicated: one thread writes each element.
template <class L, class T, class E, class Elements>
__device__ __forceinline__ void store_rows(const E (&x)[L::row_size], Elements target) {
    if (!L::owns_row()) return;
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) {
        const auto at = target(L::row_at(s));
        if (at.valid) *at.pointer = to<T>(x[s]);
    }
}

template <class L, class T, class E, class Elements>
__device__ __forceinline__ void store_cols(const E (&x)[L::col_size], Elements target) {
    if (!L::owns_col()) return;
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) {
        const auto at = target(L::col_at(s));
        if (at.valid) *at.pointer = to<T>(x[s]);
    }
}

// Registers → a tile in shared memory, converted. The layout's neighbouring columns are written together: pairs of an
// accumulator fragment, 4 bytes from each of four lanes, fill one 16-byte chunk, and the swizzle sends the chunks of the
// fragment's eight rows to different banks.
template <class L, class Tile, class E>
__device__ __forceinline__ void write_tile(const E (&x)[L::size], typename Tile::element* shared) {
    using T = typename Tile::type;
    static_assert(Tile::rows == L::rows && Tile::cols == L::cols, "one shape");
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    constexpr int width = vector_bytes(16, L::vec * element_bytes, element_bytes), count = width / element_bytes;
    if (!L::owns()) return;
#pragma unroll
    for (int r = 0; r < L::size; r += count) {
        store_words<width>(shared + Tile::offset(L::row(r), L::col(r)), words_of<T, width>(x, r));
    }
}

// threadIdx.x, read from the special register here: what is computed from it is computed here too, not kept in registers since some
// earlier place that needed the same (row addresses, all through a main loop).
__device__ __forceinline__ int thread_index_anew() {
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

// By way of shared memory. `shared` must be free when any thread comes here; on return, other threads may still be reading it.
template <class L, class Staging, int THREADS, int ALIGN, class E, class Rows>
__device__ __forceinline__ void store_tile_staged(const E (&x)[L::size], typename Staging::element* shared, Rows target,
                                                  int valid_cols) {
    using T = typename Staging::element;
    constexpr int last_chunk = Staging::cols - 16 / static_cast<int>(sizeof(T));
    write_tile<L, Staging>(x, shared);
    tile_barrier();
    store_staged_rows<T, ALIGN, Staging::rows, Staging::cols, THREADS, 8, 1>(
        thread_index_anew(), 0, Staging::cols, valid_cols, target,
        [&](int row, int col) { return shared + Staging::offset(row, min(max(col, 0), last_chunk)); });
}

// The same by way of scratch (exchange.cuh), which other threads may still be reading.
template <class L, class Staging, int THREADS, int ALIGN, class E, class Rows>
__device__ __forceinline__ void store_tile_by_scratch(const E (&x)[L::size], typename Staging::element* scratch, Rows target,
                                                      int valid_cols) {
    tile_barrier();
    store_tile_staged<L, Staging, THREADS, ALIGN>(x, scratch, target, valid_cols);
}

}  // namespace tracea
