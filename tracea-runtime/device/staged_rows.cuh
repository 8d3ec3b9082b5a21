// Rows of a tile in shared memory → global memory, in aligned chunks of 16 bytes, neighbouring threads writing neighbouring ones.
//
// Where rows are aligned to less, the chunks of global memory lie across those of shared memory: each is put together from two.
//
//     shared    |abcdefgh|ijklmnop|qrstuvwx|yzABCDEF|     rows of a tile, chunks of eight elements of 16 bits
//     global    |     abc|defghijk|lmnopqrs|tuvwxyzA|…    whole sectors of 32 bytes, but where a row begins and where it ends
#pragma once

#include "tracea/copy.cuh"
#include "tracea/words.cuh"

namespace tracea {

// Chunks of the columns from `first` on, of which those before `end` exist, to rows that are aligned to 16 bytes.
template <class T, int ROWS, int CHUNKS, int THREADS, int BATCH, class Rows, class Staged>
__device__ __forceinline__ void store_aligned_chunks(int thread, int first, int end, Rows target, Staged staged) {
    constexpr int count = 16 / static_cast<int>(sizeof(T));
    using Walk = RowWalk<ROWS, CHUNKS, THREADS>;
    constexpr int batch = Walk::template batch<BATCH>;
    const Walk walk{thread};
#pragma unroll 1
    for (int step = 0; step < Walk::steps; step += batch) {
#pragma unroll
        for (int n = 0; n < batch; ++n) {
            const int row = walk.row(step + n), col = first + walk.piece(step + n) * count;
            const auto at = target(row);
            if (walk.template inside<batch>(step + n) && at.valid && col < end) {
                const Words<16> v = load_words<16>(staged(row, col));
                if (col + count <= end) {
                    store_words<16>(at.pointer + col, v);
                } else {
#pragma unroll
                    for (int i = 0; i < count - 1; ++i) {
                        if (col + i < end) at.pointer[col + i] = element<T>(v, i);
                    }
                }
            }
        }
    }
}

// One access, whatever the compiler makes of the address. PTX ISA, "Data Movement and Conversion Instructions: st".
__device__ __forceinline__ void store_global_chunk(void* pointer, const Words<16>& v) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(pointer)), "r"(v.word[0]),
                 "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
                 : "memory");
}

// How far a row's first column is from the last whole sector of global memory before it, in elements.
template <class T>
__device__ __forceinline__ int past_sector(const T* row) {
    constexpr int bytes = static_cast<int>(sizeof(T));
    return static_cast<int>(reinterpret_cast<unsigned long long>(row) % 32) / bytes;
}

// The same to rows that are aligned to ALIGN < 16 bytes, as far as chunks exist whole. They begin at a sector of global memory, up to
// one before `first`. The loads of a batch are in flight together.
template <class T, int ALIGN, int ROWS, int CHUNKS, int THREADS, int BATCH, class Rows, class Staged>
__device__ __forceinline__ void store_shifted_chunks(int thread, int first, int end, Rows target, Staged staged) {
    constexpr int bytes = static_cast<int>(sizeof(T)), count = 16 / bytes;
    using Walk = RowWalk<ROWS, CHUNKS, THREADS>;
    constexpr int batch = Walk::template batch<BATCH>;
    const Walk walk{thread};
#pragma unroll 1
    for (int step = 0; step < Walk::steps; step += batch) {
        T* to[batch];
        bool whole[batch];
        Words<16> v[batch];
#pragma unroll
        for (int n = 0; n < batch; ++n) {
            const int row = walk.row(step + n);
            const auto at = target(row);
            const int col = first - past_sector(at.pointer) + walk.piece(step + n) * count, within = col & (count - 1);
            whole[n] = walk.template inside<batch>(step + n) && at.valid && col >= 0 && col + count <= end;
            to[n] = at.pointer + col;
            if (walk.template inside<batch>(step + n)) {
                const Words<16> lower = load_words<16>(staged(row, col - within));
                const Words<16> upper = load_words<16>(staged(row, col - within + count));
                v[n] = bytes_from<ALIGN>(lower, upper, within * bytes);
            }
        }
#pragma unroll
        for (int n = 0; n < batch; ++n) {
            if (whole[n]) store_global_chunk(to[n], v[n]);
        }
    }
}

