// Warpgroups (four consecutive warps, the first a multiple of four) and their registers; sm_90a.
#pragma once

#include "tracea/barrier.cuh"

namespace tracea {

// The same in all lanes, and known to be: what depends on it may live in uniform registers, where products want their descriptors. What each lane worked out
// by itself would be moved there between one product and the next.
__device__ __forceinline__ int warpgroup_index() {
    return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
}

// The same among those that hold a tile.
__device__ __forceinline__ int tile_warpgroup_index() {
#ifdef TRACEA_TILES_APART
    return 0;
#else
    return warpgroup_index();
#endif
}

// Among the 128 threads of this warpgroup, one of the first three: named barriers 2 … 4 are theirs.
__device__ __forceinline__ void warpgroup_barrier() { named_barrier_sync(2 + static_cast<int>(threadIdx.x) / 128, 128); }

// One of WARPGROUPS warpgroups at a time, in their order, is between take and pass: a token goes round by named barriers, of each
// warpgroup one, at which it waits and its predecessor arrives. All pass the token equally often, between begin and end.
constexpr int pingpong_barrier = 5;

template <int WARPGROUPS>
__device__ __forceinline__ void pingpong_take() {
    static_assert(WARPGROUPS >= 2 && WARPGROUPS <= 3, "named barriers 5 … 7 are theirs");
    named_barrier_sync(pingpong_barrier + warpgroup_index(), 256);
}
template <int WARPGROUPS>
__device__ __forceinline__ void pingpong_pass() {
    const int own = warpgroup_index();
    named_barrier_arrive(pingpong_barrier + (own == WARPGROUPS - 1 ? 0 : own + 1), 256);
}
template <int WARPGROUPS>
__device__ __forceinline__ void pingpong_begin() {
    if (warpgroup_index() == WARPGROUPS - 1) pingpong_pass<WARPGROUPS>();
}
template <int WARPGROUPS>
__device__ __forceinline__ void pingpong_end() {
    if (warpgroup_index() == 0) pingpong_take<WARPGROUPS>();
}

// The same where any of them may be the last to pass it: by the one whose turn would be next.
template <int WARPGROUPS>
__device__ __forceinline__ void pingpong_end_at(int turn) {
    if (warpgroup_index() == turn) pingpong_take<WARPGROUPS>();
}

// Of two warpgroups that share a tile, the second follows the first in the LAST steps of a loop: it waits until that one has asked for all its products.
// A ring of STAGES slots keeps the first one from the end of another loop until the second has come here, unless loops are shorter: in these nobody waits.
constexpr int follow_barrier = 8;

template <int LAST, int STAGES>
__device__ __forceinline__ int follows_from_of(int steps) {
    static_assert(LAST > 0 && LAST < STAGES, "the slot of the product before the first of these steps is not free either");
    return warpgroup_index() == 1 && steps >= STAGES ? steps - LAST : -1;
}
__device__ __forceinline__ void follow() { named_barrier_sync(follow_barrier, 256); }
template <int STAGES>
__device__ __forceinline__ void lead(int steps) {
    if (warpgroup_index() == 0 && steps >= STAGES) named_barrier_arrive(follow_barrier, 256);
}

// True in one lane of the warp, all of whose lanes are here. PTX ISA, "elect.sync".
__device__ __forceinline__ bool elect_one() {
    int elected;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.b32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(elected));
    return elected != 0;
}

// Registers a thread from here on, in all warps of the warpgroup: taken from the block's share, waiting until others have
// given up enough, or given up. PTX ISA, "setmaxnreg".
template <int REGISTERS>
__device__ __forceinline__ void setmaxnreg_inc() {
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "a multiple of 8 from 24 to 256");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void setmaxnreg_dec() {
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "a multiple of 8 from 24 to 256");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

}  // namespace tracea
