// Who holds what: a layout says which elements of a ROWS x COLS tile live in which registers of which threads.
//
// A tile in layout L is `T x[L::size]` in every thread. Its row slice (one value a row, what a reduction over the columns
// gives) is `T m[L::row_size]`, replicated over the threads that hold the same row; its column slice is `T b[L::col_size]`.
// So `x[r] * m[L::row_slot(r)]` broadcasts, and costs nothing: the slots fold to constants when the loop is unrolled.
//
// Every layout has
//     rows, cols, threads, size, row_size, col_size
//     vec                        registers [n*vec, (n+1)*vec) hold neighbouring columns of one row
//     row_slot(r), col_slot(r)   register -> slot of the slices (constexpr)
//     row(r), col(r)             register -> coordinates in the tile, for this thread
//     row_at(s), col_at(s)       slot -> coordinate
//     col_base(), col_offset(s)  the same as a sum of this thread's share and a constant
//     lanes_along                so many neighbouring lanes hold neighbouring vectors of one row
//     owns()                     one thread among those that replicate an element of the tile
//     owns_row(), owns_col()     one thread among those that replicate an element of a slice
// and, for the reductions (reduce.cuh), where the elements of one row are spread, beyond this thread's registers:
//     cols_lanes                 over lanes that differ in these bits of the lane index,
//     cols_parts, cols_part()    then over so many groups of threads, of which this thread is in one
// and the same for the elements of one column: rows_lanes, rows_parts, rows_part().
#pragma once

namespace tracea {

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) & 31; }
// Of those that hold a tile. A kernel of which each warpgroup has tiles of its own defines TRACEA_TILES_APART first.
__device__ __forceinline__ int warp_index() {
#ifdef TRACEA_TILES_APART
    return static_cast<int>(threadIdx.x) >> 5 & 3;
#else
    return static_cast<int>(threadIdx.x) >> 5;
#endif
}

// Some of a thread's registers, [first, end), as a type: code for them is written for each such range.
template <int FIRST, int COUNT>
struct Slots {
    static constexpr int first = FIRST, count = COUNT, end = FIRST + COUNT;
};

// Accumulators of mma.m16n8 (PTX ISA, "Matrix Fragments for mma.m16n8k16": C). Warp (wm, wn), warp = wm * WARPS_N + wn, holds rows
// from wm * ROWS / WARPS_M and columns from wn * COLS / WARPS_N, in 16x8 blocks of four registers a thread. With
// another APART than 16, a warp's blocks are so many rows apart, and one of each other warp lies in between.
template <int ROWS, int COLS, int WARPS_M, int WARPS_N, int APART = 16>
struct Mma16816 {
    static_assert(ROWS % (16 * WARPS_M) == 0 && COLS % (8 * WARPS_N) == 0, "a warp holds whole 16x8 blocks");
    static_assert(APART == 16 || APART == 16 * WARPS_M, "blocks of a warp lie together, or one of each warp does");

    static constexpr int rows = ROWS, cols = COLS, threads = 32 * WARPS_M * WARPS_N;
    static constexpr int warps_m = WARPS_M, warps_n = WARPS_N;
    static constexpr int warp_rows = ROWS / WARPS_M, warp_cols = COLS / WARPS_N;
    static constexpr int row_blocks = warp_rows / 16, col_blocks = warp_cols / 8;
    static constexpr int size = row_blocks * col_blocks * 4, row_size = row_blocks * 2, col_size = col_blocks * 2;
    static constexpr int vec = 2, lanes_along = 1;

    static __device__ __forceinline__ int warp_m() { return warp_index() / WARPS_N; }
    static __device__ __forceinline__ int warp_n() { return WARPS_N == 1 ? 0 : warp_index() % WARPS_N; }

    static __device__ __forceinline__ constexpr int row_slot(int r) { return r / (4 * col_blocks) * 2 + r % 4 / 2; }
    static __device__ __forceinline__ constexpr int col_slot(int r) { return r / 4 % col_blocks * 2 + r % 2; }
    static __device__ __forceinline__ int row_at(int s) {
        return warp_m() * (APART == 16 ? warp_rows : 16) + lane_index() / 4 + (s / 2 * APART + s % 2 * 8);
    }
    static __device__ __forceinline__ int col_base() { return warp_n() * warp_cols + lane_index() % 4 * 2; }
    static constexpr __device__ __forceinline__ int col_offset(int s) { return s / 2 * 8 + s % 2; }
    static __device__ __forceinline__ int col_at(int s) { return col_base() + col_offset(s); }
    static __device__ __forceinline__ int row(int r) { return row_at(row_slot(r)); }
    static __device__ __forceinline__ int col(int r) { return col_at(col_slot(r)); }

