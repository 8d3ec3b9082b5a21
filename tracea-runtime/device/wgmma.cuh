// Products of warpgroups on tensor cores, asynchronous, one PTX instruction a function. PTX ISA, "Asynchronous Warpgroup Level
// Matrix Instructions: wgmma"; sm_90a. All four warps of the warpgroup call these together.
//
// Accumulators (PTX ISA, "Register Fragments for wgmma.mma_async.m64n…": D): of a product 64 x N, warp w of the warpgroup
// holds rows 16w … 16w + 15 as N / 8 blocks of mma.m16n8's accumulators: register 4j + e, with g = lane / 4 and t = lane % 4,
// is (16w + g + 8 (e / 2), 8j + 2t + e % 2), as Mma16816<64, N, 4, 1> has it. A in registers is mma's A fragment.
#pragma once

#include "tracea/types.cuh"

namespace tracea {

// Before the first product, and again after registers that a product takes (accumulators, A) were written by anything but
// products of the same shape.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes the group of the products since the last commit.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most N groups are under way.
template <int N>
__device__ __forceinline__ void wgmma_wait() {
    static_assert(N >= 0 && N <= 7, "up to seven groups under way");
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// A matrix in shared memory with the 128-byte swizzle, whose 1024-byte groups (eight rows of 128 bytes) begin at multiples of
// 1024. PTX ISA, "Matrix descriptor"; the distances are those of "Strides". With K along the 128 bytes, the stride leads to the
// next eight rows of m or n, and the leading distance is ignored; with m or n along them, the stride leads to the next eight
// rows of k, the leading distance to the next 64 of m or n.
__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned address, int leading_bytes, int stride_bytes) {
    const unsigned low = (address & 0x3ffffu) >> 4 | static_cast<unsigned>(leading_bytes) >> 4 << 16;
    const unsigned high = static_cast<unsigned>(stride_bytes) >> 4 | 1u << 30;  // bits 62 and 63: 1 for 128 bytes
    return static_cast<unsigned long long>(high) << 32 | low;
}

// The same matrix, further on in shared memory (which ends below what could carry).
__device__ __forceinline__ unsigned long long wgmma_advance(unsigned long long descriptor, int bytes) {
    const unsigned low = static_cast<unsigned>(descriptor) + (static_cast<unsigned>(bytes) >> 4);
    return (descriptor & 0xffffffff00000000ull) | low;
}

// Wgmma<N>: d (64 x N) += a (64 x k) · b (k x N), or d = a · b without `accumulate`; k is 16 for 16-bit types, 8 for tf32. D has
// d[0] … d[N / 2 - 1], a thread's registers. B is a matrix in shared memory, A one too (_ss) or a fragment in registers (_rs). TRANS_A and TRANS_B say that m or n, not k,
// runs along the rows in shared memory; tf32 cannot.
template <int N>
struct Wgmma;

// The registers of N columns, in the text of an instruction and as its operands.
#define TRACEA_TEXT_8 "%0, %1, %2, %3"
#define TRACEA_TEXT_16 TRACEA_TEXT_8 ", %4, %5, %6, %7"
#define TRACEA_TEXT_24 TRACEA_TEXT_16 ", %8, %9, %10, %11"
#define TRACEA_TEXT_32 TRACEA_TEXT_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TRACEA_TEXT_48 TRACEA_TEXT_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TRACEA_TEXT_64 TRACEA_TEXT_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TRACEA_TEXT_72 TRACEA_TEXT_64 ", %32, %33, %34, %35"
#define TRACEA_TEXT_80 TRACEA_TEXT_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TRACEA_TEXT_88 TRACEA_TEXT_80 ", %40, %41, %42, %43"
#define TRACEA_TEXT_96 TRACEA_TEXT_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TRACEA_TEXT_104 TRACEA_TEXT_96 ", %48, %49, %50, %51"
#define TRACEA_TEXT_112 TRACEA_TEXT_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define TRACEA_TEXT_120 TRACEA_TEXT_112 ", %56, %57, %58, %59"
#define TRACEA_TEXT_128 TRACEA_TEXT_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define TRACEA_TEXT_136 TRACEA_TEXT_128 ", %64, %65, %66, %67"
#define TRACEA_TEXT_144 TRACEA_TEXT_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define TRACEA_TEXT_152 TRACEA_TEXT_144 ", %72, %73, %74, %75"
#define TRACEA_TEXT_160 TRACEA_TEXT_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define TRACEA_TEXT_176 TRACEA_TEXT_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define TRACEA_TEXT_192 TRACEA_TEXT_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define TRACEA_TEXT_208 TRACEA_TEXT_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define TRACEA_TEXT_224 TRACEA_TEXT_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define TRACEA_TEXT_240 TRACEA_TEXT_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define TRACEA_TEXT_256 TRACEA_TEXT_240 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define TRACEA_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TRACEA_OPERANDS_8 TRACEA_4(0)
#define TRACEA_OPERANDS_16 TRACEA_OPERANDS_8, TRACEA_4(4)
#define TRACEA_OPERANDS_24 TRACEA_OPERANDS_16, TRACEA_4(8)
#define TRACEA_OPERANDS_32 TRACEA_OPERANDS_16, TRACEA_4(8), TRACEA_4(12)
#define TRACEA_OPERANDS_48 TRACEA_OPERANDS_32, TRACEA_4(16), TRACEA_4(20)
#define TRACEA_OPERANDS_64 TRACEA_OPERANDS_48, TRACEA_4(24), TRACEA_4(28)
#define TRACEA_OPERANDS_72 TRACEA_OPERANDS_64, TRACEA_4(32)
#define TRACEA_OPERANDS_80 TRACEA_OPERANDS_64, TRACEA_4(32), TRACEA_4(36)
#define TRACEA_OPERANDS_88 TRACEA_OPERANDS_80, TRACEA_4(40)
#define TRACEA_OPERANDS_96 TRACEA_OPERANDS_80, TRACEA_4(40), TRACEA_4(44)
#define TRACEA_OPERANDS_104 TRACEA_OPERANDS_96, TRACEA_4(48)
#define TRACEA_OPERANDS_112 TRACEA_OPERANDS_96, TRACEA_4(48), TRACEA_4(52)
#define TRACEA_OPERANDS_120 TRACEA_OPERANDS_112, TRACEA_4(56)
#define TRACEA_OPERANDS_128 TRACEA_OPERANDS_112, TRACEA_4(56), TRACEA_4(60)
#define TRACEA_OPERANDS_136 TRACEA_OPERANDS_128, TRACEA_4(64)
#define TRACEA_OPERANDS_144 TRACEA_OPERANDS_128, TRACEA_4(64), TRACEA_4(68)
#define TRACEA_OPERANDS_152 TRACEA_OPERANDS_144, TRACEA_4(72)
#define TRACEA_OPERANDS_160 TRACEA_OPERANDS_144, TRACEA_4(72), TRACEA_4(76)
#define TRACEA_OPERANDS_176 TRACEA_OPERANDS_160, TRACEA_4(80), TRACEA_4(84)
#define TRACEA_OPERANDS_192 TRACEA_OPERANDS_176, TRACEA_4(88), TRACEA_4(92)
#define TRACEA_OPERANDS_208 TRACEA_OPERANDS_192, TRACEA_4(96), TRACEA_4(100)
#define TRACEA_OPERANDS_224 TRACEA_OPERANDS_208, TRACEA_4(104), TRACEA_4(108)
#define TRACEA_OPERANDS_240 TRACEA_OPERANDS_224, TRACEA_4(112), TRACEA_4(116)
#define TRACEA_OPERANDS_256 TRACEA_OPERANDS_240, TRACEA_4(120), TRACEA_4(124)

// One instruction: A, B and MAJORS are the text of its operands, P the place of `accumulate` among them.
#define TRACEA_PRODUCT(N, SHAPE_AND_TYPES, A, B, P, MAJORS, ...)                                                               \
    asm volatile("{\n"                                                                                                         \
                 ".reg .pred p;\n"                                                                                             \
                 "setp.ne.b32 p, %" #P ", 0;\n"                                                                                \
                 "wgmma.mma_async.sync.aligned.m64n" #N SHAPE_AND_TYPES " {" TRACEA_TEXT_##N "}, " A                           \
                 ", " B ", p, 1, 1" MAJORS ";\n"                                                                               \
                 "}"                                                                                                           \
                 : TRACEA_OPERANDS_##N                                                                                         \
                 : __VA_ARGS__)

// I0 … I6 are N / 2 …: the places of the operands after the accumulators.
#define TRACEA_16_BIT(N, NAME, TYPES, I0, I1, I2, I3, I4, I5, I6)                                                              \
    template <bool TRANS_A, bool TRANS_B, class D>                                                                             \
    static __device__ __forceinline__ void NAME##_ss(D& d, unsigned long long a, unsigned long long b, bool accumulate) {        \
        TRACEA_PRODUCT(N, "k16.f32." TYPES, "%" #I1, "%" #I2, I0, ", %" #I3 ", %" #I4, "r"(static_cast<int>(accumulate)),      \
                       "l"(a), "l"(b), "n"(TRANS_A ? 1 : 0), "n"(TRANS_B ? 1 : 0));                                            \
    }                                                                                                                          \
    template <bool TRANS_B, class D>                                                                                           \
    static __device__ __forceinline__ void NAME##_rs(D& d, const unsigned (&a)[4], unsigned long long b, bool accumulate) {      \
        TRACEA_PRODUCT(N, "k16.f32." TYPES, "{%" #I1 ", %" #I2 ", %" #I3 ", %" #I4 "}", "%" #I5, I0, ", %" #I6,                \
                       "r"(static_cast<int>(accumulate)), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                  \
                       "n"(TRANS_B ? 1 : 0));                                                                                  \
    }

