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

// The first column of which this thread's warp holds an element.
template <class L>
__device__ __forceinline__ int warp_begin() {
    static_assert(L::lanes_along == 32, "a warp holds columns of one row");
    return L::col_base() - lane_index() * L::vec;
}

// Of a tile's columns, those that exist: [first, end), counted from the tile's own first.
struct Span {
    int first, end;
};

// What a warp holds of them: all, so that its code looks out for nothing and moves whole vectors, or some, which are looked at one by one.
struct Whole {};
struct Cut {
    int first, end;

    __device__ __forceinline__ bool has(int col) const { return static_cast<unsigned>(col - first) < static_cast<unsigned>(end - first); }
    // Of COUNT columns of each lane, from slot s on, which is the same for the whole warp.
    template <class L, int COUNT>
    __device__ __forceinline__ bool has_none(int s) const {
        const int begin = warp_begin<L>() + L::col_offset(s);
        return end <= begin || first >= begin + 31 * L::vec + COUNT;
    }
    template <class L, int COUNT>
    __device__ __forceinline__ bool has_all(int s) const {
        const int begin = warp_begin<L>() + L::col_offset(s);
        return first <= begin && end >= begin + 31 * L::vec + COUNT;
    }
};

// Whether all columns exist of which this thread's warp holds elements: most of a row has nothing to look out for.
template <class L>
__device__ __forceinline__ bool covers_warp(Span columns) {
    const int begin = warp_begin<L>();
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

// COUNT elements from slot or register r on, whose first column is `col`; zeros for columns that do not exist. All reads are under way
// before the first one is waited for.
template <int COUNT, class E, int N, class T>
__device__ __forceinline__ void load_cut(E (&x)[N], int r, const T* from, int col, Cut columns) {
    const T* const base = fixed_base(from + col);
    T read[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) read[i] = columns.has(col + i) ? base[i] : T{};
#pragma unroll
    for (int i = 0; i < COUNT; ++i) x[r + i] = to<E>(read[i]);
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

template <class L, class E, class Rows>
__device__ __forceinline__ void load_skewed(E (&x)[L::size], Rows source, Cut columns) {
    using C = Chunks<L, pointee<decltype(source(0).pointer)>>;
#pragma unroll
    for (int r = 0; r < L::size; r += C::count) {
        const auto from = source(L::row(r));
        load_cut<C::count>(x, r, from.pointer, L::col(r), from.valid ? columns : Cut{0, 0});
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
    constexpr int count = Chunks<L, pointee<decltype(from.pointer)>>::count;
#pragma unroll
    for (int s = 0; s < L::col_size; s += count) {
        load_cut<count>(x, s, from.pointer, L::col_at(s), columns);
    }
}

template <class L, class E, class Rows>
__device__ __forceinline__ void load_cols_skewed(E (&x)[L::col_size], Rows source, Span columns) {
    whole_or_cut<L>(columns, [&](auto some) { load_cols_skewed<L>(x, source, some); });
}

// global → what this thread keeps (kept.cuh), by cp.async; what lies before a row in its first chunk comes along, what lies behind it
// becomes 0.
template <class L, class T, class Rows>
__device__ __forceinline__ void keep_skewed(T* kept, Rows source, Span columns) {
    using Pieces = KeptPieces<L, T>;
    static_assert(Pieces::bytes >= 4, "as cp.async copies");
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    const unsigned place = shared_address(kept + static_cast<int>(threadIdx.x) * Pieces::count);
    const bool whole = columns.end >= warp_begin<L>() + L::col_offset(L::col_size - L::vec) + 32 * L::vec;
#pragma unroll
    for (int r = 0; r < L::size; r += Pieces::count) {
        const auto source_row = source(L::row(r));
        const int offset = L::col_offset(L::col_slot(r));
        const T* const from = fixed_base(source_row.pointer + L::col_base()) + offset;
        const unsigned to = place + Pieces::step(r) * element_bytes;
        const int left = columns.end - L::col_base() - offset;
        // Rows end inside few vectors; of all others, the size is one of two constants.
        if (whole || left >= Pieces::count || left <= 0) {
            cp_async<Pieces::bytes>(to, from, source_row.valid && (whole || left > 0) ? Pieces::bytes : 0);
        } else {
            cp_async<Pieces::bytes>(to, from, source_row.valid ? left * element_bytes : 0);
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
    for (int r = 0; r < L::size; r += L::vec) {
        if (columns.first > warp_begin<L>() + L::col_offset(L::col_slot(r))) {
#pragma unroll
            for (int i = 0; i < L::vec; ++i) {
                if (L::col(r + i) < columns.first) x[r + i] = E{};
            }
        }
    }
}

template <class L, class T, class E>
__device__ __forceinline__ void load_kept_skewed(E (&x)[L::size], const T* kept, Span columns) {
    whole_or_cut<L>(columns, [&](auto some) { load_kept_skewed<L>(x, kept, some); });
}

// registers → global
template <class L, class T, class E, class Target>
__device__ __forceinline__ void store_vector(const E (&x)[L::size], int r, Target at) {
    constexpr int bytes = Chunks<L, T>::bytes;
    T* const to_row = fixed_base(at.pointer + L::col_base()) + L::col_offset(L::col_slot(r));
    if (at.valid) store_words<bytes>(to_row, words_of<T, bytes>(x, r));
}

template <class L, class T, class E, class Rows>
__device__ __forceinline__ void store_skewed(const E (&x)[L::size], Rows target, Whole) {
#pragma unroll
    for (int r = 0; r < L::size; r += Chunks<L, T>::count) store_vector<L, T>(x, r, target(L::row(r)));
}

template <class L, class T, class E, class Rows>
__device__ __forceinline__ void store_skewed(const E (&x)[L::size], Rows target, Cut columns) {
    constexpr int count = Chunks<L, T>::count;
#pragma unroll
    for (int r = 0; r < L::size; r += count) {
        const auto at = target(L::row(r));
        if (columns.has_all<L, count>(L::col_slot(r))) {
            store_vector<L, T>(x, r, at);
        } else if (!columns.has_none<L, count>(L::col_slot(r))) {
#pragma unroll
            for (int i = 0; i < count; ++i) {
                if (at.valid && columns.has(L::col(r + i))) at.pointer[L::col(r + i)] = to<T>(x[r + i]);
            }
        }
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
    for (int r = 0; r < L::size; r += L::vec) {
        if (!columns.has_all<L, L::vec>(L::col_slot(r))) {
#pragma unroll
            for (int i = 0; i < L::vec; ++i) {
                if (!columns.has(L::col(r + i))) x[r + i] = value;
            }
        }
    }
}

template <class L, class E>
__device__ __forceinline__ void mask_outside(E (&x)[L::size], Span columns, E value) {
    whole_or_cut<L>(columns, [&](auto some) { mask_outside<L>(x, some, value); });
}

}  // namespace tracea