    static __device__ __forceinline__ bool owns() { return true; }
    static __device__ __forceinline__ bool owns_row() { return lane_index() % 4 == 0 && warp_n() == 0; }
    static __device__ __forceinline__ bool owns_col() { return lane_index() / 4 == 0 && warp_m() == 0; }

    static constexpr int cols_lanes = 3, cols_parts = WARPS_N;
    static constexpr int rows_lanes = 28, rows_parts = WARPS_M;
    static __device__ __forceinline__ int cols_part() { return warp_n(); }
    static __device__ __forceinline__ int rows_part() { return warp_m(); }
};

// The A operand of mma.m16n8k16 (M rows, K columns) in 16x16 blocks of eight elements a thread: (g, 2t), (g, 2t+1), the
// same of row g+8, then the same four of columns +8; g = lane / 4, t = lane % 4. Every warp of a row of warps has a copy.
template <int ROWS, int K, int WARPS_M, int WARPS_N>
struct MmaA {
    static_assert(ROWS % (16 * WARPS_M) == 0 && K % 16 == 0, "a warp holds whole 16x16 blocks");

    static constexpr int rows = ROWS, cols = K, threads = 32 * WARPS_M * WARPS_N;
    static constexpr int warps_m = WARPS_M, warps_n = WARPS_N;
    static constexpr int warp_rows = ROWS / WARPS_M;
    static constexpr int row_blocks = warp_rows / 16, col_blocks = K / 16;
    static constexpr int size = row_blocks * col_blocks * 8, row_size = row_blocks * 2, col_size = col_blocks * 4;
    static constexpr int vec = 2, lanes_along = 1;

    static __device__ __forceinline__ int warp_m() { return warp_index() / WARPS_N; }
    static __device__ __forceinline__ int warp_n() { return WARPS_N == 1 ? 0 : warp_index() % WARPS_N; }

    static __device__ __forceinline__ constexpr int row_slot(int r) { return r / (8 * col_blocks) * 2 + r / 2 % 2; }
    static __device__ __forceinline__ constexpr int col_slot(int r) {
        return r / 8 % col_blocks * 4 + r / 4 % 2 * 2 + r % 2;
    }
    static __device__ __forceinline__ int row_at(int s) {
        return warp_m() * warp_rows + lane_index() / 4 + (s / 2 * 16 + s % 2 * 8);
    }
    static __device__ __forceinline__ int col_base() { return lane_index() % 4 * 2; }
    static constexpr __device__ __forceinline__ int col_offset(int s) { return s / 2 * 8 + s % 2; }
    static __device__ __forceinline__ int col_at(int s) { return col_base() + col_offset(s); }
    static __device__ __forceinline__ int row(int r) { return row_at(row_slot(r)); }
    static __device__ __forceinline__ int col(int r) { return col_at(col_slot(r)); }

    static __device__ __forceinline__ bool owns() { return warp_n() == 0; }
    static __device__ __forceinline__ bool owns_row() { return lane_index() % 4 == 0 && warp_n() == 0; }
    static __device__ __forceinline__ bool owns_col() { return lane_index() / 4 == 0 && warp_index() == 0; }

    static constexpr int cols_lanes = 3, cols_parts = 1;
    static constexpr int rows_lanes = 28, rows_parts = WARPS_M;
    static __device__ __forceinline__ int cols_part() { return 0; }
    static __device__ __forceinline__ int rows_part() { return warp_m(); }
};

// The B operand of mma.m16n8k16 (K rows, N columns) in 16x8 blocks of four elements a thread: (2t, g), (2t+1, g), then the
// same of rows +8. Every warp of a column of warps has a copy.
template <int K, int COLS, int WARPS_M, int WARPS_N>
struct MmaB {
    static_assert(K % 16 == 0 && COLS % (8 * WARPS_N) == 0, "a warp holds whole 16x8 blocks");

