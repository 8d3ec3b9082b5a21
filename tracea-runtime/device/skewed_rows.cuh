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

// Of a tile's columns, those that exist: [first, end), counted from the tile's own first. Where a row begins in the tile, it does in its
// first vector.
struct Span {
    int first, end;
};

// All of a tile's columns, as far as a warp holds them: its code looks out for no ends. Functions take either, as Which.
struct Whole {};

// Of a tile's columns, counted from this thread's first, those that exist: up to where, and how many before them do not.
template <class L>
__device__ __forceinline__ int columns_left(Span columns) { return columns.end - L::col_base(); }
template <class L>
__device__ __forceinline__ int columns_left(Whole) { return L::cols + 2 * L::vec; }
template <class L>
__device__ __forceinline__ int columns_before(Span columns) { return columns.first - L::col_base(); }
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

// A step for the threads that hold columns which exist.
template <class L, class Body>
__device__ __forceinline__ void by_columns(Span columns, Body step) {
    static_assert(L::lanes_along == 32, "a warp holds columns of one row");
    const int begin = L::col_base() - lane_index() * L::vec;
    // Slices that begin anywhere are read by two chunks a vector; the second one ends less than a vector behind the first.
    if (columns.first <= begin && begin + L::col_offset(L::col_size - L::vec) + 33 * L::vec <= columns.end) {
        step(Whole{});
    } else if (L::col_base() < columns.end) {
        step(columns);
    }
}

// How far the row of which this thread holds elements begins past a multiple of L::vec elements.
template <class L, class Rows>
__device__ __forceinline__ int skew_of(Rows source) {
    static_assert(L::row_size == 1, "a thread holds elements of one row");
    using T = pointee<decltype(source(0).pointer)>;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    return past_chunk<L::vec * element_bytes>(source(L::row_at(0)).pointer) / element_bytes;
}

// Whether any thread's n-th vector holds columns which exist, as far as this one knows.
template <class L>
__device__ __forceinline__ bool has_vector(Span columns, int n) {
    return L::col_offset(n * L::vec) < columns_left<L>(columns);
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

// What follows goes by all that a thread holds, or, where it says so, by SLOTS columns from slot `from` on.

// global → registers, by rows that begin at multiples of a vector.
template <class L, class E, class Rows, class Which>
__device__ __forceinline__ void load_skewed(E (&x)[L::size], Rows source, Which columns) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
    const auto from = source(L::row_at(0));
    const T* const base = fixed_base(from.pointer + L::col_base());
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

// The elements of N vectors that lie across chunks, `past` bytes behind where the lower ones begin, to x from slot `from` on. All of a row
// is as far past a chunk, and which of two chunks an element is in costs nothing where that is a constant.
template <class T, int BYTES, int N, class E, int SLOTS>
__device__ __forceinline__ void elements_across(E (&x)[SLOTS], int from, const Words<BYTES> (&lower)[N], const Words<BYTES> (&upper)[N], int past) {
    constexpr int element_bytes = static_cast<int>(sizeof(T)), count = BYTES / element_bytes;
    as_constant<element_bytes, BYTES>(past, [&](auto constant) {
        constexpr int ahead = decltype(constant)::value / element_bytes;
#pragma unroll
        for (int s = 0; s < N * count; ++s) {
            const int n = s / count, at = s % count + ahead;
            x[from + s] = to<E>(at < count ? element<T>(lower[n], at) : element<T>(upper[n], at - count));
        }
    });
}

// A column slice of one row that begins anywhere: vectors lie across chunks, which are read that lie in the row.
template <class L, class E, class Rows, class Which>
__device__ __forceinline__ void load_cols_skewed(E (&x)[L::col_size], Rows source, Which columns) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
    const auto from = source(0);
    const T* const base = fixed_base(from.pointer + L::col_base());
    const int past = past_chunk<C::bytes>(base), left = from.valid ? columns_left<L>(columns) : 0, before = columns_before<L>(columns);
    const auto* const chunk = reinterpret_cast<const unsigned char*>(base) - past;
    const auto both = [&](int offset) { return offset + 2 * C::count <= left && !(offset < L::vec && 0 < before); };
    Words<C::bytes> lower[L::col_size / C::count], upper[L::col_size / C::count];
#pragma unroll
    for (int n = 0; n < L::col_size / C::count; ++n) {
        const int offset = L::col_offset(n * C::count);
        const auto* const at = chunk + offset * C::element_bytes;
        lower[n] = both(offset) ? load_words<C::bytes>(at) : Words<C::bytes>{};
        upper[n] = both(offset) ? load_words<C::bytes>(at + C::bytes) : Words<C::bytes>{};
    }
    elements_across<T>(x, 0, lower, upper, past);
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
    const unsigned place = shared_address(kept + static_cast<int>(threadIdx.x) * Pieces::count);
#pragma unroll
    for (int r = 0; r < L::size; r += Pieces::count) {
        const auto source_row = source(L::row(r));
        const int offset = L::col_offset(L::col_slot(r));
        const T* const from = fixed_base(source_row.pointer + L::col_base()) + offset;
        const unsigned to = place + Pieces::step(r) * element_bytes;
        const int left = columns_left<L>(columns) - offset;
        // Rows end inside few vectors; of all others, the size is one of two constants.
        if (left >= Pieces::count || left <= 0) {
            cp_async<Pieces::bytes>(to, from, source_row.valid && left > 0 ? Pieces::bytes : 0);
        } else {
            cp_async<Pieces::bytes>(to, from, source_row.valid ? left * element_bytes : 0);
        }
    }
}

