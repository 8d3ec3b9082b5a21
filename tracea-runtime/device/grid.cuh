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

// Columns of the last strip are fewer than STRIP, which is few.
template <int STRIP>
__device__ __forceinline__ int row_of_strip(int place, int width) {
    if constexpr (STRIP == 1) {
        return place;
    } else {
        return width == STRIP ? place / STRIP : row_of_strip<STRIP - 1>(place, width);
    }
}

// By groups of GROUP rows: blocks that run at the same time read few rows and few columns, which L2 then holds. Within a group by strips of
// STRIP columns, each row by row. A block's first load waits for all of this: there are divisors for how many columns there are, and how many rows of
// the last group, where it is a smaller one.
//
//     0 1 | 6 7 | 12        GROUP = 3, STRIP = 2, 5 columns
//     2 3 | 8 9 | 13
//     4 5 |10 11| 14
template <int GROUP, int STRIP = 1>
__device__ __forceinline__ BlockPosition grouped(int block, int rows, int cols, FastDiv by_cols, FastDiv by_last_group) {
    const int group = by_cols.div(block / GROUP), within = block - group * (GROUP * cols);
    const int height = min(rows - group * GROUP, GROUP);
    // In any case, and not only where it is asked for: around a branch the assembler spills what the accumulators leave.
    const int of_last = by_last_group.div(within / STRIP);
    const int strip = height == GROUP ? within / (GROUP * STRIP) : of_last;
    const int place = within - strip * (height * STRIP), first = strip * STRIP, width = min(cols - first, STRIP);
    const int row = row_of_strip<STRIP>(place, width);
    return {group * GROUP + row, first + place - row * width};
}

// Row by row, each from its last column on, where blocks take longer from one column to the next; but of the last rows, so many, the last
// columns come first, then those before them: blocks that run when most are done are short.
//
//     2 1 0        2 rows together of 3, 3 columns
//     7 5 3
//     8 6 4
__device__ __forceinline__ BlockPosition longest_first(int block, int rows, FastDiv by_cols, FastDiv by_together) {
    const int cols = static_cast<int>(by_cols.divisor), apart = rows - static_cast<int>(by_together.divisor), within = block - apart * cols;
    int row, col;
    if (within < 0) {
        by_cols.divmod(block, row, col);
        return {row, cols - 1 - col};
    }
    by_together.divmod(within, col, row);
    return {apart + row, cols - 1 - col};
}

// The first of `steps` that a part has, where `parts` share them out as evenly as they can: one, or as many as `by_all_parts` divides by.
__device__ __forceinline__ int share(int steps, int part, int parts, FastDiv by_all_parts) {
    if (parts == 1) return part * steps;
    int each, rest;
    by_all_parts.divmod(steps, each, rest);
    return part * each + min(part, rest);
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
