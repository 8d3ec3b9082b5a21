// What a producer does once the copies into a ring's slot are issued.
#pragma once

#include "tracea/cp_async.cuh"
#include "tracea/mbarrier.cuh"

namespace tracea {

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

}  // namespace tracea
