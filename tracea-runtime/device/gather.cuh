// Elements from anywhere in global memory → shared memory, where an element's place is a row's part plus a column's: each part is
// worked out once, however many elements it has a share in.
//
//     x[(n, p * stride + r, q * stride + s, c)]     rows are (n, p, q), columns are (r, s, c)
#pragma once

#include "tracea/types.cuh"
#include "tracea/words.cuh"

namespace tracea {

// A row's or a column's part of where elements lie: so far from the tensor's first element, and so far along N axes that the sum may
// leave. One that does not exist has no elements.
template <int N>
struct PlacePart {
    long long offset;
    int along[N > 0 ? N : 1];
    bool exists;
};

// Sizes of the axes that a place may leave.
template <int N>
struct AxisSizes {
    int size[N > 0 ? N : 1];
};

// How a warp walks a tile: lanes hold neighbouring columns, a word of them each in one group or several, of two rows or more at once. What
// lanes hear of a row serves all their columns.
template <class Tile>
struct GatherWalk {
    static constexpr int each = 4 / static_cast<int>(sizeof(typename Tile::element));
    static constexpr int words = Tile::cols / each;
    static constexpr int lanes = words > 8 ? 16 : 8;
    static constexpr int at_once = 32 / lanes, groups = (words + lanes - 1) / lanes;
    static_assert(Tile::cols % each == 0, "whole words");
};

// rows(row) and columns(col) say the parts. What does not exist, or leaves one of the axes, becomes 0. The copying threads are
// FIRST_THREAD … FIRST_THREAD + THREADS - 1 of the block, whole warps.
//
// Loads of BATCH rows are under way together, a power of two.
template <class Tile, int THREADS, int BATCH = 8, int FIRST_THREAD = 0, int N, class T, class Rows, class Columns>
__device__ __forceinline__ void copy_gathered(typename Tile::element* shared, const T* tensor, AxisSizes<N> sizes, Rows rows, Columns columns) {
    using Walk = GatherWalk<Tile>;
    constexpr int each = Walk::each, groups = Walk::groups, at_once = Walk::at_once;
    constexpr int own_rows = (Tile::rows + THREADS / 32 - 1) / (THREADS / 32);
    static_assert(BATCH * at_once <= 32 && 32 % BATCH == 0, "rows of which lanes know the parts");
    static_assert(THREADS % 32 == 0 && FIRST_THREAD % 32 == 0, "whole warps");
    const int thread = static_cast<int>(threadIdx.x) - FIRST_THREAD, lane = thread % 32, first_row = thread / 32 * own_rows;
    const int first_col = lane % Walk::lanes * each;
    // Addresses of which the compiler knows nothing else: it would add them up anew for each element.
    const T* column[groups][each];
    int along[groups][each][N > 0 ? N : 1];
    bool exists[groups][each];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
        for (int e = 0; e < each; ++e) {
            const int col = first_col + g * Walk::lanes * each + e;
            const PlacePart<N> part = columns(col);
            column[g][e] = fixed_base(tensor + part.offset);
            exists[g][e] = part.exists && col < Tile::cols;
#pragma unroll
            for (int n = 0; n < N; ++n) along[g][e][n] = part.along[n];
        }
    }
#pragma unroll 1
    for (int first = 0; first < own_rows; first += 32) {
        // Each lane works out one row's part. For a row that does not exist, the first axis has nothing.
        const PlacePart<N> mine = rows(first_row + first + lane);
        const int first_size = !mine.exists ? 0 : N > 0 ? sizes.size[0] : 1;
        const long long bytes = mine.offset * static_cast<long long>(sizeof(T));
        const int count = own_rows - first < 32 ? own_rows - first : 32;
#pragma unroll 1
        for (int i = 0; i < count; i += BATCH * at_once) {
            T x[BATCH][groups][each];
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const int from = fixed_number(i + b * at_once + lane / Walk::lanes);
                const long long row_bytes = __shfl_sync(0xffffffffu, bytes, from);
                const int row_first_size = __shfl_sync(0xffffffffu, first_size, from);
                int row_along[N > 0 ? N : 1];
#pragma unroll
                for (int n = 0; n < N; ++n) row_along[n] = __shfl_sync(0xffffffffu, mine.along[n], from);
#pragma unroll
                for (int g = 0; g < groups; ++g) {
#pragma unroll
                    for (int e = 0; e < each; ++e) {
                        bool inside = exists[g][e] && (N > 0 || row_first_size > 0);
#pragma unroll
                        for (int n = 0; n < N; ++n) {
                            const int size = n == 0 ? row_first_size : sizes.size[n];
                            inside &= static_cast<unsigned>(row_along[n] + along[g][e][n]) < static_cast<unsigned>(size);
                        }
                        const auto* const at = reinterpret_cast<const unsigned char*>(column[g][e]) + row_bytes;
                        x[b][g][e] = inside ? *reinterpret_cast<const T*>(at) : T{};
                    }
                }
            }
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const int from = i + b * at_once + lane / Walk::lanes, row = first_row + first + from;
#pragma unroll
                for (int g = 0; g < groups; ++g) {
                    const int col = first_col + g * Walk::lanes * each;
                    Words<4> word{};
#pragma unroll
                    for (int e = 0; e < each; ++e) word.word[0] |= to_bits(x[b][g][e]) << e * (32 / each);
                    if (from < count && row < Tile::rows && col < Tile::cols) store_words<4>(shared + Tile::offset(row, col), word);
                }
            }
        }
    }
}

}  // namespace tracea
