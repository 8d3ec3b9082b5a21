// Barriers in shared memory, one PTX instruction a function. PTX ISA, "Parallel Synchronization and Communication
// Instructions: mbarrier"; sm_90.
//
// A phase is complete when `count` arrivals and all bytes announced for it are in; then the next begins. Phases have the
// parities 0, 1, 0, 1, …: of a fresh barrier, wait(0) waits for the first phase and wait(1) returns at once. So with phase
// n / STAGES & 1 for the n-th use of a ring of stages, those who drain it wait for full at that phase, and those who fill it
// wait for empty at the opposite one.
#pragma once

#include "tracea/shared_tile.cuh"

namespace tracea {

struct Barrier {
    unsigned long long word;
};

__device__ __forceinline__ void mbarrier_init(Barrier* barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

// Makes initialisations by this thread visible to asynchronous copies and to the cluster; the block's other threads see
// them after a barrier.
__device__ __forceinline__ void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and announces `bytes` of asynchronous copies that the phase must also see complete.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Barrier* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Whether the phase of this parity is complete; the thread may sleep a while to find out.
__device__ __forceinline__ bool mbarrier_try_wait(Barrier* barrier, int parity) {
    int complete;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.b32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(complete)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return complete != 0;
}

__device__ __forceinline__ void mbarrier_wait(Barrier* barrier, int parity) {
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// This thread arrives when all its cp.async so far are complete; it need not wait for them. The arrival is one of `count`.
__device__ __forceinline__ void cp_async_mbarrier_arrive_noinc(Barrier* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

}  // namespace tracea
