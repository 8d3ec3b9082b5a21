// Rows that threads hold whole, wherever they begin in memory: by the aligned chunks that lie in a row, and, one by one, the elements
// at its ends that fill no chunk.
//
//     chunks of memory    |........|........|........|........|
//     a row                     abc defghijk lmnopqrs tu         two vectors, and five elements at the ends
//
// Code for vectors looks out for nothing: those that a row does not have are passed over. In a layout of whole rows, columns count from
// the row's first vector.
#pragma once

#include "tracea/kept.cuh"
#include "tracea/store.cuh"

namespace tracea {

// What a row consists of: elements before its first vector, vectors, elements behind them. Where threads have places for vectors that lie
// before the row's first one: how many of these.
struct RowParts {
    int before, vectors, behind, passed_over = 0;
};

// Threads and vectors as Blocked has them, of one row for each row of threads. The slots behind the vectors' are for the ends.
template <int ROWS, int COLS, int THREADS_M, int THREADS_N, int VEC>
struct WholeRows : Blocked<ROWS, COLS, THREADS_M, THREADS_N, VEC> {
    using Grid = Blocked<ROWS, COLS, THREADS_M, THREADS_N, VEC>;
    static_assert(Grid::row_size == 1 && (VEC & (VEC - 1)) == 0, "a thread holds elements of one row");

    static constexpr int vectors = Grid::size / VEC, ends = (2 * (VEC - 1) + THREADS_N - 1) / THREADS_N;
    static constexpr int size = Grid::size + ends, col_size = size;
    using Ends = Slots<Grid::size, ends>;

    static __device__ __forceinline__ constexpr int row_slot(int) { return 0; }
    static __device__ __forceinline__ constexpr int col_slot(int r) { return r; }
    static __device__ __forceinline__ int row(int) { return Grid::row_at(0); }