#define TRACEA_WGMMA(N, I0, I1, I2, I3, I4, I5, I6)                                                                            \
    template <>                                                                                                                \
    struct Wgmma<N> {                                                                                                          \
        TRACEA_16_BIT(N, f16, "f16.f16", I0, I1, I2, I3, I4, I5, I6)                                                           \
        TRACEA_16_BIT(N, bf16, "bf16.bf16", I0, I1, I2, I3, I4, I5, I6)                                                        \
        template <class D>                                                                                                     \
        static __device__ __forceinline__ void tf32_ss(D& d, unsigned long long a, unsigned long long b, bool accumulate) {    \
            TRACEA_PRODUCT(N, "k8.f32.tf32.tf32", "%" #I1, "%" #I2, I0, "", "r"(static_cast<int>(accumulate)), "l"(a),         \
                           "l"(b));                                                                                            \
        }                                                                                                                      \
        template <class D>                                                                                                     \
        static __device__ __forceinline__ void tf32_rs(D& d, const unsigned (&a)[4], unsigned long long b, bool accumulate) {  \
            TRACEA_PRODUCT(N, "k8.f32.tf32.tf32", "{%" #I1 ", %" #I2 ", %" #I3 ", %" #I4 "}", "%" #I5, I0, "",                 \
                           "r"(static_cast<int>(accumulate)), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));             \
        }                                                                                                                      \
    };

