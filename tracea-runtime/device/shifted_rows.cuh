// Rows that are aligned to less than the vectors that threads hold of them: memory is accessed by whole aligned chunks all the same,
// and what a chunk has too much or too little of comes from its neighbour.
//
//     a thread's vector        |abcdefgh|     eight elements of 16 bits, three elements past a chunk
//     chunks of memory      |...abcde|fgh.....|
//
// A thread reads both chunks that its vector lies in. It writes the one where the vector begins, with the last elements of
// the vector before, which the lane before it holds.
#pragma once

#include "tracea/layout.cuh"
#include "tracea/words.cuh"

namespace tracea {

// How threads of layout L hold elements of T: CHUNKS neighbouring chunks of BYTES each.
template <class L, class T>
struct Chunks {
    static constexpr int element_bytes = static_cast<int>(sizeof(T));
    static constexpr int bytes = vector_bytes(16, L::vec * element_bytes, element_bytes);
    static constexpr int count = bytes / element_bytes, each = L::vec / count;
    // Whether rows that are aligned to `align` bytes are accessed by chunks that lie across the vectors: where more than two
    // accesses would be needed for each.
    static constexpr __host__ __device__ bool shifted(int align) {
        return element_bytes <= align && 2 * align < bytes && L::lanes_along > 1;
    }
};

// How far the pointer is past a chunk, in bytes.
template <int BYTES>
__device__ __forceinline__ int past_chunk(const void* pointer) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(pointer) % BYTES);
}

// Of a chunk's worth from the pointer on, the elements from `begin` to before `end`; zeros beside them.
template <class T, int BYTES>
__device__ __forceinline__ Words<BYTES> load_elements(const T* from, int begin, int end) {
    constexpr int bits = 8 * static_cast<int>(sizeof(T)), in_word = 32 / bits;
    Words<BYTES> v{};
#pragma unroll
    for (int i = 0; i < BYTES / static_cast<int>(sizeof(T)); ++i) {
        if (begin <= i && i < end) v.word[i / in_word] |= to_bits(from[i]) << i % in_word * bits;
    }
    return v;
}

// N vectors of a chunk's size each. place(n) says where the n-th begins, how many of its elements exist, and how many there
// are from it to the end of its row: chunks are read that lie in the row. All reads are under way before the first is waited for.
template <class T, int BYTES, int ALIGN, int N, class Places>
__device__ __forceinline__ void load_shifted(Words<BYTES> (&v)[N], Places place) {
    constexpr int element_bytes = static_cast<int>(sizeof(T)), count = BYTES / element_bytes;
    Words<BYTES> upper[N];
    bool scattered = false;
#pragma unroll
    for (int n = 0; n < N; ++n) {
        const auto from = place(n);
        const int past = past_chunk<BYTES>(from.pointer);
        const bool in_row = (past == 0 ? count : 2 * count - past / element_bytes) <= from.to_end;
        const bool whole = in_row && from.exist >= count;
        const auto* const chunk = reinterpret_cast<const unsigned char*>(from.pointer) - past;
        v[n] = whole ? load_words<BYTES>(chunk) : Words<BYTES>{};
        upper[n] = whole && past != 0 ? load_words<BYTES>(chunk + BYTES) : Words<BYTES>{};
        scattered |= !whole && from.exist > 0;
    }
#pragma unroll
    for (int n = 0; n < N; ++n) v[n] = bytes_from<ALIGN>(v[n], upper[n], past_chunk<BYTES>(place(n).pointer));
    if (scattered) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const auto from = place(n);
            const int past = past_chunk<BYTES>(from.pointer);
            const bool in_row = (past == 0 ? count : 2 * count - past / element_bytes) <= from.to_end;
            if (!(in_row && from.exist >= count)) v[n] = load_elements<T, BYTES>(from.pointer, 0, from.exist);
        }
    }
}

// A vector to be read: see load_shifted.
template <class T>
struct ShiftedSource {
    const T* pointer;
    int exist;
    int to_end;
};

// Columns of a tile's row: the first `valid` exist for the tile; there are others in memory up to the row's `end`.
struct Columns {
    int valid, end;

    __device__ __forceinline__ Columns(int valid) : valid(valid), end(valid) {}
    __device__ __forceinline__ Columns(int valid, int end) : valid(valid), end(end) {}
};

// Where the row begins in which this thread's register lies: sources tell by the tile's row, or by the thread's own (held_rows.cuh).
template <class L, class Rows>
__device__ __forceinline__ auto row_of(const Rows& source, int r) {
    return source(L::row(r));
}