    // Whether this thread's n-th vector exists, and its n-th element of the ends.
    static __device__ __forceinline__ bool has_vector(RowParts row, int n) { return n * THREADS_N < row.vectors - Grid::thread_n(); }
    static __device__ __forceinline__ bool has_end(RowParts row, int n) { return n * THREADS_N + Grid::thread_n() < row.before + row.behind; }
    static __device__ __forceinline__ int end_col(RowParts row, int n) {
        const int at = n * THREADS_N + Grid::thread_n() - row.before;
        return at < 0 ? at : row.vectors * VEC + at;
    }
    static __device__ __forceinline__ int col(int r, RowParts row) { return r < Grid::size ? Grid::col_at(r) : end_col(row, r - Grid::size); }
};

template <class L, class Rows>
__device__ __forceinline__ RowParts parts_of(Rows source, int columns) {
    using T = pointee<decltype(source(0).pointer)>;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    const int past = past_chunk<L::vec * element_bytes>(source(L::row_at(0)).pointer) / element_bytes;
    const int before = min(-past & (L::vec - 1), columns);
    const unsigned left = static_cast<unsigned>(columns - before);
    return {fixed_number(before), fixed_number(static_cast<int>(left / L::vec)), static_cast<int>(left % L::vec)};
}

template <class L, int N = 0, class Body>
__device__ __forceinline__ void by_vectors(RowParts row, Body body) {
    if constexpr (N < L::vectors) {
        if (L::has_vector(row, N)) {
            body(Slots<N * L::vec, L::vec>{});
            by_vectors<L, N + 1>(row, body);
        }
    }
}

// The body for the ends, and for each vector that exists: with the slots of a thread that are meant, as a type.
template <class L, class Body>
__device__ __forceinline__ void by_parts(RowParts row, Body body) {
    if constexpr (L::ends > 0) body(typename L::Ends{});
    by_vectors<L>(row, body);
}

template <class L, class S>
constexpr bool are_ends = S::first == L::Ends::first;

// ---- global → registers; what does not exist arrives as 0

template <class L, class E, class Rows>
__device__ __forceinline__ void load_whole(E (&x)[L::size], Rows source, RowParts row) {
    using T = pointee<decltype(source(0).pointer)>;
    using C = Chunks<L, T>;
    const auto from = source(L::row_at(0));
    const T* const base = fixed_base(from.pointer + L::col_base());
    const RowParts exist = from.valid ? row : RowParts{};
    Words<C::bytes> v[L::Ends::first / C::count];
    T ends[L::ends + 1];
#pragma unroll
    for (int n = 0; n < L::Ends::first / C::count; ++n) {
        v[n] = L::has_vector(exist, n / C::each) ? load_words<C::bytes>(base + L::col_offset(n * C::count)) : Words<C::bytes>{};
    }
#pragma unroll
    for (int e = 0; e < L::ends; ++e) ends[e] = L::has_end(exist, e) ? from.pointer[L::end_col(row, e)] : T{};
#pragma unroll
    for (int r = 0; r < L::Ends::first; ++r) x[r] = to<E>(element<T>(v[r / C::count], r % C::count));
#pragma unroll
    for (int e = 0; e < L::ends; ++e) x[L::Ends::first + e] = to<E>(ends[e]);
}

// ---- column slices, which the block keeps in shared memory: for each row of threads the chunks in which its vectors lie, and the one
// behind; each thread's elements of the ends stay with it

template <class L, class T>
struct KeptSlice {
    // How far the vectors begin past a chunk, in bytes.
    int past;
    T ends[L::ends + 1];
};

template <class L, class T>
__device__ __forceinline__ T* slice_of_row(T* kept) {
    return kept + L::thread_m() * (L::cols + Chunks<L, T>::count);
}

// By cp.async: commit, wait and a barrier make it visible. All threads come here.
template <class L, class T, class Rows>
__device__ __forceinline__ KeptSlice<L, T> keep_slice(T* kept, Rows source, RowParts row) {
    using C = Chunks<L, T>;
    static_assert(C::bytes == 16, "chunks of 16 bytes");
    const auto from = source(0);
    const RowParts exist = from.valid ? row : RowParts{};
    KeptSlice<L, T> slice{past_chunk<16>(from.pointer), {}};
    const int past = slice.past / C::element_bytes, chunks = exist.vectors * C::each;
    const T* const base = fixed_base(from.pointer - past + L::thread_n() * C::count);
    const unsigned place = fixed_number(shared_address(slice_of_row<L>(kept) + L::thread_n() * C::count));
#pragma unroll
    for (int n = 0; n < L::cols / (L::threads_n * C::count); ++n) {
        constexpr int stride = L::threads_n * C::count;
        if (n * L::threads_n < chunks - L::thread_n()) {
            cp_async_shared_by_blocks(place + n * stride * C::element_bytes, base + n * stride, 16);
        }
    }
    // The chunk in which the last vector ends, of which the slice may have a part.
    const int last = chunks - L::thread_n();
    if (past != 0 && exist.vectors > 0 && last >= 0 && last % L::threads_n == 0) {
        const int exist_there = min(past + exist.behind, C::count);
        cp_async_shared_by_blocks(place + last * 16, base + last * C::count, exist_there * C::element_bytes);
    }
#pragma unroll
    for (int e = 0; e < L::ends; ++e) slice.ends[e] = L::has_end(exist, e) ? from.pointer[L::end_col(row, e)] : T{};
    return slice;
}

template <class L, class T, class E, class S>
__device__ __forceinline__ void load_slice(E (&x)[L::col_size], const T* kept, const KeptSlice<L, T>& slice, RowParts, S) {
    using C = Chunks<L, T>;
    if constexpr (are_ends<L, S>) {
#pragma unroll
        for (int r = S::first; r < S::end; ++r) x[r] = to<E>(slice.ends[r - S::first]);
    } else {
        const T* const place = slice_of_row<L>(kept) + L::col_base() + L::col_offset(S::first);
#pragma unroll
        for (int r = 0; r < S::count; r += C::count) {
            // By choices: code for each shift would not stay in the instruction cache.
            const auto lower = load_words<16>(place + r), upper = load_words<16>(place + r + C::count);
            const auto v = bytes_from<C::element_bytes, ByPermutation>(lower, upper, slice.past);
#pragma unroll
            for (int i = 0; i < C::count; ++i) x[S::first + r + i] = to<E>(element<T>(v, i));
        }
    }
}
template <class L, class T, class E>
__device__ __forceinline__ void load_slice(E (&x)[L::col_size], const T* kept, const KeptSlice<L, T>& slice, RowParts row) {
#pragma unroll
    for (int r = 0; r < L::col_size; ++r) x[r] = E{};
    by_parts<L>(row, [&](auto slots) { load_slice<L>(x, kept, slice, row, slots); });
}

// ---- registers → global

template <class L, class T, class E, class Rows, class S>
__device__ __forceinline__ void store_whole(const E (&x)[L::size], Rows target, RowParts row, S) {
    using C = Chunks<L, T>;
    const auto to_row = target(L::row_at(0));
    if constexpr (are_ends<L, S>) {
#pragma unroll
        for (int e = 0; e < L::ends; ++e) {
            if (to_row.valid && L::has_end(row, e)) to_row.pointer[L::end_col(row, e)] = to<T>(x[S::first + e]);
        }
    } else {
        T* const base = fixed_base(to_row.pointer + L::col_base());
#pragma unroll
        for (int r = S::first; r < S::end; r += C::count) {
            if (to_row.valid) store_words<C::bytes>(base + L::col_offset(r), words_of<T, C::bytes>(x, r));
        }
    }
}
template <class L, class T, class E, class Rows>
__device__ __forceinline__ void store_whole(const E (&x)[L::size], Rows target, RowParts row) {
    by_parts<L>(row, [&](auto slots) { store_whole<L, T>(x, target, row, slots); });
}

// ---- what does not exist gets a value; of a vector's slots, all exist where it does

template <class L, class E, class S>
__device__ __forceinline__ void mask_ends(E (&x)[L::size], RowParts row, E value, S) {
    if constexpr (are_ends<L, S>) {
#pragma unroll
        for (int e = 0; e < L::ends; ++e) {
            if (!L::has_end(row, e)) x[S::first + e] = value;
        }
    }
}
template <class L, class E>
__device__ __forceinline__ void mask_ends(E (&x)[L::size], RowParts row, E value) {
#pragma unroll
    for (int r = 0; r < L::Ends::first; ++r) {
        if (!L::has_vector(row, r / L::vec)) x[r] = value;
    }
    mask_ends<L>(x, row, value, typename L::Ends{});
}

}  // namespace tracea
