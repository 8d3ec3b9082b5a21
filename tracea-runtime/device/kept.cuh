// What a thread keeps of a tile in shared memory: exactly the elements that the layout gives its registers, so that it waits
// for its own copies alone and needs no barrier.
#pragma once

#include "tracea/copy.cuh"

namespace tracea {

// Elements in one access to shared memory, and where a thread's n-th such piece lies: beside those of its neighbours.
template <class L, class T>
struct KeptPieces {
    static constexpr int bytes = vector_bytes(16, L::vec * static_cast<int>(sizeof(T)), static_cast<int>(sizeof(T)));
    static constexpr int count = bytes / static_cast<int>(sizeof(T));
    // From the thread's first element to its r-th, and from the tile's.
    static constexpr __device__ __forceinline__ int step(int r) { return r / count * L::threads * count + r % count; }
    static __device__ __forceinline__ int offset(int r) { return static_cast<int>(threadIdx.x) * count + step(r); }
};

// global → what this thread keeps, by rows whose pointers are aligned to ALIGN bytes. Of each row, columns [0, valid_cols)
// exist, WHOLE vectors of ALIGN bytes where the caller knows so; the others become 0. Where vectors can be as wide as pieces of 4 bytes
// or more, cp.async: commit and wait before load_kept.
template <class L, int ALIGN, bool WHOLE = false, class T, class Rows>
__device__ __forceinline__ void keep_tile(T* kept, Rows source, int valid_cols) {
    using Pieces = KeptPieces<L, T>;
    constexpr int element_bytes = static_cast<int>(sizeof(T));
    constexpr int width = vector_bytes(ALIGN, Pieces::bytes, element_bytes), count = width / element_bytes;
    if constexpr (Chunks<L, T>::shifted(ALIGN)) {
        static_assert(Chunks<L, T>::bytes == Pieces::bytes, "kept as they are read");
        Words<Pieces::bytes> v[L::size / Pieces::count];
        load_tile_shifted<L, ALIGN, T>(v, source, valid_cols);
#pragma unroll
        for (int n = 0; n < L::size / Pieces::count; ++n) {
            store_words<Pieces::bytes>(kept + Pieces::offset(n * Pieces::count), v[n]);
        }
    } else if constexpr (width >= 4) {
        const unsigned to = shared_address(kept + static_cast<int>(threadIdx.x) * Pieces::count);
        const auto place = [&](int r) { return to + Pieces::step(r) * element_bytes; };
        if (WHOLE) {
            const int exist = valid_cols - L::col_base();
#pragma unroll
            for (int r = 0; r < L::size; r += count) {
                const auto from = source(L::row(r));
                const int col = L::col_offset(L::col_slot(r));
                cp_async<width>(place(r), fixed_base(from.pointer + L::col_base()) + col, from.valid && col < exist ? width : 0);
            }
        } else if (valid_cols >= L::cols) {
#pragma unroll
            for (int r = 0; r < L::size; r += count) {
                const auto from = source(L::row(r));
                cp_async<width>(place(r), fixed_base(from.pointer + L::col_base()) + L::col_offset(L::col_slot(r)), from.valid ? width : 0);
            }
        } else {
#pragma unroll
            for (int r = 0; r < L::size; r += count) {
                const auto from = source(L::row(r));
                const int col = L::col_offset(L::col_slot(r));
                const int exist = from.valid ? min(max(valid_cols - L::col_base() - col, 0), count) : 0;
                cp_async<width>(place(r), fixed_base(from.pointer + L::col_base()) + col, exist * element_bytes);
            }
        }
    } else {
        // All reads are under way before the first one is waited for.
        T read[L::size];
#pragma unroll
        for (int r = 0; r < L::size; ++r) {
            const auto from = source(L::row(r));
            const int col = L::col(r);
            read[r] = from.valid && col < valid_cols ? from.pointer[col] : T{};
        }
#pragma unroll
        for (int r = 0; r < L::size; ++r) kept[Pieces::offset(r)] = read[r];
    }
}

// What this thread keeps → registers, converted to the type of x.
template <class L, class T, class E>
__device__ __forceinline__ void load_kept(E (&x)[L::size], const T* kept) {
    using Pieces = KeptPieces<L, T>;
#pragma unroll
    for (int r = 0; r < L::size; r += Pieces::count) {
        const auto piece = load_words<Pieces::bytes>(kept + Pieces::offset(r));
#pragma unroll
        for (int i = 0; i < Pieces::count; ++i) x[r + i] = to<E>(element<T>(piece, i));
    }
}

// ---- what is kept to be loaded once: of vectors that lie across chunks (shifted_rows.cuh), the chunks in which they begin, so that
// they come by cp.async too, and are put together when they are loaded. Where there is room for a chunk of each of the tile's rows, the
// ones in which the last vectors end come along.

// Whether this lane's vectors are the last ones of a row that a warp reads.
template <class L>
__device__ __forceinline__ bool is_last_along() {
    return lane_index() % L::lanes_along == L::lanes_along - 1;
}

template <class L, int ALIGN, bool WHOLE = false, class T, class Rows>
__device__ __forceinline__ void keep_tile_once(T* kept, Rows source, int valid_cols, T* ends = nullptr) {
    if constexpr (Chunks<L, T>::shifted(ALIGN)) {
        using Pieces = KeptPieces<L, T>;
        constexpr int element_bytes = static_cast<int>(sizeof(T));
        static_assert(Chunks<L, T>::bytes == Pieces::bytes, "kept as they are read");
        const unsigned to = shared_address(kept + static_cast<int>(threadIdx.x) * Pieces::count);
        const bool last = ends != nullptr && is_last_along<L>() && (L::col_size == L::vec);
        const auto keep = [&](auto bytes_at) {
#pragma unroll
            for (int r = 0; r < L::size; r += Pieces::count) {
                const auto from = source(L::row(r));
                const int col = L::col_base() + L::col_offset(L::col_slot(r));
                const int before = past_chunk<Pieces::bytes>(from.pointer + col) / element_bytes;
                const T* const chunk = from.pointer + col - before;
                cp_async<Pieces::bytes>(to + Pieces::step(r) * element_bytes, chunk, from.valid ? bytes_at(col - before) : 0);
                if (last && before != 0) {
                    const int next = from.valid ? bytes_at(col - before + Pieces::count) : 0;
                    cp_async<Pieces::bytes>(shared_address(ends + L::row(r) * Pieces::count), chunk + Pieces::count, next);
                }
            }
        };
        // Most tiles have nothing to look out for.
        if (valid_cols >= L::cols + Pieces::count) {
            keep([](int) { return Pieces::bytes; });
        } else {
            keep([&](int col) { return min(max(valid_cols - col, 0), Pieces::count) * element_bytes; });
        }
    } else {
        keep_tile<L, ALIGN, WHOLE>(kept, source, valid_cols);
    }
}

// With what keep_tile_once was given. A vector's end comes from the next lane, and that of the last lane along a row from its own place,
// or from global memory where there is none: whole warps come here.
template <class L, int ALIGN, class T, class E, class Rows>
__device__ __forceinline__ void load_kept_once(E (&x)[L::size], const T* kept, Rows source, int valid_cols, const T* ends = nullptr) {
    if constexpr (Chunks<L, T>::shifted(ALIGN)) {
        using Pieces = KeptPieces<L, T>;
        const bool last = is_last_along<L>();
#pragma unroll
        for (int r = 0; r < L::size; r += Pieces::count) {
            const auto from = source(L::row(r));
            const int col = L::col_base() + L::col_offset(L::col_slot(r));
            const T* const at = fixed_base(from.pointer + col);
            const int past = past_chunk<Pieces::bytes>(at), next = Pieces::count - past / static_cast<int>(sizeof(T));
            const auto lower = load_words<Pieces::bytes>(kept + Pieces::offset(r));
            auto upper = of_lane_behind(lower, L::lanes_along);
            if (last && past != 0) {
                if (ends != nullptr && L::col_size == L::vec) {
                    upper = load_words<Pieces::bytes>(ends + L::row(r) * Pieces::count);
                } else {
                    const int exist = from.valid ? valid_cols - col - next : 0;
                    upper = exist >= Pieces::count ? load_words<Pieces::bytes>(at + next) : load_elements<T, Pieces::bytes>(at + next, 0, exist);
                }
            }
            const auto piece = bytes_from<ALIGN>(lower, upper, past);
#pragma unroll
            for (int i = 0; i < Pieces::count; ++i) x[r + i] = to<E>(element<T>(piece, i));
        }
    } else {
        load_kept<L>(x, kept);
    }
}

}  // namespace tracea
