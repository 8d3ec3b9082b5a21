// Barriers of threads of a block, one PTX instruction a function. PTX ISA, "Parallel Synchronization and Communication
// Instructions: bar, barrier".
#pragma once

namespace tracea {

// `threads`, a multiple of 32, take part in barrier `id`. Barrier 0 is __syncthreads(), barrier 1 is tile_barrier(), 2 … 4 are
// warpgroup_barrier(), and 5 … 7 are for the ping-pong of warpgroups; the others are free.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Takes part without waiting.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Among the threads that share a tile: the whole block, unless a kernel with threads of other roles says how many they are.
__device__ __forceinline__ void tile_barrier() {
#ifdef TRACEA_TILE_THREADS
    named_barrier_sync(1, TRACEA_TILE_THREADS);
#else
    __syncthreads();
#endif
}

// The same barrier; true for all where it is for any.
__device__ __forceinline__ bool tile_barrier_or(bool x) {
#ifdef TRACEA_TILE_THREADS
    int any;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.s32 p, %1, 0;\n"
        "bar.red.or.pred p, 1, %2, p;\n"
        "selp.s32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(any)
        : "r"(static_cast<int>(x)), "n"(TRACEA_TILE_THREADS)
        : "memory");
    return any != 0;
#else
    return __syncthreads_or(x);
#endif
}

}  // namespace tracea
