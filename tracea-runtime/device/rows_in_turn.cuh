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

template <int ROWS, int COLS, int THREADS_M, int THREADS_N, int VEC>
struct RowsInTurn : WholeRows<ROWS, COLS, THREADS_M, THREADS_N, VEC> {
    using Whole = WholeRows<ROWS, COLS, THREADS_M, THREADS_N, VEC>;
    static_assert(ROWS == 1 && THREADS_M == 1, "a row for all threads");

    static constexpr bool in_turn = true;

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
    constexpr int vector_bytes = L::vec * static_cast<int>(sizeof(T)), line_bytes = 128;
    RowParts row = parts_of<L>(source, columns);
    row.passed_over = fixed_number(past_chunk<line_bytes>(source(0).pointer + row.before) / vector_bytes);
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
    // Of many, a few that nobody has count for less.
    constexpr int at_a_time = L::vectors > 16 ? 5 : 2, next = N + at_a_time < L::vectors ? N + at_a_time : L::vectors;
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
    by_parts<L>(row, [&](auto slots) { keep_row<L>(kept, ends, source, row, slots); });
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

template <class L, class T>
__device__ __forceinline__ HeldSlice<L, T> hold_slice(const T* kept, const KeptSlice<L, T>& slice, RowParts row) {
    using C = Chunks<L, T>;
    HeldSlice<L, T> held{};
    const T* const place = slice_of_row<L>(kept) + L::col_base();
#pragma unroll
    for (int n = 0; n < L::Ends::first / C::count; ++n) {
        if (L::has_vector(row, n / C::each)) {
            const T* const at = place + L::col_offset(n * C::count);
            held.chunks[n] = bytes_from<C::element_bytes, ByPermutation>(load_words<C::bytes>(at), load_words<C::bytes>(at + C::count), slice.past);
        }
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
