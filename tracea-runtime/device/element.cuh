// Numbers that tensors hold and indices are made of.
#pragma once

namespace tracea {

__device__ __forceinline__ bool is_inside(int at, int size) {
    return static_cast<unsigned>(at) < static_cast<unsigned>(size);
}

// Nothing is read of the tensor where the element is not one of its own.
__device__ __forceinline__ int element_or_zero(const int* __restrict__ tensor, long long offset, bool inside) {
    return inside ? tensor[offset] : 0;
}

}  // namespace tracea
