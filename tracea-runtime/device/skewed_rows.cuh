// Rows that begin anywhere inside an aligned chunk of memory, walked from where that chunk begins: blocks of columns are whole chunks
// then, and nothing is shifted. Of the first chunk some elements lie before the row, of the last one some behind it.
//
//     chunks of memory    |........|........|........|
//     a row                     abc defghijk lmn          columns -5 to 18, of which 0 to 13 exist
//
// What threads hold of columns that do not exist is 0, as of all that lies outside a tensor.
#pragma once

#include "tracea/kept.cuh"
#include "tracea/store.cuh"

namespace tracea {

// Of a tile's columns, those that exist: [first, end), counted from the tile's own first.
struct Span {
    int first, end;

    __device__ __forceinline__ bool has_any(int col, int count) const { return col + count > first && col < end; }
};

// What a warp holds of them: all, so that its code looks out for nothing and moves whole vectors, or some, which are looked at one by one.
struct Whole {};
struct Cut {
    int first, end;

    __device__ __forceinline__ bool has(int col) const { return col >= first && col < end; }
};

// Whether all columns exist of which this thread's warp holds elements: most of a row has nothing to look out for.
template <class L>
__device__ __forceinline__ bool covers_warp(Span columns) {
    static_assert(L::lanes_along == 32, "a warp holds columns of one row");
    const int begin = L::col_base() - lane_index() * L::vec;
    return columns.first <= begin && columns.end >= begin + L::col_offset(L::col_size - L::vec) + 32 * L::vec;
}

template <class L, class Body>
__device__ __forceinline__ void whole_or_cut(Span columns, Body body) {
    // Slices that begin anywhere are read by two chunks a vector; the second one ends less than a vector behind the first.
    if (covers_warp<L>({columns.first, columns.end - L::vec})) {
        body(Whole{});
    } else {
        body(Cut{columns.first, columns.end});
    }
}

// A step for the threads that hold columns which exist. All that it reads is on its way at once, since nothing in it depends on where
// rows end.
template <class L, class Body>
__device__ __forceinline__ void by_columns(Span columns, Body step) {
    if (L::col_base() < columns.end) whole_or_cut<L>(columns, step);
}

// How far the row of which this thread holds elements begins past a multiple of L::vec elements.
template <class L, class Rows>
__device__ __forceinline__ int skew_of(Rows source) {
    static_assert(L::row_size == 1 && L::lanes_along == 32, "a warp holds elements of one row");
    using T = pointee<decltype(source(0).pointer)>;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    return past_chunk<L::vec * element_bytes>(source(L::row_at(0)).pointer) / element_bytes;
}

// global → registers, by rows that begin at multiples of a vector.
template <class L, class E, class Rows>
__device__ __forceinline__ void load_skewed(E (&x)[L::size], Rows source, Whole) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
#pragma unroll
    for (int r = 0; r < L::size; r += C::count) {
        const auto from = source(L::row(r));
        Words<C::bytes> v{};
        if (from.valid) v = load_words<C::bytes>(fixed_base(from.pointer + L::col_base()) + L::col_offset(L::col_slot(r)));
#pragma unroll
        for (int i = 0; i < C::count; ++i) x[r + i] = to<E>(element<T>(v, i));
    }
}

// The same for some columns: one element after the other.
template <class L, class E, class Rows>
__device__ __forceinline__ void load_skewed(E (&x)[L::size], Rows source, Cut columns) {
#pragma unroll
    for (int r = 0; r < L::size; ++r) {
        const auto from = source(L::row(r));
        const int col = L::col(r);
        x[r] = from.valid && columns.has(col) ? to<E>(from.pointer[col]) : E{};
    }
}

template <class L, class E, class Rows>
__device__ __forceinline__ void load_skewed(E (&x)[L::size], Rows source, Span columns) {
    whole_or_cut<L>(columns, [&](auto some) { load_skewed<L>(x, source, some); });
}

// A column slice of one row that begins anywhere: vectors lie across chunks, which are read that lie in the row.
template <class L, class E, class Rows>
__device__ __forceinline__ void load_cols_skewed(E (&x)[L::col_size], Rows source, Whole) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
    const T* const base = fixed_base(source(0).pointer + L::col_base());
    const int past = past_chunk<C::bytes>(base);
    const auto* const chunk = reinterpret_cast<const unsigned char*>(base) - past;
    Words<C::bytes> lower[L::col_size / C::count], upper[L::col_size / C::count];
#pragma unroll
    for (int n = 0; n < L::col_size / C::count; ++n) {
        lower[n] = load_words<C::bytes>(chunk + L::col_offset(n * C::count) * C::element_bytes);
        upper[n] = load_words<C::bytes>(chunk + L::col_offset(n * C::count) * C::element_bytes + C::bytes);
    }