TRACEA_WGMMA(8, 4, 5, 6, 7, 8, 9, 10)
TRACEA_WGMMA(16, 8, 9, 10, 11, 12, 13, 14)
TRACEA_WGMMA(24, 12, 13, 14, 15, 16, 17, 18)
TRACEA_WGMMA(32, 16, 17, 18, 19, 20, 21, 22)
TRACEA_WGMMA(48, 24, 25, 26, 27, 28, 29, 30)
TRACEA_WGMMA(64, 32, 33, 34, 35, 36, 37, 38)
TRACEA_WGMMA(72, 36, 37, 38, 39, 40, 41, 42)
TRACEA_WGMMA(80, 40, 41, 42, 43, 44, 45, 46)
TRACEA_WGMMA(88, 44, 45, 46, 47, 48, 49, 50)
TRACEA_WGMMA(96, 48, 49, 50, 51, 52, 53, 54)
TRACEA_WGMMA(104, 52, 53, 54, 55, 56, 57, 58)
TRACEA_WGMMA(112, 56, 57, 58, 59, 60, 61, 62)
TRACEA_WGMMA(120, 60, 61, 62, 63, 64, 65, 66)
TRACEA_WGMMA(128, 64, 65, 66, 67, 68, 69, 70)
TRACEA_WGMMA(136, 68, 69, 70, 71, 72, 73, 74)
TRACEA_WGMMA(144, 72, 73, 74, 75, 76, 77, 78)
TRACEA_WGMMA(152, 76, 77, 78, 79, 80, 81, 82)
TRACEA_WGMMA(160, 80, 81, 82, 83, 84, 85, 86)
TRACEA_WGMMA(176, 88, 89, 90, 91, 92, 93, 94)
TRACEA_WGMMA(192, 96, 97, 98, 99, 100, 101, 102)
TRACEA_WGMMA(208, 104, 105, 106, 107, 108, 109, 110)
TRACEA_WGMMA(224, 112, 113, 114, 115, 116, 117, 118)
TRACEA_WGMMA(240, 120, 121, 122, 123, 124, 125, 126)
TRACEA_WGMMA(256, 128, 129, 130, 131, 132, 133, 134)