    static constexpr int rows = K, cols = COLS, threads = 32 * WARPS_M * WARPS_N;
    static constexpr int warps_m = WARPS_M, warps_n = WARPS_N;
    static constexpr int warp_cols = COLS / WARPS_N;
    static constexpr int row_blocks = K / 16, col_blocks = warp_cols / 8;
    static constexpr int size = row_blocks * col_blocks * 4, row_size = row_blocks * 4, col_size = col_blocks;
    static constexpr int vec = 1, lanes_along = 1;

    static __device__ __forceinline__ int warp_m() { return warp_index() / WARPS_N; }
    static __device__ __forceinline__ int warp_n() { return WARPS_N == 1 ? 0 : warp_index() % WARPS_N; }

    static __device__ __forceinline__ constexpr int row_slot(int r) { return r / (4 * col_blocks) * 4 + r % 4; }
    static __device__ __forceinline__ constexpr int col_slot(int r) { return r / 4 % col_blocks; }
    static __device__ __forceinline__ int row_at(int s) {
        return lane_index() % 4 * 2 + (s / 4 * 16 + s % 4 / 2 * 8 + s % 2);
    }
    static __device__ __forceinline__ int col_base() { return warp_n() * warp_cols + lane_index() / 4; }
    static constexpr __device__ __forceinline__ int col_offset(int s) { return s * 8; }
    static __device__ __forceinline__ int col_at(int s) { return col_base() + col_offset(s); }
    static __device__ __forceinline__ int row(int r) { return row_at(row_slot(r)); }
    static __device__ __forceinline__ int col(int r) { return col_at(col_slot(r)); }

    static __device__ __forceinline__ bool owns() { return warp_m() == 0; }
    static __device__ __forceinline__ bool owns_row() { return lane_index() / 4 == 0 && warp_index() == 0; }
    static __device__ __forceinline__ bool owns_col() { return lane_index() % 4 == 0 && warp_m() == 0; }

    static constexpr int cols_lanes = 28, cols_parts = WARPS_N;
    static constexpr int rows_lanes = 3, rows_parts = 1;
    static __device__ __forceinline__ int cols_part() { return warp_n(); }
    static __device__ __forceinline__ int rows_part() { return 0; }
};

// The least of the numbers, 1 at least: neighbouring columns a thread, where each tensor's alignment has a say.
__host__ __device__ constexpr int narrowest() { return 1 << 30; }
template <class... Rest>
__host__ __device__ constexpr int narrowest(int first, Rest... rest) {
    const int least = narrowest(rest...);
    return first < 1 ? 1 : first < least ? first : least;
}

// The widest accesses to rows that are aligned to so many bytes: by 4 or more as they lie, and below that by chunks of 16 that lie
// across the vectors (shifted_rows.cuh).
__host__ __device__ constexpr int access_bytes(int align) { return align < 4 ? 16 : align; }

// Where register r is past the first `exist` columns, a multiple of UNIT: of vectors that divide it, where the vector is.
template <class L, int UNIT = 1>
__device__ __forceinline__ bool beyond_cols(int r, int exist) {
    constexpr int together = UNIT % L::vec == 0 ? L::vec : 1;
    return L::col_offset(L::col_slot(r / together * together)) >= exist - L::col_base();
}

// Threads as a THREADS_M x THREADS_N grid, thread = tm * THREADS_N + tn, that is laid over the tile again and again:
// row = ri * THREADS_M + tm, column = (ci * THREADS_N + tn) * VEC + v. Neighbouring threads hold neighbouring vectors.
template <int ROWS, int COLS, int THREADS_M, int THREADS_N, int VEC>
struct Blocked {
    static_assert((THREADS_N & (THREADS_N - 1)) == 0, "lanes of a row are found by the bits of the lane index");
    static_assert(THREADS_M * THREADS_N % 32 == 0, "shuffles take whole warps");
    static_assert(ROWS % THREADS_M == 0 && COLS % (THREADS_N * VEC) == 0, "every thread holds as much as any other");