#pragma unroll
    for (int n = 0; n < L::col_size / C::count; ++n) {
        const auto v = bytes_from<C::element_bytes>(lower[n], upper[n], past);
#pragma unroll
        for (int i = 0; i < C::count; ++i) x[n * C::count + i] = to<E>(element<T>(v, i));
    }
}

template <class L, class E, class Rows>
__device__ __forceinline__ void load_cols_skewed(E (&x)[L::col_size], Rows source, Cut columns) {
    const auto from = source(0);
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) {
        const int col = L::col_at(s);
        x[s] = columns.has(col) ? to<E>(from.pointer[col]) : E{};
    }
}

template <class L, class E, class Rows>
__device__ __forceinline__ void load_cols_skewed(E (&x)[L::col_size], Rows source, Span columns) {
    whole_or_cut<L>(columns, [&](auto some) { load_cols_skewed<L>(x, source, some); });
}

// global → what this thread keeps (kept.cuh), by cp.async; what lies before a row in its first chunk comes along.
template <class L, class T, class Rows>
__device__ __forceinline__ void keep_skewed(T* kept, Rows source, Span columns) {
    using Pieces = KeptPieces<L, T>;
    static_assert(Pieces::bytes >= 4, "as cp.async copies");
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    const unsigned place = shared_address(kept + static_cast<int>(threadIdx.x) * Pieces::count);
    const bool inside = covers_warp<L>(columns);
#pragma unroll
    for (int r = 0; r < L::size; r += Pieces::count) {
        const auto source_row = source(L::row(r));
        const int offset = L::col_offset(L::col_slot(r)), col = L::col_base() + offset;
        const T* const from = fixed_base(source_row.pointer + L::col_base()) + offset;
        const bool some = source_row.valid && (inside || columns.has_any(col, Pieces::count));
        const int left = columns.end - col;
        const unsigned to = place + Pieces::step(r) * element_bytes;
        // Rows end inside few vectors; of all others, the size is one of two constants.
        if (!inside && some && left < Pieces::count) {
            cp_async<Pieces::bytes>(to, from, left * element_bytes);
        } else {
            cp_async<Pieces::bytes>(to, from, some ? Pieces::bytes : 0);
        }
    }
}

template <class L, class T, class E>
__device__ __forceinline__ void load_kept_skewed(E (&x)[L::size], const T* kept, Whole) {
    load_kept<L>(x, kept);
}

// What was kept behind a row's end are zeros already.
template <class L, class T, class E>
__device__ __forceinline__ void load_kept_skewed(E (&x)[L::size], const T* kept, Cut columns) {
    load_kept<L>(x, kept);
#pragma unroll
    for (int r = 0; r < L::size; ++r) {
        if (L::col(r) < columns.first) x[r] = E{};
    }
}

template <class L, class T, class E>
__device__ __forceinline__ void load_kept_skewed(E (&x)[L::size], const T* kept, Span columns) {
    whole_or_cut<L>(columns, [&](auto some) { load_kept_skewed<L>(x, kept, some); });
}

// registers → global
template <class L, class T, class E, class Rows>
__device__ __forceinline__ void store_skewed(const E (&x)[L::size], Rows target, Whole) {
    using C = Chunks<L, T>;
#pragma unroll
    for (int r = 0; r < L::size; r += C::count) {
        const auto at = target(L::row(r));
        T* const to_row = fixed_base(at.pointer + L::col_base()) + L::col_offset(L::col_slot(r));
        if (at.valid) store_words<C::bytes>(to_row, words_of<T, C::bytes>(x, r));
    }
}

template <class L, class T, class E, class Rows>
__device__ __forceinline__ void store_skewed(const E (&x)[L::size], Rows target, Cut columns) {
#pragma unroll
    for (int r = 0; r < L::size; ++r) {
        const auto at = target(L::row(r));
        const int col = L::col(r);
        if (at.valid && columns.has(col)) at.pointer[col] = to<T>(x[r]);
    }
}

template <class L, class T, class E, class Rows>
__device__ __forceinline__ void store_skewed(const E (&x)[L::size], Rows target, Span columns) {
    whole_or_cut<L>(columns, [&](auto some) { store_skewed<L, T>(x, target, some); });
}

// Elements of columns that do not exist get a value.
template <class L, class E>
__device__ __forceinline__ void mask_outside(E (&)[L::size], Whole, E) {}

template <class L, class E>
__device__ __forceinline__ void mask_outside(E (&x)[L::size], Cut columns, E value) {
#pragma unroll
    for (int r = 0; r < L::size; ++r) {
        if (!columns.has(L::col(r))) x[r] = value;
    }
}

template <class L, class E>
__device__ __forceinline__ void mask_outside(E (&x)[L::size], Span columns, E value) {
    whole_or_cut<L>(columns, [&](auto some) { mask_outside<L>(x, some, value); });
}

}  // namespace tracea