// What every thread holds of a tile, as chunks.
template <class L, int ALIGN, class T, class Rows, int N>
__device__ __forceinline__ void load_tile_shifted(Words<Chunks<L, T>::bytes> (&v)[N], Rows source, Columns columns) {
    using C = Chunks<L, T>;
    static_assert(N * C::count == L::size, "all that a thread holds");
    load_shifted<T, C::bytes, ALIGN>(v, [&](int n) -> ShiftedSource<T> {
        const auto from = row_of<L>(source, n * C::count);
        const int col = L::col_offset(L::col_slot(n * C::count)), base = L::col_base();
        return {fixed_base(from.pointer + base) + col, from.valid ? min(columns.valid - base - col, C::count) : 0, columns.end - base - col};
    });
}

// The elements of a chunk whose bit is set.
template <class T, int BYTES>
__device__ __forceinline__ void store_elements(T* to, const Words<BYTES>& v, unsigned which) {
#pragma unroll
    for (int i = 0; i < BYTES / static_cast<int>(sizeof(T)); ++i) {
        if (which >> i & 1u) to[i] = element<T>(v, i);
    }
}

// The first n bits; none below 1.
__device__ __forceinline__ unsigned first_bits(int n) { return (1u << min(max(n, 0), 31)) - 1u; }

// Word by word, so that both stay in registers.
template <int BYTES>
__device__ __forceinline__ Words<BYTES> either(bool which, const Words<BYTES>& yes, const Words<BYTES>& no) {
    Words<BYTES> v;
#pragma unroll
    for (int w = 0; w < BYTES / 4; ++w) v.word[w] = which ? yes.word[w] : no.word[w];
    return v;
}

template <int BYTES>
__device__ __forceinline__ Words<BYTES> of_lane_behind(const Words<BYTES>& v, int lanes) {
    Words<BYTES> behind;
#pragma unroll
    for (int w = 0; w < BYTES / 4; ++w) behind.word[w] = __shfl_down_sync(0xffffffffu, v.word[w], 1, lanes);
    return behind;
}

template <int BYTES>
__device__ __forceinline__ Words<BYTES> of_lane_before(const Words<BYTES>& v, int lanes) {
    Words<BYTES> before;
#pragma unroll
    for (int w = 0; w < BYTES / 4; ++w) before.word[w] = __shfl_up_sync(0xffffffffu, v.word[w], 1, lanes);
    return before;
}

// By rows whose pointers are aligned to ALIGN bytes. Of each row, columns [0, valid_cols) exist. Whole warps come here; on return
// each thread may read what it wrote, or what a lane beside it wrote in its place.
template <class L, int ALIGN, class T, class E, class Rows>
__device__ __forceinline__ void store_tile_shifted(const E (&x)[L::size], Rows target, int valid_cols) {
    using C = Chunks<L, T>;
    constexpr int element_bytes = C::element_bytes, bytes = C::bytes, count = C::count;
    const int lane = lane_index() % L::lanes_along;
    const bool first = lane == 0, last = lane == L::lanes_along - 1;
#pragma unroll
    for (int r = 0; r < L::size; r += L::vec) {
        const auto at = target(L::row(r));
        const int col = L::col(r), past = past_chunk<bytes>(at.pointer + col), before = past / element_bytes;
        T* const to = at.pointer + col - before;
        Words<bytes> own[C::each];
#pragma unroll
        for (int k = 0; k < C::each; ++k) own[k] = words_of<T, bytes>(x, r + k * count);
        Words<bytes> lower = of_lane_before(own[C::each - 1], L::lanes_along), head{};
#pragma unroll
        for (int k = 0; k < C::each; ++k) {
            const Words<bytes> chunk = either(past == 0, own[k], bytes_from<ALIGN>(lower, own[k], bytes - past));
            const bool begins = !(k == 0 && first) || past == 0;
            const int exist = valid_cols < L::cols ? valid_cols - (col - before + k * count) : count;
            if (at.valid && begins && exist >= count) store_words<bytes>(to + k * count, chunk);
            if (valid_cols < L::cols && at.valid && begins && exist < count) store_elements(to + k * count, chunk, first_bits(exist));
            if (k == 0) head = chunk;
            lower = own[k];
        }
        // Where a warp's columns begin and end inside a chunk.
        if (at.valid && past != 0 && (first || last)) {
            const Words<bytes> tail = bytes_from<ALIGN>(lower, Words<bytes>{}, bytes - past);
            const int chunk_col = first ? col - before : col - before + L::vec;
            const unsigned which = first ? first_bits(count) & ~first_bits(before) : first_bits(before);
            const unsigned exist = valid_cols < L::cols ? first_bits(valid_cols - chunk_col) : first_bits(count);
            store_elements(at.pointer + chunk_col, either(first, head, tail), which & exist);
        }
    }
    __syncwarp();
}

}  // namespace tracea