    static constexpr int rows = ROWS, cols = COLS, threads = THREADS_M * THREADS_N;
    static constexpr int threads_m = THREADS_M, threads_n = THREADS_N;
    static constexpr int row_size = ROWS / THREADS_M, col_size = COLS / THREADS_N, size = row_size * col_size;
    static constexpr int vec = VEC, lanes_along = THREADS_N < 32 ? THREADS_N : 32;

    static __device__ __forceinline__ int thread_m() { return static_cast<int>(threadIdx.x) / THREADS_N; }
    static __device__ __forceinline__ int thread_n() { return static_cast<int>(threadIdx.x) % THREADS_N; }

    static __device__ __forceinline__ constexpr int row_slot(int r) { return r / col_size; }
    static __device__ __forceinline__ constexpr int col_slot(int r) { return r % col_size; }
    static __device__ __forceinline__ int row_at(int s) { return thread_m() + s * THREADS_M; }
    static __device__ __forceinline__ int col_base() { return thread_n() * VEC; }
    static constexpr __device__ __forceinline__ int col_offset(int s) { return s / VEC * (THREADS_N * VEC) + s % VEC; }
    static __device__ __forceinline__ int col_at(int s) { return col_base() + col_offset(s); }
    static __device__ __forceinline__ int row(int r) { return row_at(row_slot(r)); }
    static __device__ __forceinline__ int col(int r) { return col_at(col_slot(r)); }

    static __device__ __forceinline__ bool owns() { return true; }
    static __device__ __forceinline__ bool owns_row() { return thread_n() == 0; }
    static __device__ __forceinline__ bool owns_col() { return thread_m() == 0; }

    static constexpr int cols_lanes = THREADS_N < 32 ? THREADS_N - 1 : 31;
    static constexpr int cols_parts = THREADS_N < 32 ? 1 : THREADS_N / 32;
    static constexpr int rows_lanes = 31 & ~cols_lanes;
    static constexpr int rows_parts = THREADS_N < 32 ? threads / 32 : THREADS_M;
    static __device__ __forceinline__ int cols_part() { return THREADS_N < 32 ? 0 : thread_n() / 32; }
    static __device__ __forceinline__ int rows_part() { return THREADS_N < 32 ? warp_index() : thread_m(); }
};

// Accumulators of exact f32 products: columns by fours, so that B is read from shared memory by 16 bytes.
template <int ROWS, int COLS, int THREADS_M, int THREADS_N>
using Simt = Blocked<ROWS, COLS, THREADS_M, THREADS_N, 4>;

// A tile of rank 1, as a row slice without replication: row = (ri * THREADS + thread) * VEC + v.
template <int ROWS, int THREADS, int VEC>
struct Linear {
    static_assert(THREADS % 32 == 0 && ROWS % (THREADS * VEC) == 0, "every thread holds as much as any other");

    static constexpr int rows = ROWS, cols = 1, threads = THREADS;
    static constexpr int size = ROWS / THREADS, row_size = size, col_size = 1;
    static constexpr int vec = 1, lanes_along = 1;  // neighbouring *columns*: there is one
    static constexpr int row_vec = VEC;

    static __device__ __forceinline__ constexpr int row_slot(int r) { return r; }
    static __device__ __forceinline__ constexpr int col_slot(int) { return 0; }
    static __device__ __forceinline__ int row_at(int s) {
        return static_cast<int>(threadIdx.x) * VEC + (s / VEC * (THREADS * VEC) + s % VEC);
    }
    static __device__ __forceinline__ int col_base() { return 0; }
    static constexpr __device__ __forceinline__ int col_offset(int) { return 0; }
    static __device__ __forceinline__ int col_at(int s) { return col_base() + col_offset(s); }
    static __device__ __forceinline__ int row(int r) { return row_at(r); }
    static __device__ __forceinline__ int col(int) { return 0; }

    static __device__ __forceinline__ bool owns() { return true; }
    static __device__ __forceinline__ bool owns_row() { return true; }
    static __device__ __forceinline__ bool owns_col() { return threadIdx.x == 0; }

    static constexpr int cols_lanes = 0, cols_parts = 1;
    static constexpr int rows_lanes = 31, rows_parts = THREADS / 32;
    static __device__ __forceinline__ int cols_part() { return 0; }
    static __device__ __forceinline__ int rows_part() { return warp_index(); }
};

}  // namespace tracea
