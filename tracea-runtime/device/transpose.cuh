// Copies of tensors with another axis contiguous: of operands, whose copies' rows begin at multiples of 16 bytes, for products that sum along
// it, and results from such copies.
//
//     source (k, n)   a0 a1 a2          target (n, k)   a0 b0  0  0
//                     b0 b1 b2                          a1 b1  0  0
//                                                       a2 b2  0  0
//
// Rows of an operand's copy are whole chunks of 16 bytes, the last of each filled up with zeros; a result's are as long as they are. One
// launch copies several tensors of as many such planes as they have. Each block turns a piece of a plane, by way of shared memory: 64 x 64
// elements, or as many of a plane that is narrower or lower, so that warps read and write neighbouring elements.
#pragma once

#include "tracea/outer_axes.cuh"

namespace tracea {

// A tensor of elements of 2 or 4 bytes, and where its copy goes. The launch lays these out field by field.
struct Transposed {
    static constexpr int piece_bits = 12, piece = 1 << piece_bits;  // elements that a block turns

    const unsigned char* source;
    unsigned char* target;
    long long row_stride;  // from one row of a source's plane to the next, in elements
    int first_block;       // of the grid
    int rows, columns;     // of a source's plane
    int pitch;             // from one row of the target to the next, in elements
    int element_bytes;
    int filled;            // of a target's row
    int width_bits;        // of a piece's columns, 8 to 512 of them
    FastDiv across, down;  // pieces along a plane's columns, and along its rows
    OuterAxes planes;
};
static_assert(sizeof(Transposed) == 176, "as the launch lays it out");

struct Transposition {
    static constexpr int most_tensors = 4;

    int count;
    Transposed tensors[most_tensors];
};
static_assert(sizeof(Transposition) == 712, "as the launch lays it out");

// A piece of a plane, by way of shared memory, where as many words lie between its rows as let a warp find its elements in different banks
// both ways.
template <class T, int THREADS>
__device__ __forceinline__ void transpose_piece(const Transposed& tensor, unsigned* shared, int plane, int row0, int column0) {
    constexpr int EACH = Transposed::piece / THREADS, WORD = 4 / static_cast<int>(sizeof(T));
    const int width = 1 << tensor.width_bits, height_bits = Transposed::piece_bits - tensor.width_bits;
    const int pitch = width + max(1, (32 / WORD) >> height_bits) * WORD;
    T* const piece = reinterpret_cast<T*>(shared);

    const T* const source = reinterpret_cast<const T*>(tensor.source + tensor.planes.offset(plane));
    T elements[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int at = i * THREADS + static_cast<int>(threadIdx.x);
        const int row = row0 + (at >> tensor.width_bits), column = column0 + (at & (width - 1));
        elements[i] = row < tensor.rows && column < tensor.columns ? __ldg(source + row * tensor.row_stride + column) : T{};
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int at = i * THREADS + static_cast<int>(threadIdx.x);
        piece[(at >> tensor.width_bits) * pitch + (at & (width - 1))] = elements[i];
    }
    __syncthreads();

    T* const target = reinterpret_cast<T*>(tensor.target) + static_cast<long long>(plane) * tensor.columns * tensor.pitch;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int at = i * THREADS + static_cast<int>(threadIdx.x);
        const int down = at & ((1 << height_bits) - 1), across = at >> height_bits;
        const int row = row0 + down, column = column0 + across;
        if (row < tensor.filled && column < tensor.columns) {
            target[static_cast<long long>(column) * tensor.pitch + row] = piece[down * pitch + across];
        }
    }
}

template <int THREADS>
__device__ __forceinline__ void transpose(const Transposition& all) {
    // Of words, in rows of eight and a word between them where they are that short.
    __shared__ unsigned piece[Transposed::piece / 8 * 9];

    int at = 0;
    while (at + 1 < all.count && static_cast<int>(blockIdx.x) >= all.tensors[at + 1].first_block) ++at;
    const Transposed& tensor = all.tensors[at];
    int place, across, plane, down;
    tensor.across.divmod(static_cast<int>(blockIdx.x) - tensor.first_block, place, across);
    tensor.down.divmod(place, plane, down);
    const int row0 = down << (Transposed::piece_bits - tensor.width_bits), column0 = across << tensor.width_bits;
    if (tensor.element_bytes == 2) {
        transpose_piece<unsigned short, THREADS>(tensor, piece, plane, row0, column0);
    } else {
        transpose_piece<unsigned, THREADS>(tensor, piece, plane, row0, column0);
    }
}

}  // namespace tracea
