// Global memory → shared memory and → registers. Whatever lies outside the tensor arrives as 0.
//
// The caller says where rows and elements are, by functions of tile coordinates; these loops say which thread moves what.
#pragma once

#include "tracea/cp_async.cuh"
#include "tracea/layout.cuh"
#include "tracea/shared_tile.cuh"
#include "tracea/shifted_rows.cuh"
#include "tracea/words.cuh"

namespace tracea {

// Where a row of a tile begins (its first column), or where one element is. An invalid one is not read.
template <class T>
struct RowSource {
    const T* pointer;
    bool valid;
};

// How THREADS threads share ROWS rows of PIECES pieces: neighbouring threads take neighbouring pieces, so that a warp reads
// whole lines. Where one count divides the other, only `row` or `piece` changes from step to step, and by a constant:
// addresses are then computed once.
template <int ROWS, int PIECES, int THREADS>
struct RowWalk {
    static constexpr int steps = (ROWS * PIECES + THREADS - 1) / THREADS;

    int thread;

    __device__ __forceinline__ int row(int step) const {
        if constexpr (THREADS % PIECES == 0) {
            return thread / PIECES + step * (THREADS / PIECES);
        } else if constexpr (PIECES % THREADS == 0) {
            return step / (PIECES / THREADS);
        } else {
            return (thread + step * THREADS) / PIECES;
        }
    }
    __device__ __forceinline__ int piece(int step) const {
        if constexpr (THREADS % PIECES == 0) {
            return thread % PIECES;
        } else if constexpr (PIECES % THREADS == 0) {
            return thread + step % (PIECES / THREADS) * THREADS;
        } else {
            return (thread + step * THREADS) % PIECES;
        }
    }
    // Steps are taken in unrolled batches, the batches in a loop: a batch's loads are in flight together, and its addresses
    // may be kept in registers from one call to the next; those of many batches would take more than there are.
    template <int MOST>
    static constexpr int batches = (steps + MOST - 1) / MOST;
    template <int MOST>
    static constexpr int batch = (steps + batches<MOST> - 1) / batches<MOST>;
    // Where the batch that comes after `first` steps begins: the last one takes steps of the one before again rather than ask, piece by
    // piece, whether there is one more. Loads behind such a question wait for each other.
    template <int BATCH>
    static __device__ __forceinline__ int start(int first) {
        return steps % BATCH == 0 ? first : min(first, steps - BATCH);
    }
    // False past the last piece of the last step.
    __device__ __forceinline__ bool has(int step) const {
        return ROWS * PIECES % THREADS == 0 || thread + step * THREADS < ROWS * PIECES;
    }
    // False past the last piece.
    template <int BATCH>
    __device__ __forceinline__ bool inside(int step) const {
        return ROWS * PIECES % (BATCH * THREADS) == 0 || thread + step * THREADS < ROWS * PIECES;
    }
};

// ---- global → shared

// The first `exist` of a chunk of eight 16-bit elements from an address that is aligned to 2 bytes only, zeros behind them:
// by aligned words where both halves exist, half as many loads as elements. Each load has its predicate and there is no
// branch, so that all of them go out together.
template <class T>
__device__ __forceinline__ Words<16> load_unaligned_chunk(const T* from, int exist) {
    static_assert(sizeof(T) == 2, "16-bit elements");
    const int odd = static_cast<int>(reinterpret_cast<unsigned long long>(from) / 2 % 2);
    const T* const aligned = from + odd;
    const unsigned before = odd && exist > 0 ? to_bits(*from) << 16 : 0;
    unsigned word[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        const int left = exist - odd - 2 * w;
        const unsigned both = left >= 2 ? *reinterpret_cast<const unsigned*>(aligned + 2 * w) : 0;
        const unsigned last = left == 1 ? to_bits(aligned[2 * w]) : 0;
        word[w] = both | last;
    }
    // Behind an odd address, each word of the result straddles two that were read.
    const unsigned select = odd ? 0x5432u : 0x7654u;
    Words<16> chunk;
#pragma unroll
    for (int w = 0; w < 4; ++w) chunk.word[w] = __byte_perm(w == 0 ? before : word[w - 1], word[w], select);
    return chunk;
}

// Rows whose pointers are aligned to ALIGN bytes. Of each row, columns [0, valid_cols) exist.
//
// From 4 bytes on this is cp.async with zero fill: commit, wait and a barrier make it visible. Below, cp.async cannot, and
// this thread loads and stores; the same commit, wait and barrier are right for that too.
//
// Up to BATCH pieces a thread are copied by straight-line code, whose row addresses the compiler carries from one call in a
// loop to the next, two registers each; more pieces are copied in a loop that computes them anew. A kernel that is short of
// registers asks for a smaller BATCH.
//
// The copying threads are FIRST_THREAD … FIRST_THREAD + THREADS - 1 of the block.
template <class Tile, int THREADS, int ALIGN, int BATCH = 8, int FIRST_THREAD = 0, class Rows>
__device__ __forceinline__ void copy_rows_async(typename Tile::element* shared, Rows source, int valid_cols) {
    using T = typename Tile::element;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    if constexpr (ALIGN >= 4) {
        constexpr int width = ALIGN >= 16 ? 16 : ALIGN >= 8 ? 8 : 4, count = width / element_bytes;
        using Walk = RowWalk<Tile::rows, Tile::cols / count, THREADS>;
        constexpr int batch = Walk::template batch<BATCH>;
        const Walk walk{static_cast<int>(threadIdx.x) - FIRST_THREAD};
        const unsigned base = shared_address(shared);
#pragma unroll 1
        for (int next = 0; next < Walk::steps; next += batch) {
            const int first = Walk::template start<batch>(next);
#pragma unroll
            for (int i = 0; i < batch; ++i) {
                if (walk.has(first + i)) {
                    const int row = walk.row(first + i), col = walk.piece(first + i) * count;
                    const auto from = source(row);
                    const int exist = from.valid ? min(max(valid_cols - col, 0), count) : 0;
                    cp_async<width>(base + Tile::offset(row, col) * element_bytes, from.pointer + col, exist * element_bytes);
                }
            }
        }
    } else {
        constexpr int count = Tile::chunk;
        using Walk = RowWalk<Tile::rows, Tile::chunks, THREADS>;
        constexpr int batch = Walk::template batch<(BATCH < 4 ? BATCH : 4)>;  // of five loads each
        const Walk walk{static_cast<int>(threadIdx.x) - FIRST_THREAD};
#pragma unroll 1
        for (int next = 0; next < Walk::steps; next += batch) {
            const int first = Walk::template start<batch>(next);
            Words<16> x[batch];
#pragma unroll
            for (int i = 0; i < batch; ++i) {
                const int row = walk.row(first + i), col = walk.piece(first + i) * count;
                const auto from = source(row);
                const bool inside = walk.has(first + i) && from.valid;
                x[i] = load_unaligned_chunk(from.pointer + col, inside ? min(valid_cols - col, count) : 0);
            }
#pragma unroll
            for (int i = 0; i < batch; ++i) {
                if (walk.has(first + i)) {
                    store_words<16>(shared + Tile::offset(walk.row(first + i), walk.piece(first + i) * count), x[i]);
                }
            }
        }
    }
}

// Elements from anywhere: source(row, col) gives each one's place. Threads as in copy_rows_async.
template <class Tile, int THREADS, int FIRST_THREAD = 0, class Elements>
__device__ __forceinline__ void copy_elements(typename Tile::element* shared, Elements source) {
    using T = typename Tile::element;
    using Walk = RowWalk<Tile::rows, Tile::cols, THREADS>;
    constexpr int batch = Walk::template batch<8>;
    const Walk walk{static_cast<int>(threadIdx.x) - FIRST_THREAD};
#pragma unroll 1
    for (int next = 0; next < Walk::steps; next += batch) {
        const int first = Walk::template start<batch>(next);
        T x[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            x[i] = T{};
            if (walk.has(first + i)) {
                const auto from = source(walk.row(first + i), walk.piece(first + i));
                if (from.valid) x[i] = *from.pointer;
            }
        }
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            if (walk.has(first + i)) {
                shared[Tile::offset(walk.row(first + i), walk.piece(first + i))] = x[i];
            }
        }
    }
}

