// Whole rows that a block takes one after another, all of which begin equally far past a chunk: each thread keeps its elements of those that
// are under way in shared memory, and has its elements of the slices that they share in registers.
//
//     lines of memory     |...............|...............|...
//     a row                     abc ddddddd ddddddd ddddddd ef         its first vector has three places of a line before it
//
// Places for vectors count from a line of memory, so that a warp reads and writes whole lines.
#pragma once

#include "tracea/whole_rows.cuh"

namespace tracea {

// Places are gone through by AT_ONCE before threads look for the row's end.
template <int ROWS, int COLS, int THREADS_M, int THREADS_N, int VEC, int AT_ONCE>
struct RowsInTurn : WholeRows<ROWS, COLS, THREADS_M, THREADS_N, VEC> {
    using Whole = WholeRows<ROWS, COLS, THREADS_M, THREADS_N, VEC>;
    static_assert(ROWS == 1 && THREADS_M == 1, "a row for all threads");

    static constexpr int at_once = AT_ONCE, line_bytes = 128;

    static __device__ __forceinline__ bool has_vector(RowParts row, int n) {
        const bool begins = n > 0 || Whole::thread_n() >= row.passed_over;
        return begins && n * THREADS_N < row.passed_over + row.vectors - Whole::thread_n();
    }
    static __device__ __forceinline__ int end_col(RowParts row, int n) { return row.passed_over * VEC + Whole::end_col(row, n); }
    static __device__ __forceinline__ int col(int r, RowParts row) {
        return r < Whole::Grid::size ? Whole::Grid::col_at(r) : end_col(row, r - Whole::Grid::size);
    }
};

// What all of a block's rows consist of, by the first one. Columns count from `first`, which lies before the row where places are passed over.
struct RowPartsInTurn : RowParts {
    int first;
};

template <class L, class Rows>
__device__ __forceinline__ RowPartsInTurn parts_in_turn(Rows source, int columns) {
    using T = pointee<decltype(source(0).pointer)>;
    constexpr int vector_bytes = L::vec * static_cast<int>(sizeof(T));
    RowParts row = parts_of<L>(source, columns);
    row.passed_over = fixed_number(past_chunk<L::line_bytes>(source(0).pointer + row.before) / vector_bytes);
    return {row, row.before - row.passed_over * L::vec};
}

// The slots of a thread's place for a vector, and whether there is one of the row. What lies at a place without one is 0, so that all places
// are gone through alike: nothing branches, and one vector is loaded while others are worked on.
template <int FIRST, int COUNT>
struct Place : Slots<FIRST, COUNT> {
    bool exists;
};

// The places from N to END, which some thread has vectors for.
template <class L, int N, int END, class Body>
__device__ __forceinline__ void each_place(RowParts row, Body body) {
    if constexpr (N < END) {
        body(Place<N * L::vec, L::vec>{{}, L::has_vector(row, N)});
        each_place<L, N + 1, END>(row, body);
    }
}
template <class L, int N, class Body>
__device__ __forceinline__ void by_places(RowParts row, Body body) {
    constexpr int next = N + L::at_once < L::vectors ? N + L::at_once : L::vectors;
    each_place<L, N, next>(row, body);
    if constexpr (next < L::vectors) {
        if (next * L::threads_n < row.passed_over + row.vectors) by_places<L, next>(row, body);
    }
}
template <class L, class Body>
__device__ __forceinline__ void by_parts(RowPartsInTurn row, Body body) {
    if constexpr (L::ends > 0) body(typename L::Ends{});
    by_places<L, 0>(row, body);
}

template <class Op, class L, class T, int FIRST, int COUNT>
__device__ __forceinline__ void fold_cols(const T (&x)[L::size], T (&out)[L::row_size], Place<FIRST, COUNT> place) {
    const T all = Op::apply(out[0], folded<Op>(x, place));
    out[0] = place.exists ? all : out[0];
}
template <class L, class T, class E, class Rows, int FIRST, int COUNT>
__device__ __forceinline__ void store_whole(const E (&x)[L::size], Rows target, RowParts, Place<FIRST, COUNT> place) {
    using C = Chunks<L, T>;
    const auto to_row = target(0);
    T* const base = fixed_base(to_row.pointer + L::col_base());
#pragma unroll
    for (int r = FIRST; r < FIRST + COUNT; r += C::count) {
        const auto words = words_of<T, C::bytes>(x, r);
        if (to_row.valid && place.exists) store_words<C::bytes>(base + L::col_offset(r), words);
    }
}

// ---- rows: global → what each thread keeps of them → registers

// Of the rows under way, the elements at their ends that this thread has; the first of them is the row at work.
template <class L, class T, int ROWS>
struct RowEnds {
    T of[ROWS][L::ends + 1];
};

// A part of the next row, by cp.async: commit, and wait before load_row. Places without a vector become 0.
template <class L, class T, int ROWS, class Rows>
__device__ __forceinline__ void keep_row(T* kept, RowEnds<L, T, ROWS>& ends, Rows source, RowParts row, typename L::Ends) {
    const auto from = source(0);
#pragma unroll
    for (int e = 0; e < L::ends; ++e) {
#pragma unroll
        for (int r = 0; r + 1 < ROWS; ++r) ends.of[r][e] = ends.of[r + 1][e];
        ends.of[ROWS - 1][e] = from.valid && L::has_end(row, e) ? from.pointer[L::end_col(row, e)] : T{};
    }
}
template <class L, class T, int ROWS, class Rows, int FIRST, int COUNT>
__device__ __forceinline__ void keep_row(T* kept, RowEnds<L, T, ROWS>&, Rows source, RowParts, Place<FIRST, COUNT> place) {
    using Pieces = KeptPieces<L, T>;
    static_assert(Pieces::bytes >= 4, "as cp.async copies");
    const auto from = source(0);
    const T* const base = fixed_base(from.pointer + L::col_base());
    const unsigned to = fixed_number(shared_address(kept + Pieces::offset(0)));
    const int bytes = from.valid && place.exists ? Pieces::bytes : 0;
#pragma unroll
    for (int r = FIRST; r < FIRST + COUNT; r += Pieces::count) {
        cp_async<Pieces::bytes>(to + Pieces::step(r) * static_cast<int>(sizeof(T)), base + L::col_offset(r), bytes);
    }
}
template <class L, class T, int ROWS, class Rows>
__device__ __forceinline__ void keep_row(T* kept, RowEnds<L, T, ROWS>& ends, Rows source, RowPartsInTurn row) {
    using Pieces = KeptPieces<L, T>;
    keep_row<L>(kept, ends, source, row, typename L::Ends{});
    const auto from = source(0);
    const T* const base = fixed_base(from.pointer + L::col_base());
    const unsigned to = fixed_number(shared_address(kept + Pieces::offset(0)));
    constexpr int stride = L::threads_n * L::vec;
    // What is done once is short: its code comes from memory, too.
#pragma unroll 4
    for (int n = 0; n < L::vectors; ++n) {
        const int bytes = from.valid && L::has_vector(row, n) ? Pieces::bytes : 0;
#pragma unroll
        for (int i = 0; i < L::vec; i += Pieces::count) {
            const int place = (n * stride + Pieces::step(i)) * static_cast<int>(sizeof(T));
            cp_async<Pieces::bytes>(to + place, base + n * stride + L::col_offset(i), bytes);
        }
    }
}

template <class L, class T, int ROWS, class E, class S>
__device__ __forceinline__ void load_row(E (&x)[L::size], const T* kept, const RowEnds<L, T, ROWS>& ends, S) {
    using Pieces = KeptPieces<L, T>;
    if constexpr (are_ends<L, S>) {
#pragma unroll
        for (int r = S::first; r < S::end; ++r) x[r] = to<E>(ends.of[0][r - S::first]);
    } else {
#pragma unroll
        for (int r = S::first; r < S::end; r += Pieces::count) {
            const auto piece = load_words<Pieces::bytes>(kept + Pieces::offset(r));
#pragma unroll
            for (int i = 0; i < Pieces::count; ++i) x[r + i] = to<E>(element<T>(piece, i));
        }
    }
}

// ---- column slices: what the block keeps of one → the registers of those that have its elements

// As they lie in memory: narrow elements take up as much of a register.
template <class L, class T>
struct HeldSlice {
    using C = Chunks<L, T>;
    Words<C::bytes> chunks[L::Ends::first / C::count];
    T ends[L::ends + 1];
};

// Chunks are kept by the lines in which they lie in memory, from the one on in which the row's first vector begins.
template <class L, class T>
struct SliceByLines : KeptSlice<L, T> {
    // Of the line in which that chunk lies.
    int chunks_before;
};

// By cp.async: commit, wait and a barrier make it visible. Warps read whole lines.
template <class L, class T, class Rows>
__device__ __forceinline__ SliceByLines<L, T> keep_slice(T* kept, Rows source, RowPartsInTurn row) {
    using C = Chunks<L, T>;
    static_assert(C::bytes == 16, "chunks of 16 bytes");
    constexpr int chunks = L::cols / (L::threads_n * C::count), stride = L::threads_n * C::count;
    const auto from = source(0);
    const RowParts exist = from.valid ? row : RowParts{};
    const T* const vectors = from.pointer + row.passed_over * L::vec;
    SliceByLines<L, T> slice{{past_chunk<16>(vectors), {}}, past_chunk<L::line_bytes>(vectors) / 16};
    // Of the chunk in which the last vector ends the slice may have a part.
    const int behind = slice.past != 0 && exist.vectors > 0 ? min(slice.past + exist.behind * C::element_bytes, 16) : 0;
    const int end = (slice.chunks_before + exist.vectors * C::each) * 16 + behind;
    const T* const line = vectors - past_chunk<L::line_bytes>(vectors) / C::element_bytes;
    const T* const base = fixed_base(line + L::thread_n() * C::count);
    const unsigned place = fixed_number(shared_address(kept + L::thread_n() * C::count));
#pragma unroll 4
    for (int n = 0; n < chunks; ++n) {
        const int at = n * L::threads_n + L::thread_n(), left = end - at * 16;
        if (at >= slice.chunks_before && left > 0) cp_async<16>(place + n * stride * C::element_bytes, base + n * stride, min(left, 16));
    }
#pragma unroll
    for (int e = 0; e < L::ends; ++e) slice.ends[e] = L::has_end(exist, e) ? from.pointer[L::end_col(row, e)] : T{};
    return slice;
}

// A thread's chunks, which begin so many words past what is kept, and a part of a word. By code for each number of words: it runs once, and
// to choose words would be most of it.
template <int WORDS, class L, class T>
__device__ __forceinline__ void hold_chunks(HeldSlice<L, T>& held, const T* place, int past, RowParts row) {
    using C = Chunks<L, T>;
#pragma unroll
    for (int n = 0; n < L::Ends::first / C::count; ++n) {
        if (!L::has_vector(row, n / C::each)) continue;
        const T* const at = place + L::col_offset(n * C::count);
        const auto lower = load_words<16>(at), upper = load_words<16>(at + C::count);
        const auto word = [&](int i) { return i < 4 ? lower.word[i % 4] : upper.word[i % 4]; };
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            held.chunks[n].word[i] = C::element_bytes < 4 ? __funnelshift_r(word(WORDS + i), word(WORDS + i + 1), past % 4 * 8) : word(WORDS + i);
        }
    }
}
template <class L, class T>
__device__ __forceinline__ HeldSlice<L, T> hold_slice(const T* kept, const SliceByLines<L, T>& slice, RowParts row) {
    HeldSlice<L, T> held{};
    const T* const place = kept + slice.chunks_before * Chunks<L, T>::count - row.passed_over * L::vec + L::col_base();
    switch (slice.past / 4) {
        case 0: hold_chunks<0>(held, place, slice.past, row); break;
        case 1: hold_chunks<1>(held, place, slice.past, row); break;
        case 2: hold_chunks<2>(held, place, slice.past, row); break;
        default: hold_chunks<3>(held, place, slice.past, row);
    }
#pragma unroll
    for (int e = 0; e < L::ends; ++e) held.ends[e] = slice.ends[e];
    return held;
}

// The same words, as far as the compiler knows another time: what is made of them is made anew for each row, not held beside them.
template <int BYTES>
__device__ __forceinline__ Words<BYTES> at_this_turn(Words<BYTES> words) {
#pragma unroll
    for (int i = 0; i < BYTES / 4; ++i) asm volatile("" : "+r"(words.word[i]));
    return words;
}

template <class L, class T, class E, class S>
__device__ __forceinline__ void load_held(E (&x)[L::col_size], const HeldSlice<L, T>& held, S) {
    using C = Chunks<L, T>;
    if constexpr (are_ends<L, S>) {
#pragma unroll
        for (int r = S::first; r < S::end; ++r) x[r] = to<E>(held.ends[r - S::first]);
    } else {
#pragma unroll
        for (int r = S::first; r < S::end; r += C::count) {
            const auto chunk = at_this_turn(held.chunks[r / C::count]);
#pragma unroll
            for (int i = 0; i < C::count; ++i) x[r + i] = to<E>(element<T>(chunk, i));
        }
    }
}

}  // namespace tracea