// An element at a row's end, and where it goes.
template <class T>
struct RowEnd {
    T* pointer;
    int row, col;
    bool exists;
};

// What these leave of rows whose columns end at `end`: the elements before the first whole chunk (HEAD), or behind the last one. The loads
// of a batch are in flight together.
template <class T, bool HEAD, int ROWS, int THREADS, int BATCH, class Rows, class Staged>
__device__ __forceinline__ void store_row_ends(int thread, int end, Rows target, Staged staged) {
    constexpr int count = 16 / static_cast<int>(sizeof(T));
    using Walk = RowWalk<ROWS, count, THREADS>;
    constexpr int batch = Walk::template batch<BATCH>;
    const Walk walk{thread};
    const auto end_of = [&](int step) {
        const int row = walk.row(step);
        const auto at = target(row);
        const int past = past_sector(at.pointer);
        const int before = -past & (count - 1), behind = ((end + past) & -count) - past;
        const int col = (HEAD ? 0 : behind) + walk.piece(step);
        const bool exists = col < end && (HEAD ? col < before : col >= before);
        return RowEnd<T>{at.pointer, row, col, walk.template inside<batch>(step) && at.valid && exists};
    };
    const auto value = [&](const RowEnd<T>& at) {
        const int within = at.col & (count - 1);
        return staged(at.row, at.col - within)[within];
    };
#pragma unroll 1
    for (int step = 0; step < Walk::steps; step += batch) {
        if constexpr (batch == 1) {
            const RowEnd<T> at = end_of(step);
            if (at.exists) at.pointer[at.col] = value(at);
        } else {
            RowEnd<T> at[batch];
            T v[batch];
#pragma unroll
            for (int n = 0; n < batch; ++n) {
                at[n] = end_of(step + n);
                if (at[n].exists) v[n] = value(at[n]);
            }
#pragma unroll
            for (int n = 0; n < batch; ++n) {
                if (at[n].exists) at[n].pointer[at[n].col] = v[n];
            }
        }
    }
}

// Columns [first, first + COLS) of ROWS rows of a tile as wide as `width`, of which those before `end` exist. target(row) says
// where rows begin, aligned to ALIGN bytes; staged(row, col) points to a chunk. `first` and `col` are multiples of a chunk's
// elements.
//
// Where ALIGN is under 16, the last columns that do not fill a sector of global memory wait for the next call. So columns up to a
// sector before `first` are read too, and something must be readable where a tile has none. A thread has BATCH chunks on their way, and ENDS
// of the elements before and behind them.
template <class T, int ALIGN, int ROWS, int COLS, int THREADS, int BATCH, int ENDS, class Rows, class Staged>
__device__ __forceinline__ void store_staged_rows(int thread, int first, int width, int end, Rows target, Staged staged) {
    constexpr int chunks = COLS * static_cast<int>(sizeof(T)) / 16;
    if constexpr (ALIGN >= 16) {
        store_aligned_chunks<T, ROWS, chunks, THREADS, BATCH>(thread, first, end, target, staged);
    } else {
        const int until = min(end, width);
        if (first == 0) store_row_ends<T, true, ROWS, THREADS, ENDS>(thread, until, target, staged);
        store_shifted_chunks<T, ALIGN, ROWS, chunks, THREADS, BATCH>(thread, first, until, target, staged);
        if (first + COLS == width) {
            store_shifted_chunks<T, ALIGN, ROWS, 2, THREADS, 1>(thread, width, until, target, staged);
        }
        if (first < until && until <= first + COLS) store_row_ends<T, false, ROWS, THREADS, ENDS>(thread, until, target, staged);
    }
}

}  // namespace tracea