#undef TRACEA_WGMMA
#undef TRACEA_16_BIT
#undef TRACEA_PRODUCT
#undef TRACEA_4
#undef TRACEA_TEXT_8
#undef TRACEA_OPERANDS_8
#undef TRACEA_TEXT_16
#undef TRACEA_OPERANDS_16
#undef TRACEA_TEXT_24
#undef TRACEA_OPERANDS_24
#undef TRACEA_TEXT_32
#undef TRACEA_OPERANDS_32
#undef TRACEA_TEXT_48
#undef TRACEA_OPERANDS_48
#undef TRACEA_TEXT_64
#undef TRACEA_OPERANDS_64
#undef TRACEA_TEXT_72
#undef TRACEA_OPERANDS_72
#undef TRACEA_TEXT_80
#undef TRACEA_OPERANDS_80
#undef TRACEA_TEXT_88
#undef TRACEA_OPERANDS_88
#undef TRACEA_TEXT_96
#undef TRACEA_OPERANDS_96
#undef TRACEA_TEXT_104
#undef TRACEA_OPERANDS_104
#undef TRACEA_TEXT_112
#undef TRACEA_OPERANDS_112
#undef TRACEA_TEXT_120
#undef TRACEA_OPERANDS_120
#undef TRACEA_TEXT_128
#undef TRACEA_OPERANDS_128
#undef TRACEA_TEXT_136
#undef TRACEA_OPERANDS_136
#undef TRACEA_TEXT_144
#undef TRACEA_OPERANDS_144
#undef TRACEA_TEXT_152
#undef TRACEA_OPERANDS_152
#undef TRACEA_TEXT_160
#undef TRACEA_OPERANDS_160
#undef TRACEA_TEXT_176
#undef TRACEA_OPERANDS_176
#undef TRACEA_TEXT_192
#undef TRACEA_OPERANDS_192
#undef TRACEA_TEXT_208
#undef TRACEA_OPERANDS_208
#undef TRACEA_TEXT_224
#undef TRACEA_OPERANDS_224
#undef TRACEA_TEXT_240
#undef TRACEA_OPERANDS_240
#undef TRACEA_TEXT_256
#undef TRACEA_OPERANDS_256

}  // namespace tracea
