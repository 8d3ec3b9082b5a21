// Rows of which a thread works out once, before loops, what is the same in all steps, and for which each step adds what is the same for all
// of them.
//
//     x[(n, p + r - pad, q + s - pad, c)]     rows (n, p, q), which take divisions; steps (r, s)
#pragma once

#include "tracea/copy.cuh"
#include "tracea/gather.cuh"

namespace tracea {

// The parts of this thread's rows. One that does not exist is left along the first axis that a place may leave, where there is one.
template <class L, int N, class Rows>
__device__ __forceinline__ void hold_rows(PlacePart<N> (&held)[L::row_size], Rows rows) {
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) {
        held[s] = rows(L::row_at(s));
        if (N > 0 && !held[s].exists) held[s].along[0] = -2147483647 - 1;
        // Numbers of which the compiler knows nothing else: it would divide again in each step.
        held[s].offset = fixed_number(held[s].offset);
#pragma unroll
        for (int n = 0; n < N; ++n) held[s].along[n] = fixed_number(held[s].along[n]);
    }
}

// In a step: its own part, the same for all rows, from the tensor's first element on.
template <class T, int N, int ROWS>
struct HeldRows {
    const PlacePart<N> (&rows)[ROWS];
    const T* step;
    int along[N > 0 ? N : 1];
    AxisSizes<N> sizes;
};

template <class L, class T, int N, int ROWS>
__device__ __forceinline__ RowSource<T> row_of(const HeldRows<T, N, ROWS>& source, int r) {
    const PlacePart<N>& row = source.rows[L::row_slot(r)];
    bool valid = N > 0 || row.exists;
#pragma unroll
    for (int n = 0; n < N; ++n) {
        // Without a sign, the least number that rows which do not exist have stays out of reach whatever is added.
        const unsigned along = static_cast<unsigned>(row.along[n]) + static_cast<unsigned>(source.along[n]);
        valid &= along < static_cast<unsigned>(source.sizes.size[n]);
    }
    return {source.step + row.offset, valid};
}

}  // namespace tracea
