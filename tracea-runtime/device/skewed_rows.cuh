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

// A step's columns, of which some may not exist: the tile begins `at` one, which lies before the row where it is negative, and the row
// ends before `end`.
struct Span {
    int at, end;
};

// All of a step's columns exist, as far as a warp holds them: its code looks out for no ends. Functions take either, as Which.
struct Whole {
    int at;
};

// Of a tile's columns, counted from this thread's first, those that exist: up to where, and how many before them do not.
template <class L>
__device__ __forceinline__ int columns_left(Span columns) { return columns.end - columns.at - L::col_base(); }
template <class L>
__device__ __forceinline__ int columns_left(Whole) { return L::cols + 2 * L::vec; }
template <class L>
__device__ __forceinline__ int columns_before(Span columns) { return -columns.at - L::col_base(); }
template <class L>
__device__ __forceinline__ int columns_before(Whole) { return 0; }

// Whether this thread holds a vector, of those that end less than EXTRA columns before a row's end too, that lies in the row only in
// part: few threads do, and what they do otherwise is apart from what all do.
template <class L, int EXTRA = 0>
__device__ __forceinline__ bool holds_end(Span columns) {
    constexpr int stride = L::threads_n * L::vec;
    static_assert(L::row_size == 1 && (stride & (stride - 1)) == 0, "a thread holds columns of one row");
    const int behind = columns_left<L>(columns) & (stride - 1);
    return columns_before<L>(columns) > 0 || (0 < behind && behind < L::vec + EXTRA);
}
template <class L, int EXTRA = 0>
__device__ __forceinline__ bool holds_end(Whole) { return false; }

// The steps along a row of `end` columns, STEP columns each, for the threads that hold some of them: body(at, columns). Most steps are
// whole, so that these follow each other in a loop of their own. All steps begin with before(at).
template <class L, int STEP, class Before, class Body>
__device__ __forceinline__ void walk_columns(int skew, int end, Before before, Body body) {
    static_assert(L::lanes_along == 32, "a warp holds columns of one row");
    const int first = L::col_base() - lane_index() * L::vec;
    // Slices that begin anywhere are read by two chunks a vector; the second one ends less than a vector behind the first.
    const int reach = first + L::col_offset(L::col_size - L::vec) + 33 * L::vec;
    bool is_edge = first < skew;
#pragma unroll 1
    for (int at = -skew; at < end;) {
        if (is_edge) {
            before(at);
            if (at + L::col_base() < end) body(at, Span{at, end});
            at += STEP;
        }
#pragma unroll 1
        for (; at + reach <= end; at += STEP) {
            before(at);
            body(at, Whole{at});
        }
        is_edge = true;
    }
}
template <class L, int STEP, class Body>
__device__ __forceinline__ void walk_columns(int skew, int end, Body body) {
    walk_columns<L, STEP>(skew, end, [](int) {}, body);
}

// How far the row of which this thread holds elements begins past a multiple of L::vec elements.
template <class L, class Rows>
__device__ __forceinline__ int skew_of(Rows source) {
    static_assert(L::row_size == 1, "a thread holds elements of one row");
    using T = pointee<decltype(source(0).pointer)>;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    return past_chunk<L::vec * element_bytes>(source(L::row_at(0)).pointer) / element_bytes;
}

// What lies before the row in its first vector gets a value.
template <class L, class E, class Which>
__device__ __forceinline__ void mask_before(E (&x)[L::size], Which columns, E value) {
    const int before = columns_before<L>(columns);
    if (0 < before) {
#pragma unroll
        for (int i = 0; i < L::vec; ++i) {
            if (i < before) x[i] = value;
        }
    }
}

// Rows are told by where they begin, whatever the step: what is added up from that stays from step to step.

// global → registers, by rows that begin at multiples of a vector.
template <class L, class E, class Rows, class Which>
__device__ __forceinline__ void load_skewed(E (&x)[L::size], Rows source, Which columns) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
    const auto from = source(L::row_at(0));
    const T* const base = fixed_base(from.pointer + L::col_base()) + columns.at;
    const int left = from.valid ? columns_left<L>(columns) : 0;
    Words<C::bytes> v[L::size / C::count];
#pragma unroll
    for (int n = 0; n < L::size / C::count; ++n) {
        const int offset = L::col_offset(n * C::count);
        v[n] = offset + C::count <= left ? load_words<C::bytes>(base + offset) : Words<C::bytes>{};
    }
    if (holds_end<L>(columns)) {
#pragma unroll
        for (int n = 0; n < L::size / C::count; ++n) {
            const int offset = L::col_offset(n * C::count);
            if (offset < left && left < offset + C::count) v[n] = load_elements<T, C::bytes>(base + offset, 0, left - offset);
        }
    }
#pragma unroll
    for (int r = 0; r < L::size; ++r) x[r] = to<E>(element<T>(v[r / C::count], r % C::count));
    mask_before<L>(x, columns, E{});
}

