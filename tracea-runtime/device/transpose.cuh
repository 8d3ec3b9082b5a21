// Copies of tensors with another axis contiguous, whose rows begin at multiples of 16 bytes: wgmma reads tf32 along the sum alone.
//
//     source (k, n)   a0 a1 a2          target (n, k)   a0 b0  0  0
//                     b0 b1 b2                          a1 b1  0  0
//                                                       a2 b2  0  0
//
// rows of whole chunks of 16 bytes, the last of each filled up with zeros. One launch copies several tensors of as many such
// planes as they have. Each block turns one square of a plane, by way of shared memory, so that warps read and write 128
// contiguous bytes.
#pragma once

#include "tracea/outer_axes.cuh"

namespace tracea {

// A tensor of elements of 4 bytes, and where its copy goes. The launch lays these out field by field.
struct Transposed {
    static constexpr int side = 64;  // of a square

    const unsigned char* source;
    unsigned* target;
    long long row_stride;  // from one row of a source's plane to the next, in elements
    int first_block;       // of the grid
    int rows, columns;     // of a source's plane
    int pitch;             // from one row of the target to the next, in elements
    FastDiv across, down;  // squares along a plane's columns, and along its rows
    OuterAxes planes;
};
static_assert(sizeof(Transposed) == 160, "as the launch lays it out");

struct Transposition {
    static constexpr int most_tensors = 4;

    int count;
    Transposed tensors[most_tensors];
};
static_assert(sizeof(Transposition) == 648, "as the launch lays it out");

template <int THREADS>
__device__ __forceinline__ void transpose(const Transposition& all) {
    constexpr int SIDE = Transposed::side;
    constexpr int STEP = THREADS / SIDE;
    // A column more than there is, so that a warp finds its words in different banks both ways.
    __shared__ unsigned square[SIDE][SIDE + 1];

    int at = 0;
    while (at + 1 < all.count && static_cast<int>(blockIdx.x) >= all.tensors[at + 1].first_block) ++at;
    const Transposed& tensor = all.tensors[at];
    int place, across, plane, down;
    tensor.across.divmod(static_cast<int>(blockIdx.x) - tensor.first_block, place, across);
    tensor.down.divmod(place, plane, down);
    const int row0 = down * SIDE, column0 = across * SIDE;
    const int along = static_cast<int>(threadIdx.x) % SIDE, first = static_cast<int>(threadIdx.x) / SIDE;

    const unsigned* const source = reinterpret_cast<const unsigned*>(tensor.source + tensor.planes.offset(plane));
    unsigned words[SIDE / STEP];
#pragma unroll
    for (int i = 0; i < SIDE / STEP; ++i) {
        const int row = row0 + first + i * STEP, column = column0 + along;
        words[i] = row < tensor.rows && column < tensor.columns ? __ldg(source + row * tensor.row_stride + column) : 0;
    }
#pragma unroll
    for (int i = 0; i < SIDE / STEP; ++i) square[first + i * STEP][along] = words[i];
    __syncthreads();

    const int whole_chunks = (tensor.rows + 3) / 4 * 4;
    unsigned* const target = tensor.target + static_cast<long long>(plane) * tensor.columns * tensor.pitch;
#pragma unroll
    for (int i = 0; i < SIDE / STEP; ++i) {
        const int row = row0 + along, column = column0 + first + i * STEP;
        if (row < whole_chunks && column < tensor.columns) {
            target[static_cast<long long>(column) * tensor.pitch + row] = square[along][first + i * STEP];
        }
    }
}

}  // namespace tracea
