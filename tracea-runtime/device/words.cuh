// Vector accesses to memory: up to 16 bytes at once, held as 32-bit registers, and the elements within them.
#pragma once

#include "tracea/types.cuh"

namespace tracea {

template <int BYTES>
struct Words {
    static_assert(BYTES == 16 || BYTES == 8 || BYTES == 4 || BYTES == 2 || BYTES == 1, "one access");
    unsigned word[BYTES < 4 ? 1 : BYTES / 4];
};

template <int BYTES>
__device__ __forceinline__ Words<BYTES> zero_words() {
    return Words<BYTES>{};
}

template <int BYTES>
__device__ __forceinline__ Words<BYTES> load_words(const void* pointer) {
    if constexpr (BYTES == 16) {
        const uint4 v = *static_cast<const uint4*>(pointer);
        return {{v.x, v.y, v.z, v.w}};
    } else if constexpr (BYTES == 8) {
        const uint2 v = *static_cast<const uint2*>(pointer);
        return {{v.x, v.y}};
    } else if constexpr (BYTES == 4) {
        return {{*static_cast<const unsigned*>(pointer)}};
    } else if constexpr (BYTES == 2) {
        return {{*static_cast<const unsigned short*>(pointer)}};
    } else {
        return {{*static_cast<const unsigned char*>(pointer)}};
    }
}

template <int BYTES>
__device__ __forceinline__ void store_words(void* pointer, const Words<BYTES>& v) {
    if constexpr (BYTES == 16) {
        *static_cast<uint4*>(pointer) = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
    } else if constexpr (BYTES == 8) {
        *static_cast<uint2*>(pointer) = make_uint2(v.word[0], v.word[1]);
    } else if constexpr (BYTES == 4) {
        *static_cast<unsigned*>(pointer) = v.word[0];
    } else if constexpr (BYTES == 2) {
        *static_cast<unsigned short*>(pointer) = static_cast<unsigned short>(v.word[0]);
    } else {
        *static_cast<unsigned char*>(pointer) = static_cast<unsigned char>(v.word[0]);
    }
}

// One of two words. By a permutation it is an instruction, and a register for which; by a condition it may become two moves.
struct ByCondition {
    static __device__ __forceinline__ unsigned either(bool upper, unsigned a, unsigned b) { return upper ? b : a; }
};
struct ByPermutation {
    static __device__ __forceinline__ unsigned either(bool upper, unsigned a, unsigned b) {
        return __byte_perm(a, b, upper ? 0x7654u : 0x3210u);
    }
};

// Of two neighbouring vectors, a vector's worth from the byte at `first` on, which is a multiple of UNIT under BYTES.
template <int UNIT, class Choice = ByCondition, int BYTES>
__device__ __forceinline__ Words<BYTES> bytes_from(const Words<BYTES>& lower, const Words<BYTES>& upper, int first) {
    constexpr int words = BYTES / 4;
    unsigned word[2 * words];
#pragma unroll
    for (int i = 0; i < words; ++i) {
        word[i] = lower.word[i];
        word[i + words] = upper.word[i];
    }
    if constexpr (BYTES == 16) {
#pragma unroll
        for (int i = 0; i < words + 2; ++i) word[i] = Choice::either(first & 8, word[i], word[i + 2]);
    }
    if constexpr (UNIT < 8) {
#pragma unroll
        for (int i = 0; i < words + 1; ++i) word[i] = Choice::either(first & 4, word[i], word[i + 1]);
    }
    if constexpr (UNIT < 4) {
#pragma unroll
        for (int i = 0; i < words; ++i) word[i] = __funnelshift_r(word[i], word[i + 1], first % 4 * 8);
    }
    Words<BYTES> v;
#pragma unroll
    for (int i = 0; i < words; ++i) v.word[i] = word[i];
    return v;
}

// The widest access that the alignment, the bytes at hand and the hardware allow; an element at least.
__host__ __device__ constexpr int vector_bytes(int align, int available, int element) {
    int bytes = 16;
    while (bytes > element && (bytes > align || available % bytes != 0)) bytes /= 2;
    return bytes;
}

// The same pointer to global memory, of which the compiler knows nothing else: constants that are added to it stay in the
// instructions' own offsets instead of being added to what it was computed from.
template <class Pointer>
__device__ __forceinline__ Pointer fixed_base(Pointer pointer) {
    unsigned long long address = __cvta_generic_to_global(pointer);
    asm("" : "+l"(address));
    return static_cast<Pointer>(__cvta_global_to_generic(address));
}

// The same for a number, such as an address in shared memory: it is kept, too, where the compiler would compute it again.
template <class T>
__device__ __forceinline__ T fixed_number(T number) {
    if constexpr (sizeof(T) == 8) {
        asm("" : "+l"(number));
    } else {
        asm("" : "+r"(number));
    }
    return number;
}

template <class Pointer>
struct Pointee;
template <class T>
struct Pointee<T*> {
    using type = T;
};
template <class T>
struct Pointee<const T*> {
    using type = T;
};
// T of `T*` and of `const T*`.
template <class Pointer>
using pointee = typename Pointee<Pointer>::type;

// Element i of the vector.
template <class T, int BYTES>
__device__ __forceinline__ T element(const Words<BYTES>& v, int i) {
    constexpr int bits = 8 * static_cast<int>(sizeof(T)), in_word = 32 / bits;
    return from_bits<T>((v.word[i / in_word] >> i % in_word * bits) & (0xffffffffu >> (32 - bits)));
}

// A vector of T: the BYTES / sizeof(T) consecutive registers from x[first], converted. Pairs are converted together.
template <class T, int BYTES, class E, int N>
__device__ __forceinline__ Words<BYTES> words_of(const E (&x)[N], int first) {
    constexpr int bits = 8 * static_cast<int>(sizeof(T)), in_word = 32 / bits;
    constexpr int count = BYTES / static_cast<int>(sizeof(T));
    Words<BYTES> v{};
    if constexpr (sizeof(T) == 2 && count > 1) {
#pragma unroll
        for (int i = 0; i < count / 2; ++i) v.word[i] = pack2_from<T>(x[first + 2 * i], x[first + 2 * i + 1]);
    } else {
#pragma unroll
        for (int i = 0; i < count; ++i) v.word[i / in_word] |= to_bits(to<T>(x[first + i])) << i % in_word * bits;
    }
    return v;
}

}  // namespace tracea