// ---- global → registers. Values are converted to the type of x.

template <class L, class E, class Elements>
__device__ __forceinline__ void load_tile(E (&x)[L::size], Elements source) {
#pragma unroll
    for (int r = 0; r < L::size; ++r) {
        const auto from = source(L::row(r), L::col(r));
        x[r] = from.valid ? to<E>(*from.pointer) : E{};
    }
}

// Where as many neighbouring columns as ALIKE says, from each multiple of that on, have one element between them: it is loaded once for
// those that a vector holds.
template <class L, int ALIKE, class E, class Elements>
__device__ __forceinline__ void load_tile_alike(E (&x)[L::size], Elements source, int valid_cols) {
    constexpr int together = L::vec < ALIKE ? L::vec : ALIKE;
#pragma unroll
    for (int r = 0; r < L::size; ++r) {
        if (r % together == 0) {
            const auto from = source(L::row(r), L::col(r));
            x[r] = from.valid ? to<E>(*from.pointer) : E{};
        } else {
            x[r] = beyond_cols<L>(r, valid_cols) ? E{} : x[r - 1];
        }
    }
}

// By rows, with vector loads where the layout holds neighbouring columns: of at most ALIGN bytes, or of whole chunks that lie
// across the vectors. Where the caller knows that a tile's columns are WHOLE vectors of ALIGN bytes, nothing looks out for one that
// the edge cuts.
template <class L, int ALIGN, bool WHOLE = false, class E, class Rows>
__device__ __forceinline__ void load_tile_vec(E (&x)[L::size], Rows source, Columns columns) {
    const int valid_cols = columns.valid;
    using T = pointee<decltype(row_of<L>(source, 0).pointer)>;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    constexpr int width = vector_bytes(ALIGN, L::vec * element_bytes, element_bytes), count = width / element_bytes;
    if constexpr (Chunks<L, T>::shifted(ALIGN)) {
        constexpr int chunk = Chunks<L, T>::count;
        Words<Chunks<L, T>::bytes> v[L::size / chunk];
        load_tile_shifted<L, ALIGN, T>(v, source, columns);
#pragma unroll
        for (int r = 0; r < L::size; ++r) x[r] = to<E>(element<T>(v[r / chunk], r % chunk));
        return;
    }
    // A vector exists wholly or not at all unless the edge cuts one: only unusual strides bring that about.
    const bool whole = WHOLE || count == 1 || valid_cols >= L::cols || valid_cols % count == 0;
    const int exist = valid_cols - L::col_base();
    if (whole) {
#pragma unroll
        for (int r = 0; r < L::size; r += count) {
            const auto from = row_of<L>(source, r);
            const int col = L::col_offset(L::col_slot(r));
            Words<width> v{};
            if (from.valid && col < exist) v = load_words<width>(fixed_base(from.pointer + L::col_base()) + col);
#pragma unroll
            for (int i = 0; i < count; ++i) x[r + i] = to<E>(element<T>(v, i));
        }
    } else {
#pragma unroll
        for (int r = 0; r < L::size; ++r) {
            const auto from = row_of<L>(source, r);
            const int col = L::col_offset(L::col_slot(r));
            x[r] = from.valid && col < exist ? to<E>(from.pointer[L::col_base() + col]) : E{};
        }
    }
}

