// A tile in shared memory as TMA writes it and wgmma reads it, both with a swizzle of 128 bytes.
#pragma once

#include "tracea/types.cuh"

namespace tracea {

// ROWS x COLS as panels side by side, each of ROWS rows of 128 bytes (64 elements of 16 bits, 32 of 32), one panel after
// another in memory. Within a panel, the 16-byte chunk c of row r lies at place c ^ (r % 8): PTX ISA, "Swizzling modes:
// 128-Byte swizzle". The hardware takes r from bits 7 … 9 of the address, so the tile begins at a multiple of 1024 bytes.
//
//     COLS = 128 elements of 16 bits:  columns 0 … 63, rows 0 … ROWS-1;  then columns 64 … 127, rows 0 … ROWS-1
//
// A panel is one TMA box of (panel_cols, ROWS). The interface is SharedTile's.
template <class T, int ROWS, int COLS>
struct PanelTile {
    using type = T;
    using element = stored<T>;

    static constexpr int rows = ROWS, cols = COLS;
    static constexpr int chunk = 16 / static_cast<int>(sizeof(element));  // elements
    static constexpr int row_bytes = COLS * static_cast<int>(sizeof(element));
    static constexpr int bytes = ROWS * row_bytes;
    static constexpr int chunks = row_bytes / 16;

    static constexpr int panel_cols = 128 / static_cast<int>(sizeof(element));
    static constexpr int panels = COLS / panel_cols;
    static constexpr int panel_bytes = ROWS * 128;
    static_assert(COLS % panel_cols == 0 && ROWS % 8 == 0, "whole panels of whole 1024-byte groups");

    static __device__ __forceinline__ constexpr int swizzle(int row) { return row % 8; }

    // Of a panel's columns, those of a box that is no wider than a tensor's rows of so many elements, in whole chunks; and the bytes that
    // boxes of so many columns bring for all panels.
    static __device__ __forceinline__ int columns_of(int elements) {
        return elements >= panel_cols ? panel_cols : (elements + chunk - 1) / chunk * chunk;
    }
    static __device__ __forceinline__ int bytes_of(int columns) { return ROWS * panels * columns * static_cast<int>(sizeof(element)); }

    // The rows of a box that is no taller than a tensor of so many.
    static __device__ __forceinline__ int rows_of(int count) { return count < ROWS ? count : ROWS; }

    static __device__ __forceinline__ constexpr int offset(int row, int col) {
        const int panel = col / panel_cols, within = col % panel_cols;
        return (panel * ROWS + row) * panel_cols + ((within / chunk) ^ swizzle(row)) * chunk + within % chunk;
    }
};

}  // namespace tracea
