// Clusters of blocks, one PTX instruction a function. PTX ISA, "barrier.cluster", "mapa", "ld", "st", "mbarrier"; sm_90.
#pragma once

#include "tracea/mbarrier.cuh"

namespace tracea {

// This block's place in its cluster.
__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of all blocks are there, and know of barriers that one of them has made ready and fenced (mbarrier_init_fence); within the block, of
// what its threads have written too. To order that between blocks would take them until it is in memory.
__device__ __forceinline__ void cluster_start() {
    __syncthreads();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// Where the block of that rank has what lies at `shared` in this one: an address in the cluster's shared window.
__device__ __forceinline__ unsigned cluster_address(const void* shared, int rank) {
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(shared)), "r"(rank));
    return address;
}

// Arrives at the same barrier of the block of that rank, which waits with mbarrier_wait_cluster.
__device__ __forceinline__ void mbarrier_arrive_at(Barrier* barrier, int rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_address(barrier, rank))
                 : "memory");
}

// The same where no values pass, only room for them: what this thread has read there has arrived. Nothing is to be made visible to
// other blocks, which would hold the thread up, and those that wait do so with mbarrier_wait.
__device__ __forceinline__ void mbarrier_free_at(Barrier* barrier, int rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(cluster_address(barrier, rank)) : "memory");
}

// As mbarrier_wait, where other blocks arrive.
__device__ __forceinline__ void mbarrier_wait_cluster(Barrier* barrier, int parity) {
    int complete;
    do {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                     "selp.b32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(complete)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    } while (!complete);
}

}  // namespace tracea
