// The order in which a grid's blocks visit a matrix of tiles.
#pragma once

namespace tracea {

struct BlockPosition {
    int row, col;
};

// Down GROUP rows, then one column on: blocks that run at the same time read few rows and few columns, which L2 then holds.
//
//     0 3 6 9        GROUP = 3, 4 columns
//     1 4 7 ...
//     2 5 8
template <int GROUP>
__device__ __forceinline__ BlockPosition grouped(int block, int rows, int cols) {
    const int per_group = GROUP * cols;
    const int first = block / per_group * GROUP;
    const int height = rows - first < GROUP ? rows - first : GROUP;
    const int within = block % per_group;
    return {first + within % height, within / height};
}

// The first of `steps` that a part has, where `parts` share them out as evenly as they can.
__device__ __forceinline__ int share(int steps, int part, int parts) {
    const unsigned each = static_cast<unsigned>(steps) / parts, rest = static_cast<unsigned>(steps) % parts;
    return static_cast<int>(part * each + min(static_cast<unsigned>(part), rest));
}

// One of a grid's tiles, or a part of one: the first `whole` tiles are not cut, each of the others is cut into `parts`.
struct CutTile {
    int tile, part, parts;
};

__device__ __forceinline__ int cut_units(int tiles, int whole, int parts) { return whole + (tiles - whole) * parts; }

// Neighbours are tiles, then tiles of one part.
__device__ __forceinline__ CutTile cut_tile(int unit, int units, int whole, int parts) {
    if (unit < whole) return {unit, 0, 1};
    const int cut = (units - whole) / parts, at = unit - whole;
    return {whole + at % cut, at / cut, parts};
}

}  // namespace tracea
