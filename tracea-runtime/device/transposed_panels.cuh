// Accumulators → memory that is contiguous along their rows, and what they take in from such memory: as panels.cuh, with rows and columns in
// each other's place. A panel has some of the tile's columns as its rows, the last one maybe fewer, and of each the warpgroup's 64 rows side by
// side. Where it has several times 64 rows, the panels of the first 64 come first.
//
//     accumulators, 128 x 16               panels of 16 rows in shared memory, as TMA sends them to the tensor
//       0 |……|                               0            63     64          127
//         |……|  warpgroup 0                0 |……………………………|   0 |……………………………|
//      64 |……|                            15 |……………………………|  15 |……………………………|
//         |……|  warpgroup 1                    warpgroup 0         warpgroup 1
#pragma once

#include "tracea/ldmatrix.cuh"
#include "tracea/panels.cuh"
#include "tracea/stmatrix.cuh"

namespace tracea {

// This panel's registers → its place, converted. A block of eight rows and eight columns is one transposed matrix of 16-bit elements, of which an
// odd number is followed by one of zeros, past what is sent;
// 32-bit ones go one by one: of a register, the lanes' elements lie in eight rows of the panel and two neighbouring chunks, which the
// swizzle sends to all banks.
template <class L, class Panel, class E>
__device__ __forceinline__ void write_transposed_panel(const E (&x)[L::size], int panel, typename Panel::element* place) {
    static_assert(L::warps_n == 1, "a warp holds whole rows");
    static_assert(Panel::cols == 64 && Panel::rows % 16 == 0, "a warpgroup's rows, room for pairs of column blocks");
    using T = typename Panel::type;
    constexpr int registers = Panel::rows / 2;
    const int first_own = first_register<L, registers>(panel), end = end_register<L, registers>(panel);
    const int thread = thread_index_anew(), lane = thread % 32, first = thread % 128 / 32 * 16;
    if constexpr (sizeof(typename Panel::element) == 2) {
        const int row = lane / 16 * 8 + lane % 8, col = first + lane / 8 % 2 * 8;
#pragma unroll
        for (int r = 0; r < registers; r += 8) {
            if (first_own + r >= end) break;
            unsigned pairs[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = first_own + r + 2 * i;
                pairs[i] = at < end ? pack2_from<T>(x[at], x[at + 1]) : 0;
            }
            stmatrix_x4_trans(shared_address(place + Panel::offset(row + 2 * r, col)), pairs);
        }
    } else {
#pragma unroll
        for (int r = 0; r < registers; ++r) {
            if (first_own + r >= end) break;
            const int row = r / 4 * 8 + lane % 4 * 2 + r % 2, col = first + lane / 4 + r / 2 % 2 * 8;
            place[Panel::offset(row, col)] = to<T>(x[first_own + r]);
        }
    }
}

// A panel of 16-bit elements in shared memory that has all of the tile's rows side by side → its registers, converted.
template <class L, class Panel, class E>
__device__ __forceinline__ void read_transposed_panel(E (&x)[L::size], int panel, const typename Panel::element* from) {
    static_assert(L::warps_n == 1 && L::row_blocks == 1 && Panel::cols == L::rows, "a warp holds 16 of its rows");
    static_assert(sizeof(typename Panel::element) == 2 && Panel::rows % 16 == 0, "room for pairs of column blocks");
    using T = typename Panel::element;
    constexpr int registers = Panel::rows / 2;
    const int first_own = first_register<L, registers>(panel), end = end_register<L, registers>(panel);
    const int thread = thread_index_anew(), lane = thread % 32;
    const int row = lane / 16 * 8 + lane % 8, col = thread / 32 * 16 + lane / 8 % 2 * 8;
#pragma unroll
    for (int r = 0; r < registers; r += 8) {
        if (first_own + r >= end) break;
        unsigned pairs[4];
        ldmatrix_x4_trans(pairs, shared_address(from + Panel::offset(row + 2 * r, col)));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int at = first_own + r + 2 * i;
            if (at >= end) break;
            const Words<4> v{{pairs[i]}};
            x[at] = to<E>(element<T>(v, 0));
            x[at + 1] = to<E>(element<T>(v, 1));
        }
    }
}

// Its place → global memory, by the warpgroup's threads: target(col) says where a tile of COLS columns begins along its column `col`, aligned
// to ALIGN bytes, and rows [0, valid_rows) of the tile exist. BATCH as in panels.cuh. Each warpgroup's rows are whole runs of memory of their own.
template <class Panel, int PLACES, int ALIGN, int COLS, int BATCH, class Cols>
__device__ __forceinline__ void store_transposed_panel(const typename Panel::element* panels, int panel, Cols target,
                                                       int valid_rows) {
    using T = typename Panel::element;
    const int index = thread_index_anew(), group = index / 128;
    constexpr int batch = ALIGN >= 16 ? 2 : BATCH, last_chunk = Panel::cols - Panel::chunk, beside = (COLS + Panel::rows - 1) / Panel::rows;
    const T* const place = panels + (group * PLACES + panel % PLACES) * (Panel::rows * Panel::cols);
    const int first = row_of_panel(panel, beside, index);
    store_staged_rows<T, ALIGN, Panel::rows, Panel::cols, 128, batch, batch>(
        index % 128, 0, Panel::cols, valid_rows - first,
        [&](int row) {
            const int col = column_of_panel(panel, beside) * Panel::rows + row;
            const auto at = target(col);
            return RowTarget<T>{at.pointer + first, at.valid && (COLS % Panel::rows == 0 || col < COLS)};
        },
        [&](int row, int col) { return place + Panel::offset(row, min(max(col, 0), last_chunk)); });
}

}  // namespace tracea