// What was kept behind a row's end are zeros already.
template <class L, class T, class E, class Which>
__device__ __forceinline__ void load_kept_skewed(E (&x)[L::size], const T* kept, Which columns) {
    load_kept<L>(x, kept);
    mask_before<L>(x, columns, E{});
}

// ---- column slices that a block keeps in shared memory: for each row of threads the chunks that its vectors lie in, and the one behind

template <class L, class T>
__device__ __forceinline__ int kept_cols() {
    return L::thread_m() * (L::cols + Chunks<L, T>::count) + L::col_base();
}

// global → what the block keeps, by cp.async: the chunk in which the slice begins as it lies, zeros behind its end as far as vectors that
// lie in the slice in part reach. All threads come here.
template <class L, class T, class Rows>
__device__ __forceinline__ void keep_cols_skewed(T* kept, Rows source, Span columns) {
    using C = Chunks<L, T>;
    static_assert(C::bytes == 16, "chunks of 16 bytes");
    // Every so many columns a thread has a chunk; the one behind the tile is the first thread's.
    constexpr int stride = L::threads_n * C::count, most = L::cols / stride;
    static_assert((stride & (stride - 1)) == 0 && L::cols % stride == 0, "whole rounds of chunks");
    const auto from = source(0);
    const int past = past_chunk<16>(from.pointer + L::col_base()) / C::element_bytes, begin = L::col_base() - past;
    const T* const chunk = fixed_base(from.pointer + begin);
    const int left = from.valid ? columns.end - begin : 0;
    const unsigned place = shared_address(kept + kept_cols<L, T>());
    const int rounds = L::thread_n() == 0 ? most + 1 : most;
#pragma unroll
    for (int n = 0; n <= most; ++n) {
        const bool exists = n * stride + C::count <= left && (n > 0 || columns.first - begin < C::count);
        if (exists && (n < most || n < rounds)) {
            cp_async_shared_by_blocks(place + n * stride * C::element_bytes, chunk + n * stride, 16);
        }
    }
    // The chunk in which the slice ends and the one behind it.
    const int n = (left + C::count - 1) / stride, exist = max(left - n * stride, 0);
    if (left > -C::count && left + C::count - 1 - n * stride < 2 * C::count - 1 && n < rounds) {
        cp_async_shared_by_blocks(place + n * stride * C::element_bytes, chunk + n * stride, exist * C::element_bytes);
    }
}

// What the block keeps → registers, with what keep_cols_skewed was given. What lies before the slice is anything.
template <class L, int SLOTS = L::col_size, class T, class E, class Rows>
__device__ __forceinline__ void load_kept_cols_skewed(E (&x)[L::col_size], const T* kept, Rows source, int from = 0) {
    using C = Chunks<L, T>;
    const int past = past_chunk<16>(source(0).pointer + L::col_base());
    const T* const place = kept + kept_cols<L, T>();
    Words<16> lower[SLOTS / C::count], upper[SLOTS / C::count];
#pragma unroll
    for (int n = 0; n < SLOTS / C::count; ++n) {
        const int offset = L::col_offset(from + n * C::count);
        lower[n] = load_words<16>(place + offset);
        upper[n] = load_words<16>(place + offset + C::count);
    }
    // By selects: code for each shift, for all vectors of a row, would not stay in the instruction cache.
#pragma unroll
    for (int n = 0; n < SLOTS / C::count; ++n) {
        const Words<16> v = bytes_from<C::element_bytes>(lower[n], upper[n], past);
#pragma unroll
        for (int i = 0; i < C::count; ++i) x[from + n * C::count + i] = to<E>(element<T>(v, i));
    }
}

// registers → global
template <class L, class T, int SLOTS = L::col_size, class E, class Rows, class Which>
__device__ __forceinline__ void store_skewed(const E (&x)[L::size], Rows target, Which columns, int from = 0) {
    using C = Chunks<L, T>;
    const auto to_row = target(L::row_at(0));
    T* const base = fixed_base(to_row.pointer + L::col_base());
    const int left = to_row.valid ? columns_left<L>(columns) : 0, before = columns_before<L>(columns);
    const auto all = [&](int offset) { return offset + C::count <= left && !(offset < L::vec && 0 < before); };
#pragma unroll
    for (int r = 0; r < SLOTS; r += C::count) {
        const int offset = L::col_offset(from + r);
        if (all(offset)) store_words<C::bytes>(base + offset, words_of<T, C::bytes>(x, from + r));
    }
    if (holds_end<L>(columns)) {
#pragma unroll
        for (int r = 0; r < SLOTS; r += C::count) {
            const int offset = L::col_offset(from + r);
            if (!all(offset) && offset < left) {
#pragma unroll
                for (int i = 0; i < C::count; ++i) {
                    if (before <= offset + i && offset + i < left) base[offset + i] = to<T>(x[from + r + i]);
                }
            }
        }
    }
}

// Elements of columns that do not exist get a value.
template <class L, int SLOTS = L::col_size, class E, class Which>
__device__ __forceinline__ void mask_outside(E (&x)[L::size], Which columns, E value, int from = 0) {
    const int left = columns_left<L>(columns);
#pragma unroll
    for (int r = from; r < from + SLOTS; r += L::vec) {
        const int offset = L::col_offset(r);
        if (left < offset + L::vec) {
#pragma unroll
            for (int i = 0; i < L::vec; ++i) {
                if (left <= offset + i) x[r + i] = value;
            }
        }
    }
    if (from == 0) mask_before<L>(x, columns, value);
}

}  // namespace tracea
