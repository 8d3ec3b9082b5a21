// Copies of tensors whose rows begin at multiples of 16 bytes, as TMA wants them, for those whose rows do not.
//
//     source   abcdefghijklmnopqrstu      rows of 7 elements, one behind the other
//     target   abcdefg.hijklmn.opqrstu.   rows of whole chunks of 16 bytes; what fills them behind a row's end is not read
//
// One launch copies several tensors. Each thread makes a chunk of a target, from the aligned 16 bytes of the source that hold
// its bytes.
#pragma once

#include "tracea/outer_axes.cuh"
#include "tracea/words.cuh"

namespace tracea {

// A tensor, its bytes, and where its copy goes. The launch lays these out field by field.
struct Realigned {
    const unsigned char* source;
    const unsigned char* end;  // one past the last byte of the source
    unsigned char* target;
    int first_block;     // of the grid
    int chunks;          // of the target
    int row_bytes;       // of the source
    FastDiv row_chunks;  // chunks of a row of the target
    OuterAxes rows;
};
static_assert(sizeof(Realigned) == 144, "as the launch lays it out");

struct Realignment {
    static constexpr int most_tensors = 4;

    int count;
    Realigned tensors[most_tensors];
};
static_assert(sizeof(Realignment) == 584, "as the launch lays it out");

// Of global memory that nobody writes meanwhile.
__device__ __forceinline__ Words<16> load_constant_words(const unsigned char* pointer) {
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(pointer));
    return {{v.x, v.y, v.z, v.w}};
}

// What a chunk of the target is made of.
struct RealignedPiece {
    const unsigned char* from;
    int bytes;  // that exist: none past the last chunk, and none or fewer past a row's end

    __device__ __forceinline__ int first() const { return static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16); }
    __device__ __forceinline__ const unsigned char* lower() const { return from - first(); }
    __device__ __forceinline__ bool straddles() const { return first() + bytes > 16; }
    // Whether the aligned bytes around it are the tensor's own: at its ends they may lie outside of its memory.
    __device__ __forceinline__ bool inside(const Realigned& tensor) const {
        return lower() >= tensor.source && lower() + (straddles() ? 32 : 16) <= tensor.end;
    }
};

__device__ __forceinline__ RealignedPiece piece_of(const Realigned& tensor, int chunk) {
    if (chunk >= tensor.chunks) return {tensor.source, 0};
    int row, place;
    tensor.row_chunks.divmod(chunk, row, place);
    return {tensor.source + tensor.rows.offset(row) + place * 16, min(tensor.row_bytes - place * 16, 16)};
}

// Each thread makes one chunk, neighbouring threads neighbouring ones: short code, which comes from memory itself in a launch by itself, and
// as many threads as a multiprocessor holds.
template <int THREADS>
__device__ __forceinline__ void realign(const Realignment& all) {
    int at = 0;
    while (at + 1 < all.count && static_cast<int>(blockIdx.x) >= all.tensors[at + 1].first_block) ++at;
    const Realigned& tensor = all.tensors[at];
    const int chunk = (static_cast<int>(blockIdx.x) - tensor.first_block) * THREADS + static_cast<int>(threadIdx.x);
    const RealignedPiece piece = piece_of(tensor, chunk);
    unsigned char* const to = tensor.target + chunk * 16ll;
    if (piece.bytes > 0 && piece.inside(tensor)) {
        const Words<16> lower = load_constant_words(piece.lower());
        const Words<16> upper = piece.straddles() ? load_constant_words(piece.lower() + 16) : zero_words<16>();
        store_words<16>(to, bytes_from<1>(lower, upper, piece.first()));
    } else {
#pragma unroll 1
        for (int byte = 0; byte < piece.bytes; ++byte) to[byte] = piece.from[byte];
    }
}

}  // namespace tracea
