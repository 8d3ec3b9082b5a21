// Accumulators → global memory by panels of 64 rows and 128 bytes of columns: each warpgroup for itself, through two panels of
// its own in shared memory (one, where a tile is no wider), so that one is on its way while the next is written and nobody waits
// for other warpgroups.
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/layout.cuh"
#include "tracea/panel_tile.cuh"
#include "tracea/store.cuh"
#include "tracea/tma.cuh"

namespace tracea {

// Where TMA fetches panels from shared memory (BULK), send(panel, row, column) asks for one by its place in the tile, and TMA
// leaves out what lies outside the tensor; else target(row) says where rows begin, aligned to ALIGN bytes, and columns
// [0, valid_cols) exist. Named barriers 2 … 4 are the warpgroups'.
template <class L, class T, int ALIGN, bool BULK, class E, class Rows, class Send>
__device__ __forceinline__ void store_by_panels(const E (&x)[L::size], stored<T>* staging, Rows target, Send send,
                                                int valid_cols) {
    static_assert(L::row_blocks == 1, "a warp holds 16 rows");
    constexpr int element_bytes = static_cast<int>(sizeof(stored<T>));
    using Panel = PanelTile<T, 64, 128 / element_bytes>;
    constexpr int elements = Panel::rows * Panel::cols, slots = L::cols > Panel::cols ? 2 : 1;
    const int group = static_cast<int>(threadIdx.x) / 128, thread = static_cast<int>(threadIdx.x) % 128;
    stored<T>* const mine = staging + group * slots * elements;
#pragma unroll
    for (int first = 0; first < L::cols; first += Panel::cols) {
        stored<T>* const panel = mine + first / Panel::cols % slots * elements;
        if constexpr (BULK) {
            // The first panel may be on its way since the last call, the others since the one before the last.
            if (thread == 0) first == 0 ? tma_store_wait_read<0>() : tma_store_wait_read<1>();
        }
        named_barrier_sync(2 + group, 128);
#pragma unroll
        for (int r = 0; r < Panel::cols / 2; r += 2) {
            const int row = thread / 32 * 16 + lane_index() / 4 + r / 2 % 2 * 8, col = r / 4 * 8 + lane_index() % 4 * 2;
            store_words<2 * element_bytes>(panel + Panel::offset(row, col), words_of<T, 2 * element_bytes>(x, first / 2 + r));
        }
        if constexpr (BULK) fence_proxy_async();
        named_barrier_sync(2 + group, 128);
        if constexpr (BULK) {
            if (thread == 0) {
                send(panel, group * 64, first);
                tma_store_commit();
            }
        } else {
            constexpr int width = vector_bytes(ALIGN, 16, element_bytes), count = width / element_bytes;
            using Walk = RowWalk<Panel::rows, Panel::cols / count, 128>;
            constexpr int batch = Walk::template batch<2>;
            const Walk walk{opaque(thread)};
#pragma unroll 1
            for (int step = 0; step < Walk::steps; step += batch) {
#pragma unroll
                for (int n = 0; n < batch; ++n) {
                    const int row = walk.row(step + n), within = walk.piece(step + n) * count, col = first + within;
                    const auto at = target(group * 64 + row);
                    if (at.valid && col < valid_cols) {
                        const Words<width> v = load_words<width>(panel + Panel::offset(row, within));
                        if (col + count <= valid_cols) {
                            store_words<width>(at.pointer + col, v);
                        } else {
#pragma unroll
                            for (int i = 0; i < count - 1; ++i) {
                                if (col + i < valid_cols) at.pointer[col + i] = element<stored<T>>(v, i);
                            }
                        }
                    }
                }
            }
        }
    }
}

// Before a block ends: what TMA has been asked for has left shared memory.
__device__ __forceinline__ void finish_panels() {
    if (threadIdx.x % 128 == 0) tma_store_wait_read<0>();
}

}  // namespace tracea
