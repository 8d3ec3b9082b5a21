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

    __device__ __forceinline__ bool has(int col) const { return col >= first && col < end; }
    __device__ __forceinline__ bool has_all(int col, int count) const { return col >= first && col + count <= end; }
    __device__ __forceinline__ bool has_any(int col, int count) const { return col + count > first && col < end; }
};

// Whether all columns exist of which this thread's warp holds elements: most of a row has nothing to look out for.
template <class L>
__device__ __forceinline__ bool covers_warp(Span columns) {
    static_assert(L::lanes_along == 32, "a warp holds columns of one row");
    const int begin = L::col_base() - lane_index() * L::vec;
    return columns.first <= begin && columns.end >= begin + L::col_offset(L::col_size - L::vec) + 32 * L::vec;
}

// How far the row of which this thread holds elements begins past a multiple of L::vec elements.
template <class L, class Rows>
__device__ __forceinline__ int skew_of(Rows source) {
    static_assert(L::row_size == 1 && L::lanes_along == 32, "a warp holds elements of one row");
    using T = pointee<decltype(source(0).pointer)>;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    return past_chunk<L::vec * element_bytes>(source(L::row_at(0)).pointer) / element_bytes;
}

// The elements of a vector of COUNT that exist, one by one; zeros for the others.
template <int COUNT, class E, int N, class T>
__device__ __forceinline__ void load_cut(E (&x)[N], int r, const T* from, int col, Span columns) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) x[r + i] = columns.has(col + i) ? to<E>(from[i]) : E{};
}

// global → registers, by rows that begin at multiples of a vector.
template <class L, class E, class Rows>
__device__ __forceinline__ void load_skewed(E (&x)[L::size], Rows source, Span columns) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
    const bool inside = covers_warp<L>(columns);
    bool cut = false;
#pragma unroll
    for (int r = 0; r < L::size; r += C::count) {
        const auto from = source(L::row(r));
        const int offset = L::col_offset(L::col_slot(r)), col = L::col_base() + offset;
        const bool whole = inside || columns.has_all(col, C::count);
        Words<C::bytes> v{};
        if (from.valid && whole) v = load_words<C::bytes>(fixed_base(from.pointer + L::col_base()) + offset);
#pragma unroll
        for (int i = 0; i < C::count; ++i) x[r + i] = to<E>(element<T>(v, i));
        cut |= from.valid && !whole && columns.has_any(col, C::count);
    }
    if (cut) {
#pragma unroll
        for (int r = 0; r < L::size; r += C::count) {
            const int col = L::col(r);
            if (!columns.has_all(col, C::count)) load_cut<C::count>(x, r, source(L::row(r)).pointer + col, col, columns);
        }
    }
}

// A column slice of one row that begins anywhere: vectors lie across chunks (shifted_rows.cuh), which are read that lie in the row.
template <class L, class E, class Rows>
__device__ __forceinline__ void load_cols_skewed(E (&x)[L::col_size], Rows source, Span columns) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
    const auto from = source(0);
    Words<C::bytes> v[L::col_size / C::count];
    // The last vector's second chunk ends less than a vector behind it.
    if (covers_warp<L>({columns.first, columns.end - C::count})) {
        const T* const base = fixed_base(from.pointer + L::col_base());
        const int past = past_chunk<C::bytes>(base);
        const auto* const chunk = reinterpret_cast<const unsigned char*>(base) - past;
        Words<C::bytes> upper[L::col_size / C::count];
#pragma unroll
        for (int n = 0; n < L::col_size / C::count; ++n) {
            v[n] = load_words<C::bytes>(chunk + L::col_offset(n * C::count) * C::element_bytes);
            upper[n] = load_words<C::bytes>(chunk + L::col_offset(n * C::count) * C::element_bytes + C::bytes);
        }
#pragma unroll
        for (int n = 0; n < L::col_size / C::count; ++n) v[n] = bytes_from<C::element_bytes>(v[n], upper[n], past);
    } else {
        load_shifted<T, C::bytes, C::element_bytes>(v, [&](int n) -> ShiftedSource<T> {
            const int offset = L::col_offset(n * C::count), col = L::col_base() + offset;
            const int left = columns.end - col;
            return {fixed_base(from.pointer + L::col_base()) + offset, col >= columns.first ? min(left, C::count) : 0, left};
        });
    }
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) x[s] = to<E>(element<T>(v[s / C::count], s % C::count));
    if (columns.first > 0) {
#pragma unroll
        for (int s = 0; s < L::col_size; s += C::count) {
            const int col = L::col_at(s);
            if (col < columns.first && columns.has_any(col, C::count)) load_cut<C::count>(x, s, from.pointer + col, col, columns);
        }
    }
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
__device__ __forceinline__ void load_kept_skewed(E (&x)[L::size], const T* kept, Span columns) {
    using Pieces = KeptPieces<L, T>;
    load_kept<L>(x, kept);
    if (columns.first <= 0) return;
#pragma unroll
    for (int r = 0; r < L::size; r += Pieces::count) {
        const int col = L::col(r);
        if (col < columns.first) {
#pragma unroll
            for (int i = 0; i < Pieces::count; ++i) {
                if (col + i < columns.first) x[r + i] = E{};
            }
        }
    }
}

// registers → global
template <class L, class T, class E, class Rows>
__device__ __forceinline__ void store_skewed(const E (&x)[L::size], Rows target, Span columns) {
    using C = Chunks<L, T>;
    const bool inside = covers_warp<L>(columns);
    bool cut = false;
#pragma unroll
    for (int r = 0; r < L::size; r += C::count) {
        const auto at = target(L::row(r));
        const int offset = L::col_offset(L::col_slot(r)), col = L::col_base() + offset;
        const bool whole = inside || columns.has_all(col, C::count);
        if (at.valid && whole) store_words<C::bytes>(fixed_base(at.pointer + L::col_base()) + offset, words_of<T, C::bytes>(x, r));
        cut |= at.valid && !whole && columns.has_any(col, C::count);
    }
    if (cut) {
#pragma unroll
        for (int r = 0; r < L::size; r += C::count) {
            const int col = L::col(r);
            if (!columns.has_all(col, C::count)) {
                T* const to_row = target(L::row(r)).pointer;
#pragma unroll
                for (int i = 0; i < C::count; ++i) {
                    if (columns.has(col + i)) to_row[col + i] = to<T>(x[r + i]);
                }
            }
        }
    }
}

// Elements of columns that do not exist get a value.
template <class L, class E>
__device__ __forceinline__ void mask_outside(E (&x)[L::size], Span columns, E value) {
    if (covers_warp<L>(columns)) return;
#pragma unroll
    for (int r = 0; r < L::size; r += L::vec) {
        const int col = L::col(r);
        if (!columns.has_all(col, L::vec)) {
#pragma unroll
            for (int i = 0; i < L::vec; ++i) {
                if (!columns.has(col + i)) x[r + i] = value;
            }
        }
    }
}

}  // namespace tracea