// A column slice of one row that begins anywhere: vectors lie across chunks, which are read that lie in the row.
template <class L, class E, class Rows, class Which>
__device__ __forceinline__ void load_cols_skewed(E (&x)[L::col_size], Rows source, Which columns) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
    const auto from = source(0);
    const T* const base = fixed_base(from.pointer + L::col_base()) + columns.at;
    const int past = past_chunk<C::bytes>(base), left = from.valid ? columns_left<L>(columns) : 0, before = columns_before<L>(columns);
    const auto* const chunk = reinterpret_cast<const unsigned char*>(base) - past;
    const auto both = [&](int offset) { return offset + 2 * C::count <= left && !(offset < L::vec && 0 < before); };
#pragma unroll
    for (int n = 0; n < L::col_size / C::count; ++n) {
        const int offset = L::col_offset(n * C::count);
        const auto* const at = chunk + offset * C::element_bytes;
        const auto lower = both(offset) ? load_words<C::bytes>(at) : Words<C::bytes>{};
        const auto upper = both(offset) ? load_words<C::bytes>(at + C::bytes) : Words<C::bytes>{};
        // By choices: code for each shift would not stay in the instruction cache.
        const auto v = bytes_from<C::element_bytes, ByPermutation>(lower, upper, past);
#pragma unroll
        for (int i = 0; i < C::count; ++i) x[n * C::count + i] = to<E>(element<T>(v, i));
    }
    if (holds_end<L, C::count>(columns)) {
#pragma unroll
        for (int n = 0; n < L::col_size / C::count; ++n) {
            const int offset = L::col_offset(n * C::count);
            if (!both(offset) && offset < left) {
                const auto some = load_elements<T, C::bytes>(base + offset, before - offset, left - offset);
#pragma unroll
                for (int i = 0; i < C::count; ++i) x[n * C::count + i] = to<E>(element<T>(some, i));
            }
        }
    }
}

// global → what this thread keeps (kept.cuh), by cp.async; what lies before a row in its first chunk comes along, what lies behind it
// becomes 0.
template <class L, class T, class Rows>
__device__ __forceinline__ void keep_skewed(T* kept, Rows source, Span columns) {
    using Pieces = KeptPieces<L, T>;
    static_assert(Pieces::bytes >= 4, "as cp.async copies");
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    static_assert(L::row_size == 1, "a thread keeps elements of one row");
    const unsigned place = shared_address(kept + static_cast<int>(threadIdx.x) * Pieces::count);
    const auto row = source(L::row_at(0));
    const T* const base = fixed_base(row.pointer + L::col_base()) + columns.at;
    const int exist = row.valid ? columns_left<L>(columns) : 0;
    const auto keep = [&](auto bytes_at) {
#pragma unroll
        for (int r = 0; r < L::size; r += Pieces::count) {
            const int offset = L::col_offset(r);
            cp_async<Pieces::bytes>(place + Pieces::step(r) * element_bytes, base + offset, bytes_at(offset));
        }
    };
    // Most threads have nothing to look out for.
    if (exist >= L::col_offset(L::size - Pieces::count) + Pieces::count) {
        keep([](int) { return Pieces::bytes; });
    } else {
        keep([&](int offset) { return min(max(exist - offset, 0), Pieces::count) * element_bytes; });
    }
}

// What was kept behind a row's end are zeros already.
template <class L, class T, class E, class Which>
__device__ __forceinline__ void load_kept_skewed(E (&x)[L::size], const T* kept, Which columns) {
    load_kept<L>(x, kept);
    mask_before<L>(x, columns, E{});
}

// registers → global
template <class L, class T, class E, class Rows, class Which>
__device__ __forceinline__ void store_skewed(const E (&x)[L::size], Rows target, Which columns) {
    using C = Chunks<L, T>;
    const auto to_row = target(L::row_at(0));
    T* const base = fixed_base(to_row.pointer + L::col_base()) + columns.at;
    const int left = to_row.valid ? columns_left<L>(columns) : 0, before = columns_before<L>(columns);
    const auto all = [&](int offset) { return offset + C::count <= left && !(offset < L::vec && 0 < before); };
#pragma unroll
    for (int r = 0; r < L::size; r += C::count) {
        const int offset = L::col_offset(r);
        if (all(offset)) store_words<C::bytes>(base + offset, words_of<T, C::bytes>(x, r));
    }
    if (holds_end<L>(columns)) {
#pragma unroll
        for (int r = 0; r < L::size; r += C::count) {
            const int offset = L::col_offset(r);
            if (!all(offset) && offset < left) {
#pragma unroll
                for (int i = 0; i < C::count; ++i) {
                    if (before <= offset + i && offset + i < left) base[offset + i] = to<T>(x[r + i]);
                }
            }
        }
    }
}

// Elements of columns that do not exist get a value.
template <class L, class E, class Which>
__device__ __forceinline__ void mask_outside(E (&x)[L::size], Which columns, E value) {
    const int left = columns_left<L>(columns);
#pragma unroll
    for (int r = 0; r < L::size; r += L::vec) {
        const int offset = L::col_offset(r);
        if (left < offset + L::vec) {
#pragma unroll
            for (int i = 0; i < L::vec; ++i) {
                if (left <= offset + i) x[r + i] = value;
            }
        }
    }
    mask_before<L>(x, columns, value);
}

}  // namespace tracea
