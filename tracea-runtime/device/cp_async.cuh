// Asynchronous copies from global to shared memory, one PTX instruction a function. PTX ISA, "Data Movement and Conversion
// Instructions: Non-bulk copy"; sm_80.
#pragma once

namespace tracea {

// Copies `bytes` of the 16, 8 or 4 bytes and fills the rest with zeros; with 0 the source is not read. 16 bytes bypass L1
// (.cg), which the narrower forms cannot. The hint lets L2 fetch whole 128-byte lines.
template <int WIDTH>
__device__ __forceinline__ void cp_async(unsigned shared, const void* global, int bytes) {
    static_assert(WIDTH == 16 || WIDTH == 8 || WIDTH == 4, "cp.async copies 4, 8 or 16 bytes");
    if constexpr (WIDTH == 16) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %3, %2;" ::"r"(shared), "l"(global), "r"(bytes),
                     "n"(WIDTH)
                     : "memory");
    }
}

// The same of 16 bytes that other blocks on the multiprocessor read too: they stay in L1.
__device__ __forceinline__ void cp_async_shared_by_blocks(unsigned shared, const void* global, int bytes) {
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

// Closes the group of this thread's copies since the last commit.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most N of this thread's groups are under way. Other threads' copies are seen after a barrier.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Of groups that bring BLOCK columns each, those of `left` columns are not waited for yet: waits for the first of them. The instruction
// takes a constant, so that of many groups it waits until the last seven are left.
template <int BLOCK>
__device__ __forceinline__ void cp_async_wait_first(int left) {
    if (left > 4 * BLOCK) {
        if (left > 6 * BLOCK) {
            left > 7 * BLOCK ? cp_async_wait<7>() : cp_async_wait<6>();
        } else {
            left > 5 * BLOCK ? cp_async_wait<5>() : cp_async_wait<4>();
        }
    } else if (left > 2 * BLOCK) {
        left > 3 * BLOCK ? cp_async_wait<3>() : cp_async_wait<2>();
    } else {
        left > BLOCK ? cp_async_wait<1>() : cp_async_wait<0>();
    }
}

}  // namespace tracea
