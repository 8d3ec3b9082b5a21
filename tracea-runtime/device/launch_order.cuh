// Two launches of which the second may begin while the first still runs, so that its blocks are ready when what they wait for has been
// written. PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol"; sm_90.
#pragma once

namespace tracea {

// At the end of each block of the first: a launch that was asked to may begin once all of them have come here, in the place of those that
// are gone. Before sm_90 none does.
__device__ __forceinline__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// In each thread of the second that reads what the first writes: until that has ended and is there to be read. Nothing to wait for where
// the launch was not asked to begin early.
__device__ __forceinline__ void await_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace tracea
