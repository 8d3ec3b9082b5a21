// A sum whose terms several blocks share out: each leaves its part in a workspace, and the block that comes last adds them
// up, in the order of the parts, whichever came when.
#pragma once

#include "tracea/layout.cuh"
#include "tracea/reduce.cuh"

namespace tracea {

// After this block has written its part. True in the block that came last, for which all parts are there to read; the
// count of arrivals is 0 again then. One thread releases what the barrier before ordered, and acquires for those that the barrier
// after orders: PTX ISA, "Memory Consistency Model", causality order. The answer is known to be the same in all lanes (warpgroup_index).
__device__ __forceinline__ bool last_to_arrive(unsigned* arrived, int parts) {
    tile_barrier();
    bool last = false;
    if (threadIdx.x == 0) {
        unsigned before;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
        last = before == static_cast<unsigned>(parts) - 1;
        if (last) *arrived = 0;
    }
    return __shfl_sync(0xffffffffu, tile_barrier_or(last), 0);
}

// ---- registers that each thread has for itself: a tile, or slices of an accumulator; N * THREADS floats a part

template <int THREADS, int N>
__device__ __forceinline__ void write_part(const float (&x)[N], float* part) {
#pragma unroll
    for (int r = 0; r < N; ++r) __stcg(part + r * THREADS + threadIdx.x, x[r]);
}

template <class Op, int THREADS, int N>
__device__ __forceinline__ void read_parts(float (&x)[N], const float* part, int stride, int parts) {
    // Few registers leave room for those of several parts on their way.
    constexpr int at_a_time = N <= 8 ? 8 : 1;
#pragma unroll
    for (int r = 0; r < N; ++r) x[r] = __ldcg(part + r * THREADS + threadIdx.x);
#pragma unroll at_a_time
    for (int p = 1; p < parts; ++p) {
        const float* const other = part + static_cast<long long>(p) * stride;
#pragma unroll
        for (int r = 0; r < N; ++r) x[r] = Op::apply(x[r], __ldcg(other + r * THREADS + threadIdx.x));
    }
}

// ---- column slices and row slices of a grid of threads, which many threads hold alike: one float a column or row, and the
// threads that hold the same one share the parts among them

template <class L>
__device__ __forceinline__ void write_part_cols(const float (&x)[L::col_size], float* part) {
    if (!L::owns_col()) return;
    if constexpr (L::vec % 4 == 0) {
#pragma unroll
        for (int s = 0; s < L::col_size; s += 4) {
            __stcg(reinterpret_cast<float4*>(part + L::col_at(s)), make_float4(x[s], x[s + 1], x[s + 2], x[s + 3]));
        }
    } else {
#pragma unroll
        for (int s = 0; s < L::col_size; ++s) __stcg(part + L::col_at(s), x[s]);
    }
}

// Onto what a thread has of other parts.
template <class Op, class L>
__device__ __forceinline__ void add_part_cols(float (&share)[L::col_size], const float* part) {
    if constexpr (L::vec % 4 == 0) {
#pragma unroll
        for (int s = 0; s < L::col_size; s += 4) {
            const float4 v = __ldcg(reinterpret_cast<const float4*>(part + L::col_at(s)));
            share[s] = Op::apply(share[s], v.x);
            share[s + 1] = Op::apply(share[s + 1], v.y);
            share[s + 2] = Op::apply(share[s + 2], v.z);
            share[s + 3] = Op::apply(share[s + 3], v.w);
        }
    } else {
#pragma unroll
        for (int s = 0; s < L::col_size; ++s) share[s] = Op::apply(share[s], __ldcg(part + L::col_at(s)));
    }
}

template <class Op, class L>
__device__ __forceinline__ void read_parts_cols(float (&x)[L::col_size], const float* part, int stride, int parts,
                                                float* scratch) {
    using Share = Blocked<L::threads_m, L::cols, L::threads_m, L::threads_n, L::vec>;
    float share[L::col_size];
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) share[s] = Op::template identity<float>();
#pragma unroll 4
    for (int p = L::thread_m(); p < parts; p += L::threads_m) {
        add_part_cols<Op, L>(share, part + static_cast<long long>(p) * stride);
    }
    reduce_rows<Op, Share>(share, x, scratch);
}

template <class L>
__device__ __forceinline__ void write_part_rows(const float (&x)[L::row_size], float* part) {
    if (!L::owns_row()) return;
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) __stcg(part + L::row_at(s), x[s]);
}

template <class Op, class L>
__device__ __forceinline__ void read_parts_rows(float (&x)[L::row_size], const float* part, int stride, int parts,
                                                float* scratch) {
    using Share = Blocked<L::rows, L::threads_n, L::threads_m, L::threads_n, 1>;
    float share[L::row_size];
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) share[s] = Op::template identity<float>();
#pragma unroll 4
    for (int p = L::thread_n(); p < parts; p += L::threads_n) {
#pragma unroll
        for (int s = 0; s < L::row_size; ++s) {
            share[s] = Op::apply(share[s], __ldcg(part + static_cast<long long>(p) * stride + L::row_at(s)));
        }
    }
    reduce_cols<Op, Share>(share, x, scratch);
}

// ---- one number, which all threads hold: the lanes of each warp share the parts

__device__ __forceinline__ void write_part_number(float x, float* part) {
    if (threadIdx.x == 0) __stcg(part, x);
}

template <class Op>
__device__ __forceinline__ float read_parts_number(const float* part, int stride, int parts) {
    float share = Op::template identity<float>();
    for (int p = lane_index(); p < parts; p += 32) {
        share = Op::apply(share, __ldcg(part + static_cast<long long>(p) * stride));
    }
    return reduce_lanes<Op, 31>(share);
}

}  // namespace tracea
