// A tile in shared memory, swizzled.
#pragma once

#include "tracea/types.cuh"

namespace tracea {

// ROWS x COLS, a row's COLS elements in COLS * sizeof(T) consecutive bytes, but its 16-byte chunks permuted by the row:
//
//     128-byte rows                      64-byte rows                 32-byte rows
//     row 0: 0 1 2 3 4 5 6 7             row 0: 0 1 2 3               row 0: 0 1
//     row 1: 1 0 3 2 5 4 7 6             row 1: 0 1 2 3               ...
//     row 2: 2 3 0 1 6 7 4 5             row 2: 1 0 3 2               row 4: 1 0
//     row 3: 3 2 1 0 7 6 5 4  ...        row 3: 1 0 3 2  ...
//
// The 32 banks are eight chunks wide. ldmatrix reads one chunk column of eight rows at a time (eight rows aligned to eight);
// the permutation gives these eight chunks eight different places modulo 128 bytes, so the read takes one pass. It stays
// within aligned groups of 2^p chunks, 2^p the largest power of two (up to 8) that divides the row, so it never leaves the
// row; a row of an odd number of chunks needs none. Rows that are written whole are conflict-free under any permutation.
template <class T, int ROWS, int COLS>
struct SharedTile {
    using type = T;
    using element = stored<T>;

    static constexpr int rows = ROWS, cols = COLS;
    static constexpr int chunk = 16 / static_cast<int>(sizeof(element));  // elements
    static constexpr int row_bytes = COLS * static_cast<int>(sizeof(element));
    static constexpr int bytes = ROWS * row_bytes;
    static_assert(row_bytes % 16 == 0, "rows are whole 16-byte chunks");

    static constexpr int chunks = row_bytes / 16;
    static constexpr int swizzle_mask = chunks % 8 == 0 ? 7 : chunks % 4 == 0 ? 3 : chunks % 2 == 0 ? 1 : 0;
    static constexpr int swizzle_shift = chunks % 8 == 0 ? 0 : chunks % 4 == 0 ? 1 : 2;

    // What a chunk's index is xored with; depends on row % 8 alone.
    static __device__ __forceinline__ constexpr int swizzle(int row) { return (row >> swizzle_shift) & swizzle_mask; }

    static __device__ __forceinline__ constexpr int offset(int row, int col) {
        return row * COLS + ((col / chunk) ^ swizzle(row)) * chunk + col % chunk;
    }

    // The same for column lane + constant, where 0 <= lane < SPAN and SPAN divides constant. When SPAN is a power of two, the
    // sum has no carries and the xor falls apart: in a row that is known, few values depend on the lane, and the rest are
    // constants that a load instruction adds by itself.
    template <int SPAN>
    static __device__ __forceinline__ constexpr int offset(int row, int lane, int constant) {
        if constexpr (SPAN % chunk == 0 && (SPAN & (SPAN - 1)) == 0) {
            constexpr int low = SPAN / chunk - 1;
            return row * COLS + ((lane / chunk) ^ (swizzle(row) & low)) * chunk + lane % chunk +
                   ((constant / chunk) ^ (swizzle(row) & ~low)) * chunk;
        } else {
            return offset(row, lane + constant);
        }
    }

    // The same for row lane + constant, which have no bit in common: the swizzle of the sum is that of both.
    static __device__ __forceinline__ constexpr int offset_of_row(int lane, int constant, int col) {
        return lane * COLS + ((col / chunk) ^ swizzle(constant) ^ swizzle(lane)) * chunk + col % chunk + constant * COLS;
    }
};

// Address in the shared window, as PTX instructions take it.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

}  // namespace tracea
