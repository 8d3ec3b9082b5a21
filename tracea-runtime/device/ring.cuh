// What a producer does once the copies into a ring's slot are issued, and consumers once they have read one that blocks fill together.
#pragma once

#include "tracea/cluster.cuh"
#include "tracea/cp_async.cuh"
#include "tracea/layout.cuh"
#include "tracea/mbarrier.cuh"
#include "tracea/tma.cuh"
#include "tracea/warpgroup.cuh"

namespace tracea {

// A ring's turn, as a role counts them: its slot, and the parity of its round.
template <int STAGES>
class RingTurn {
    int at = 0, parity = 0;

  public:
    __device__ __forceinline__ int slot() const { return at; }
    __device__ __forceinline__ int phase() const { return parity; }
    __device__ __forceinline__ int slot_before() const { return at == 0 ? STAGES - 1 : at - 1; }

    __device__ __forceinline__ void advance() {
        ++at;
        if (at == STAGES) {
            at = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ void advance_by(int turns) {
        const int to = at + turns;
        at = to % STAGES;
        parity ^= to / STAGES % 2;
    }
};

// The same in one register, for threads that count the turns of several rings: slots of an odd round follow those of an even one.
template <int STAGES>
class PackedRingTurn {
    int at = 0;

  public:
    __device__ __forceinline__ int slot() const { return at < STAGES ? at : at - STAGES; }
    __device__ __forceinline__ int phase() const { return at < STAGES ? 0 : 1; }
    __device__ __forceinline__ int slot_before() const { return slot() == 0 ? STAGES - 1 : slot() - 1; }

    __device__ __forceinline__ void advance() { at = at == 2 * STAGES - 1 ? 0 : at + 1; }
};

// Zeros in a ring of tiles, by all threads, where boxes bring so many of a panel's columns only and the others are multiplied too. Who waits
// for all of them orders the zeros before what TMA writes and wgmma reads.
template <class Tile, int THREADS>
__device__ __forceinline__ void clear_beside(typename Tile::element* ring, int elements, int columns) {
    if (columns == Tile::panel_cols) return;
    uint4* const chunks = reinterpret_cast<uint4*>(ring);
    for (int at = static_cast<int>(threadIdx.x); at < elements / Tile::chunk; at += THREADS) chunks[at] = uint4{};
    fence_proxy_async();
}

// Zeros in a tile's rows from `rows` on, which TMA brought from past a loop's end, by each warpgroup for itself: zeros times what lies there
// need not be zero.
template <class Tile>
__device__ __forceinline__ void clear_rows(typename Tile::element* tile, int rows) {
    constexpr int CHUNKS = 128 / 16;  // of a panel's row
    const int cleared = (Tile::rows - rows) * CHUNKS;
    for (int panel = 0; panel < Tile::panels; ++panel) {
        uint4* const chunks = reinterpret_cast<uint4*>(tile + (panel * Tile::rows + rows) * Tile::panel_cols);
        for (int at = static_cast<int>(threadIdx.x) % 128; at < cleared; at += 128) chunks[at] = uint4{};
    }
    fence_proxy_async();
    warpgroup_barrier();
}

// This thread's arrival at `full`, by all threads of the producer. ASYNC: every copy was a cp.async, and the barrier itself
// waits for them; else some were ordinary stores, and the thread waits. Either way those who have waited for `full` order the
// copies before wgmma's reads: fence_proxy_async().
template <bool ASYNC>
__device__ __forceinline__ void publish(Barrier* full) {
    if constexpr (ASYNC) {
        cp_async_mbarrier_arrive_noinc(full);
    } else {
        cp_async_commit();
        cp_async_wait<0>();
        mbarrier_arrive(full);
    }
}

// A warp's arrival at `empty` of each of the cluster's blocks, all of which write into this slot: by its first lanes, one a block.
template <int BLOCKS>
__device__ __forceinline__ void release_in_cluster(Barrier* empty) {
    const int lane = lane_index();
    if (lane < BLOCKS) mbarrier_free_at(empty, lane);
}

}  // namespace tracea
