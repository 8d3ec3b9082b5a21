// Axes of a tensor that its rows, or its planes, run over.
#pragma once

#include "tracea/fast_div.cuh"

namespace tracea {

// From the innermost: all sizes but the last one's, and strides in bytes. The launch lays these out field by field.
struct OuterAxes {
    static constexpr int most = 5;

    int count;
    FastDiv sizes[most - 1];
    long long strides[most];

    // Bytes from the first row to this one, counted row-major.
    __device__ __forceinline__ long long offset(int index) const {
        long long bytes = 0;
#pragma unroll 1
        for (int axis = 0; axis + 1 < count; ++axis) {
            int outer, inner;
            sizes[axis].divmod(index, outer, inner);
            bytes += inner * strides[axis];
            index = outer;
        }
        return bytes + index * strides[count - 1];
    }
};
static_assert(sizeof(OuterAxes) == 96, "as the launch lays it out");

}  // namespace tracea
