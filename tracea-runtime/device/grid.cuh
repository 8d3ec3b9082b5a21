// The order in which a grid's blocks visit a matrix of tiles.
#pragma once

#include "tracea/fast_div.cuh"

namespace tracea {

struct BlockPosition {
    int row, col;
};

// Where a tile begins along an axis, by its position. If it may overlap the one before, the last one begins where it ends with the axis, unless that
// is shorter: at a vector's begin, so that up to seven elements lie beside the axis.
template <int BLOCK>
__device__ __forceinline__ int tile_begin(int position, int extent, bool overlaps) {
    constexpr int VECTOR = 8;
    const int begin = position * BLOCK, last = (extent - BLOCK + VECTOR - 1) / VECTOR * VECTOR;
    return overlaps && last > 0 ? min(begin, last) : begin;
}

// By groups of GROUP rows: blocks that run at the same time read few rows and few columns, which L2 then holds. Within a group by strips of
// STRIP columns, each row by row.
//
//     0 1 | 6 7 | 12        GROUP = 3, STRIP = 2, 5 columns
//     2 3 | 8 9 | 13
//     4 5 |10 11| 14
template <int GROUP, int STRIP = 1>
__device__ __forceinline__ BlockPosition grouped(int block, int rows, int cols) {
    // Before a block's first load all of this is waited for: what needs no division by a number that is not known is told apart.
    const int group = rows > GROUP ? block / (GROUP * cols) : 0;
    const int within = block - group * (GROUP * cols), height = min(rows - group * GROUP, GROUP);
    if (height == 1) return {group * GROUP, within};
    const int strip = height == GROUP ? within / (GROUP * STRIP) : within / (height * STRIP);
    const int place = within - strip * (height * STRIP), first = strip * STRIP, width = min(cols - first, STRIP);
    const int row = width == STRIP ? place / STRIP : place / width;
    return {group * GROUP + row, first + place - row * width};
}

// Row by row, each from its last column on, where blocks take longer from one column to the next; but of the last rows, so many, the last
// columns come first, then those before them: blocks that run when most are done are short.
//
//     2 1 0        2 rows together of 3, 3 columns
//     7 5 3
//     8 6 4
__device__ __forceinline__ BlockPosition longest_first(int block, int rows, int cols, int together) {
    const int apart = rows - together, within = block - apart * cols;
    if (within < 0) return {block / cols, cols - 1 - block % cols};
    return {apart + within % together, cols - 1 - within / together};
}

// The first of `steps` that a part has, where `parts` share them out as evenly as they can.
__device__ __forceinline__ int share(int steps, int part, int parts) {
    if (parts == 1) return part * steps;
    const unsigned each = static_cast<unsigned>(steps) / parts, rest = static_cast<unsigned>(steps) % parts;
    return static_cast<int>(part * each + min(static_cast<unsigned>(part), rest));
}

// One of a grid's tiles, or a part of one: the first `whole` tiles are not cut, each of the others is cut into `parts`. Code for launches
// that cut none (CUT) has nothing of that.
struct CutTile {
    int tile, part, parts;
};

template <bool CUT>
__device__ __forceinline__ int cut_units(int tiles, int whole, int parts) {
    return CUT ? whole + (tiles - whole) * parts : tiles;
}

// Neighbours are tiles, then tiles of one part; `by_cut` divides by how many are cut.
template <bool CUT>
__device__ __forceinline__ CutTile cut_tile(int unit, FastDiv by_cut, int whole, int parts) {
    if (!CUT || unit < whole) return {unit, 0, 1};
    CutTile cut{0, 0, parts};
    by_cut.divmod(unit - whole, cut.part, cut.tile);
    cut.tile += whole;
    return cut;
}

// What comes of `unit` after this is worked out anew, not kept from before, where tiles may be cut.
template <bool CUT>
__device__ __forceinline__ void work_out_anew(int& unit) {
    if constexpr (CUT) asm volatile("" : "+r"(unit));
}

}  // namespace tracea
