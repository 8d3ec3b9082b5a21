// Accumulators → global memory by panels of 64 rows and 128 bytes of columns: each warpgroup for itself, through places of its
// own in shared memory, of which one is on its way while the next is written, so that nobody waits for other warpgroups.
//
//     for each panel of the tile's columns, in an unrolled loop:
//         await_panel (where TMA sends); the warpgroup's barrier
//         write_panel;                   the warpgroup's barrier, with a fence before it where TMA sends
//         one thread: tma_store, tma_store_commit;       or else all: store_panel
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/layout.cuh"
#include "tracea/panel_tile.cuh"
#include "tracea/store.cuh"
#include "tracea/tma.cuh"

namespace tracea {

// The first of the 64 rows of the tile that are this warpgroup's.
__device__ __forceinline__ int panel_row() { return static_cast<int>(threadIdx.x) / 128 * 64; }

// Where this panel lies on its way; the warpgroup's PLACES take turns.
template <class Panel, int PLACES>
__device__ __forceinline__ typename Panel::element* own_panel(typename Panel::element* panels, int panel) {
    return panels + (static_cast<int>(threadIdx.x) / 128 * PLACES + panel % PLACES) * (Panel::rows * Panel::cols);
}

// One thread of the warpgroup asks TMA for stores, and waits for them.
__device__ __forceinline__ bool sends_panels() { return threadIdx.x % 128 == 0; }

// Until TMA has read what lay in this panel's place: the first may be on its way since the last tile, the others since the one
// before the last.
__device__ __forceinline__ void await_panel(int panel) {
    if (sends_panels()) panel == 0 ? tma_store_wait_read<0>() : tma_store_wait_read<1>();
}

// Before a block ends: what TMA has been asked for has left shared memory.
__device__ __forceinline__ void finish_panels() {
    if (sends_panels()) tma_store_wait_read<0>();
}

// This panel's registers → its place, converted.
template <class L, class Panel, class E>
__device__ __forceinline__ void write_panel(const E (&x)[L::size], int panel, typename Panel::element* place) {
    static_assert(L::row_blocks == 1 && L::warps_n == 1, "a warp holds 16 whole rows");
    using T = typename Panel::type;
    constexpr int pair = 2 * static_cast<int>(sizeof(typename Panel::element)), registers = Panel::cols / 2;
    const int thread = static_cast<int>(threadIdx.x) % 128;
#pragma unroll
    for (int r = 0; r < registers; r += 2) {
        const int row = thread / 32 * 16 + lane_index() / 4 + r / 2 % 2 * 8, col = r / 4 * 8 + lane_index() % 4 * 2;
        store_words<pair>(place + Panel::offset(row, col), words_of<T, pair>(x, panel * registers + r));
    }
}

// Its place → global memory, by the warpgroup's threads: target(row) says where the rows of a tile of COLS columns begin, aligned to
// ALIGN bytes, and columns [0, valid_cols) of the tile exist. What the panel before left at its end goes with this one.
template <class Panel, int PLACES, int ALIGN, int COLS, class Rows>
__device__ __forceinline__ void store_panel(const typename Panel::element* panels, int panel, Rows target, int valid_cols) {
    using T = typename Panel::element;
    // Threads that write have many addresses to compute, none of which may be kept in registers through a main loop.
    const int index = thread_index_anew(), group = index / 128, first = panel * Panel::cols;
    const T* const own = panels + group * PLACES * (Panel::rows * Panel::cols);
    const auto place = [&](int panel) { return own + panel % PLACES * (Panel::rows * Panel::cols); };
    const T *const now = place(panel), *const before = place(panel + PLACES - 1);
    store_staged_rows<T, ALIGN, Panel::rows, Panel::cols, 128, 2>(
        index % 128, first, COLS, valid_cols, [&](int row) { return target(group * 64 + row); },
        [&](int row, int col) { return (col < first ? before : now) + Panel::offset(row, col & (Panel::cols - 1)); });
}

}  // namespace tracea
