// Bulk copies of boxes and windows of a tensor between global and shared memory, one PTX instruction a function. PTX ISA, "Data
// Movement and Conversion Instructions: cp.async.bulk.tensor, cp.async.bulk.commit_group, cp.async.bulk.wait_group"; sm_90.
//
// One thread issues a copy. Coordinates are of the box's first element, innermost first; they may lie outside the tensor:
// what is outside is read as zeros (and counts as bytes) and is not written, but for the rest of a row's last 16 bytes: writes are of
// whole 16-byte chunks (seen on an H200; https://github.com/triton-lang/triton/issues/11583).
#pragma once

#include "tracea/mbarrier.cuh"

namespace tracea {

// What cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col made on the host; a kernel takes it as `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
    char opaque[128];
};

__device__ __forceinline__ void tma_prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Orders this thread's ordinary and cp.async accesses to shared memory, and those of others that it has waited for, before
// asynchronous ones (TMA, wgmma) that follow. PTX ISA, "Async proxy" and "membar, fence: fence.proxy".
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// For each rank: loads, which complete on `full` (or into the same place of several blocks of the cluster, bit r of `blocks` for the
// block of rank r, each on its own barrier), and stores, which complete by groups.
#define TRACEA_TMA(RANK, COORDINATES, TEXT, ...)                                                                               \
    __device__ __forceinline__ void tma_load(void* shared, const TensorMap& map, Barrier* full, COORDINATES) {                 \
        asm volatile("cp.async.bulk.tensor." #RANK                                                                             \
                     "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" TEXT "}], [%2];" ::"r"(         \
                         shared_address(shared)),                                                                              \
                     "l"(&map), "r"(shared_address(full)), "n"(0), __VA_ARGS__                                                 \
                     : "memory");                                                                                              \
    }                                                                                                                          \
    __device__ __forceinline__ void tma_load_multicast(void* shared, const TensorMap& map, Barrier* full,                      \
                                                       unsigned short blocks, COORDINATES) {                                   \
        asm volatile("cp.async.bulk.tensor." #RANK                                                                             \
                     "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" TEXT         \
                     "}], [%2], %3;" ::"r"(shared_address(shared)),                                                            \
                     "l"(&map), "r"(shared_address(full)), "h"(blocks), __VA_ARGS__                                            \
                     : "memory");                                                                                              \
    }                                                                                                                          \
    __device__ __forceinline__ void tma_store(const TensorMap& map, const void* shared, COORDINATES) {                         \
        asm volatile("cp.async.bulk.tensor." #RANK "d.global.shared::cta.tile.bulk_group [%1, {" TEXT "}], [%0];" ::"r"(       \
                         shared_address(shared)),                                                                              \
                     "l"(&map), "n"(0), "n"(0), __VA_ARGS__                                                                    \
                     : "memory");                                                                                              \
    }
#define TRACEA_COORDINATES(...) __VA_ARGS__
TRACEA_TMA(1, int c0, "%4", "r"(c0))
TRACEA_TMA(2, TRACEA_COORDINATES(int c0, int c1), "%4, %5", "r"(c0), "r"(c1))
TRACEA_TMA(3, TRACEA_COORDINATES(int c0, int c1, int c2), "%4, %5, %6", "r"(c0), "r"(c1), "r"(c2))
TRACEA_TMA(4, TRACEA_COORDINATES(int c0, int c1, int c2, int c3), "%4, %5, %6, %7", "r"(c0), "r"(c1), "r"(c2), "r"(c3))
TRACEA_TMA(5, TRACEA_COORDINATES(int c0, int c1, int c2, int c3, int c4), "%4, %5, %6, %7, %8", "r"(c0), "r"(c1), "r"(c2),
           "r"(c3), "r"(c4))
#undef TRACEA_TMA

// For each rank: as many pixels of a batch of images as the map says, from the one at the coordinates on, along the width first. The
// coordinates lie between the map's corners, where a line of pixels ends; each pixel is read so much further along the width, height
// and depth as the offsets say. PTX ISA, "im2col mode". Pixels past the last image are zeros, and count as bytes.
#define TRACEA_TMA_IM2COL(RANK, PLACE, COORDINATES, OFFSETS, ...)                                                              \
    __device__ __forceinline__ void tma_load_im2col(void* shared, const TensorMap& map, Barrier* full, PLACE) {                \
        asm volatile("cp.async.bulk.tensor." #RANK                                                                             \
                     "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {" COORDINATES                   \
                     "}], [%2], {" OFFSETS "};" ::"r"(shared_address(shared)),                                                 \
                     "l"(&map), "r"(shared_address(full)), __VA_ARGS__                                                         \
                     : "memory");                                                                                              \
    }
TRACEA_TMA_IM2COL(3, TRACEA_COORDINATES(int c, int w, int n, unsigned short w_offset), "%3, %4, %5", "%6", "r"(c), "r"(w), "r"(n),
                  "h"(w_offset))
TRACEA_TMA_IM2COL(4, TRACEA_COORDINATES(int c, int w, int h, int n, unsigned short w_offset, unsigned short h_offset),
                  "%3, %4, %5, %6", "%7, %8", "r"(c), "r"(w), "r"(h), "r"(n), "h"(w_offset), "h"(h_offset))
TRACEA_TMA_IM2COL(5,
                  TRACEA_COORDINATES(int c, int w, int h, int d, int n, unsigned short w_offset, unsigned short h_offset,
                                     unsigned short d_offset),
                  "%3, %4, %5, %6, %7", "%8, %9, %10", "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(w_offset), "h"(h_offset),
                  "h"(d_offset))
#undef TRACEA_COORDINATES
#undef TRACEA_TMA_IM2COL

// Closes the group of this thread's stores since the last commit.
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most N of this thread's groups are still to read shared memory.
template <int N>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Waits until at most N of this thread's groups are still to write.
template <int N>
__device__ __forceinline__ void tma_store_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

}  // namespace tracea