template <class L, class E, class Elements>
__device__ __forceinline__ void load_rows(E (&x)[L::row_size], Elements source) {
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) {
        const auto from = source(L::row_at(s));
        x[s] = from.valid ? to<E>(*from.pointer) : E{};
    }
}

template <class L, class E, class Elements>
__device__ __forceinline__ void load_cols(E (&x)[L::col_size], Elements source) {
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) {
        const auto from = source(L::col_at(s));
        x[s] = from.valid ? to<E>(*from.pointer) : E{};
    }
}

// A column slice of one row, with vector loads as load_tile_vec's.
template <class L, int ALIGN, bool WHOLE = false, class E, class Rows>
__device__ __forceinline__ void load_cols_vec(E (&x)[L::col_size], Rows source, Columns columns) {
    const int valid_cols = columns.valid;
    using T = pointee<decltype(source(0).pointer)>;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    constexpr int width = vector_bytes(ALIGN, L::vec * element_bytes, element_bytes), count = width / element_bytes;
    const auto from = source(0);
    if constexpr (Chunks<L, T>::shifted(ALIGN)) {
        using C = Chunks<L, T>;
        Words<C::bytes> v[L::col_size / C::count];
        load_shifted<T, C::bytes, ALIGN>(v, [&](int n) -> ShiftedSource<T> {
            const int col = L::col_offset(n * C::count), base = L::col_base();
            return {fixed_base(from.pointer + base) + col, from.valid ? min(valid_cols - base - col, C::count) : 0, columns.end - base - col};
        });
#pragma unroll
        for (int s = 0; s < L::col_size; ++s) x[s] = to<E>(element<T>(v[s / C::count], s % C::count));
        return;
    }
    if (WHOLE || count == 1 || valid_cols >= L::cols || valid_cols % count == 0) {
#pragma unroll
        for (int s = 0; s < L::col_size; s += count) {
            const int col = L::col_at(s);
            Words<width> v{};
            if (from.valid && col < valid_cols) v = load_words<width>(from.pointer + col);
#pragma unroll
            for (int i = 0; i < count; ++i) x[s + i] = to<E>(element<T>(v, i));
        }
    } else {
#pragma unroll
        for (int s = 0; s < L::col_size; ++s) {
            const int col = L::col_at(s);
            x[s] = from.valid && col < valid_cols ? to<E>(from.pointer[col]) : E{};
        }
    }
}

}  // namespace tracea
