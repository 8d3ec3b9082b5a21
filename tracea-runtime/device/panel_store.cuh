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

// Its place → global memory, by the warpgroup's threads: target(row) says where the tile's rows begin, aligned to ALIGN bytes, and
// columns [0, valid_cols) of the tile exist.
template <class Panel, int ALIGN, class Rows>
__device__ __forceinline__ void store_panel(const typename Panel::element* place, int panel, Rows target, int valid_cols) {
    using T = typename Panel::element;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    constexpr int width = vector_bytes(ALIGN, 16, element_bytes), count = width / element_bytes;
    using Walk = RowWalk<Panel::rows, Panel::cols / count, 128>;
    constexpr int batch = Walk::template batch<2>;
    const Walk walk{opaque(static_cast<int>(threadIdx.x) % 128)};
#pragma unroll 1
    for (int step = 0; step < Walk::steps; step += batch) {
#pragma unroll
        for (int n = 0; n < batch; ++n) {
            const int row = walk.row(step + n), within = walk.piece(step + n) * count, col = panel * Panel::cols + within;
            const auto at = target(panel_row() + row);
            if (at.valid && col < valid_cols) {
                const Words<width> v = load_words<width>(place + Panel::offset(row, within));
                if (col + count <= valid_cols) {
                    store_words<width>(at.pointer + col, v);
                } else {
#pragma unroll
                    for (int i = 0; i < count - 1; ++i) {
                        if (col + i < valid_cols) at.pointer[col + i] = element<T>(v, i);
                    }
                }
            }
        }
    }
}

}  // namespace tracea
