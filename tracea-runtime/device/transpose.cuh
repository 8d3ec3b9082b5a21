// Copies of tensors with another axis contiguous, whose rows begin at multiples of 16 bytes, for products that sum along it.
//
//     source (k, n)   a0 a1 a2          target (n, k)   a0 b0  0  0
//                     b0 b1 b2                          a1 b1  0  0
//                                                       a2 b2  0  0
//
// rows of a copy are whole chunks of 16 bytes, the last of each filled up with zeros; results' are as long as they are. One launch copies several tensors of as many such
// planes as they have. Each block turns one square of a plane, by way of shared memory, so that warps read and write 32
// neighbouring elements.
#pragma once

#include "tracea/outer_axes.cuh"

namespace tracea {

// A tensor of elements of 2 or 4 bytes, and where its copy goes. The launch lays these out field by field.
struct Transposed {
    static constexpr int side = 64;  // of a square

    const unsigned char* source;
    unsigned char* target;
    long long row_stride;  // from one row of a source's plane to the next, in elements
    int first_block;       // of the grid
    int rows, columns;     // of a source's plane
    int pitch;             // from one row of the target to the next, in elements
    int element_bytes;
    int filled;  // of a target's row
    FastDiv across, down;  // squares along a plane's columns, and along its rows
    OuterAxes planes;
};
static_assert(sizeof(Transposed) == 168, "as the launch lays it out");

struct Transposition {
    static constexpr int most_tensors = 4;

    int count;
    Transposed tensors[most_tensors];
};
static_assert(sizeof(Transposition) == 680, "as the launch lays it out");

// A square of a plane, by way of one in shared memory that has a word more a row than it needs, so that a warp finds its elements in
// different banks both ways.
template <class T, int THREADS>
__device__ __forceinline__ void transpose_square(const Transposed& tensor, unsigned* shared, int plane, int row0, int column0) {
    constexpr int SIDE = Transposed::side, STEP = THREADS / SIDE;
    constexpr int PITCH = SIDE + 4 / static_cast<int>(sizeof(T));
    T* const square = reinterpret_cast<T*>(shared);
    const int along = static_cast<int>(threadIdx.x) % SIDE, first = static_cast<int>(threadIdx.x) / SIDE;

    const T* const source = reinterpret_cast<const T*>(tensor.source + tensor.planes.offset(plane));
    T elements[SIDE / STEP];
#pragma unroll
    for (int i = 0; i < SIDE / STEP; ++i) {
        const int row = row0 + first + i * STEP, column = column0 + along;
        elements[i] = row < tensor.rows && column < tensor.columns ? __ldg(source + row * tensor.row_stride + column) : T{};
    }
#pragma unroll
    for (int i = 0; i < SIDE / STEP; ++i) square[(first + i * STEP) * PITCH + along] = elements[i];
    __syncthreads();

    T* const target = reinterpret_cast<T*>(tensor.target) + static_cast<long long>(plane) * tensor.columns * tensor.pitch;
#pragma unroll
    for (int i = 0; i < SIDE / STEP; ++i) {
        const int row = row0 + along, column = column0 + first + i * STEP;
        if (row < tensor.filled && column < tensor.columns) {
            target[static_cast<long long>(column) * tensor.pitch + row] = square[along * PITCH + first + i * STEP];
        }
    }
}

template <int THREADS>
__device__ __forceinline__ void transpose(const Transposition& all) {
    constexpr int SIDE = Transposed::side;
    __shared__ unsigned square[SIDE * (SIDE + 1)];

    int at = 0;
    while (at + 1 < all.count && static_cast<int>(blockIdx.x) >= all.tensors[at + 1].first_block) ++at;
    const Transposed& tensor = all.tensors[at];
    int place, across, plane, down;
    tensor.across.divmod(static_cast<int>(blockIdx.x) - tensor.first_block, place, across);
    tensor.down.divmod(place, plane, down);
    if (tensor.element_bytes == 2) {
        transpose_square<unsigned short, THREADS>(tensor, square, plane, down * SIDE, across * SIDE);
    } else {
        transpose_square<unsigned, THREADS>(tensor, square, plane, down * SIDE, across * SIDE);
    }
}

}  // namespace tracea
