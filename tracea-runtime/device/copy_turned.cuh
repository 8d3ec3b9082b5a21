// Of one tensor's tile the transpose in another, as elements lie, for rows of either that begin anywhere.
//
//     x          |........|........|........|          chunks of memory come to shared memory as they are, rows wherever
//     a row           abc defghijk lmn                  they begin in them
//     y          |........|........|                   and each thread gathers whole chunks of y's rows: elements of one column of x
//
// A row of x begins a different number of elements into its chunk than the next one does, and so does one of y. But rows that are as many
// apart as a chunk has elements are alike, on either side: what a thread gathers lies at places that differ by constants.
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/copy.cuh"
#include "tracea/store.cuh"

namespace tracea {

// A tile of ROWS rows and COLS columns of x in shared memory, rows by whole chunks: one more than columns take, and as many more rows as the
// first whole sector of one of y's rows may lie behind the tile's first row. Rows are spread over the banks such that eight
// chunks of a row of y are gathered at a time.
template <class T, int ROWS, int COLS>
struct TurnedRows {
    static constexpr int count = 16 / static_cast<int>(sizeof(T)), sector = 2 * count;
    static constexpr int chunks = COLS / count + 1, rows = ROWS + sector;
    // From one row to the next, and to the one a chunk's elements on.
    static constexpr int pitch = chunks * count, step = count * pitch + count;
    static constexpr int elements = rows / count * step;
    static_assert(ROWS % (8 * count) == 0 && COLS % count == 0, "whole chunks, and sectors");

    static __device__ __forceinline__ constexpr int offset(int row) { return row / count * step + row % count * pitch; }
};

// How many elements before a row's first one its chunk begins.
template <int ALIGN, class T>
__device__ __forceinline__ int elements_past_chunk(const T* row) {
    return ALIGN >= 16 ? 0 : past_chunk<16>(row) / static_cast<int>(sizeof(T));
}

// source(i) is where row i of the tile of x begins, target(j) where row j of that of y does; `i_left` rows of x and `j_left` of y exist from there
// on. Rows of x are aligned to ALIGN_X bytes, those of y to ALIGN_Y. `first`: nothing of y lies before the tile. Scratch may still be
// read by other threads.
template <int ROWS, int COLS, int THREADS, int ALIGN_X, int ALIGN_Y, class T, class Source, class Target>
__device__ __forceinline__ void copy_turned(T* scratch, Source source, Target target, int i_left, int j_left, bool first) {
    using Rows = TurnedRows<T, ROWS, COLS>;
    constexpr int count = Rows::count, bytes = static_cast<int>(sizeof(T)), row_chunks = COLS / count;
    constexpr int rows_at_a_time = THREADS / row_chunks, cols_at_a_time = THREADS / 8;
    static_assert(THREADS % row_chunks == 0 && ROWS % rows_at_a_time == 0, "each thread has as many chunks of x");
    static_assert(COLS % cols_at_a_time == 0 && cols_at_a_time % count == 0, "each thread has as many chunks of y, of rows that are alike");
    const int thread = static_cast<int>(threadIdx.x);
    tile_barrier();

    const auto keep = [&](int row, int chunk) {
        const auto from = source(row);
        const int past = elements_past_chunk<ALIGN_X>(from.pointer), exist = j_left + past - chunk * count;
        const unsigned to = shared_address(scratch + Rows::offset(row) + chunk * count);
        const T* const at = from.pointer - past + chunk * count;
        if (from.valid && exist >= count) {
            cp_async<16>(to, at, 16);
        } else if (from.valid && exist > 0) {
            cp_async<16>(to, at, exist * bytes);
        }
    };
#pragma unroll
    for (int row = 0; row < ROWS; row += rows_at_a_time) keep(row + thread / row_chunks, thread % row_chunks);
    // The chunks in which rows end, then the rows behind.
    constexpr int ends = ALIGN_X < 16 ? ROWS : 0, behind = ALIGN_Y < 16 ? Rows::sector * (row_chunks + (ALIGN_X < 16)) : 0;
#pragma unroll
    for (int n = 0; n < ends + behind; n += THREADS) {
        const int at = n + thread;
        if (at < ends) {
            keep(at, row_chunks);
        } else if (at < ends + behind) {
            keep(ROWS + (at - ends) % Rows::sector, (at - ends) / Rows::sector);
        }
    }
    cp_async_commit();
    cp_async_wait<0>();
    tile_barrier();

    const int chunk = thread % 8, col = thread / 8;
    // As many rows of x come before the first whole sector of this row of y, and of those that are alike.
    const int before = ALIGN_Y >= 16 ? 0 : (Rows::sector - past_sector(target(col).pointer)) % Rows::sector;
    const auto place = [&](int row) { return scratch + Rows::offset(row) + elements_past_chunk<ALIGN_X>(source(row).pointer) + col; };
    const T* places[count];
#pragma unroll
    for (int i = 0; i < count; ++i) places[i] = place(before + i) + chunk * Rows::step;
#pragma unroll
    for (int c = 0; c < COLS; c += cols_at_a_time) {
        const auto to = target(col + c);
#pragma unroll
        for (int n = 0; n < ROWS / (8 * count); ++n) {
            Words<16> v{};
#pragma unroll
            for (int i = 0; i < count; ++i) {
                v.word[i * bytes / 4] |= to_bits(places[i][n * 8 * Rows::step + c]) << i * bytes % 4 * 8;
            }
            const int row = before + (n * 8 + chunk) * count;
            if (col + c < j_left) {
                if (row + count <= i_left) {
                    store_words<16>(to.pointer + row, v);
                } else {
#pragma unroll
                    for (int i = 0; i < count; ++i) {
                        if (row + i < i_left) to.pointer[row + i] = element<T>(v, i);
                    }
                }
            }
        }
        if (ALIGN_Y < 16 && first && col + c < j_left) {
            for (int row = chunk; row < before && row < i_left; row += 8) to.pointer[row] = place(row)[c];
        }
    }
}

}  // namespace tracea
