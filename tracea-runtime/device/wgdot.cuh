// Products of tiles by warpgroups, accumulated in registers, asynchronous: issue now, wait later.
//
// Consumers are threads 0 … 128 C - 1. Accumulators are in layout Mma16816<64 C, N, 4 C, 1>: each of the C warpgroups has 64
// rows of A and all of B. Or each has R times 64 rows, with those of the others in between, in layout Mma16816<64 C R, N, 4 C, 1, 64 C>;
// C is 1 where each warpgroup has tiles of its own. Between issue and wait, nothing may touch the accumulators or A's registers.
#pragma once

#include "tracea/operand.cuh"
#include "tracea/panel_tile.cuh"
#include "tracea/warpgroup.cuh"
#include "tracea/wgmma.cuh"

namespace tracea {

// ---- operands

// In shared memory as PanelTile<T, MN, K>: the rows are m of A, n of B. Of tf32, wgmma ignores the low bits: it truncates.
template <class T, int MN, int K>
struct PanelKMajor {
    using type = T;
    using Tile = PanelTile<T, MN, K>;
    static constexpr int mn = MN, k = K;
    static constexpr bool in_registers = false, mn_major = false;

    const stored<T>* p;

    // The matrix of one k step; a step is 32 of a panel's 128 bytes.
    __device__ __forceinline__ unsigned long long descriptor() const { return wgmma_descriptor(shared_address(p), 0, 1024); }
    static __device__ __forceinline__ constexpr int step_bytes(int step) { return step / 4 * Tile::panel_bytes + step % 4 * 32; }
    static __device__ __forceinline__ constexpr int mn_bytes(int mn) { return mn * 128; }
};

// In shared memory as PanelTile<T, K, MN>: the rows are k. wgmma takes 16-bit types so, and no others.
template <class T, int MN, int K>
struct PanelMnMajor {
    static_assert(sizeof(stored<T>) == 2, "wgmma wants 32-bit types K-major, but for A in registers");

    using type = T;
    using Tile = PanelTile<T, K, MN>;
    static constexpr int mn = MN, k = K;
    static constexpr bool in_registers = false, mn_major = true;

    const stored<T>* p;

    // The matrix of one k step; a step is sixteen rows.
    __device__ __forceinline__ unsigned long long descriptor() const {
        return wgmma_descriptor(shared_address(p), Tile::panel_bytes, 1024);
    }
    static __device__ __forceinline__ constexpr int step_bytes(int step) { return step * 16 * 128; }
    static __device__ __forceinline__ constexpr int mn_bytes(int mn) { return mn / 64 * Tile::panel_bytes; }
};

// Of tf32, as A alone: threads read its fragments, so that it counts as one in registers. Its low bits are cut off as they are in shared
// memory.
template <int MN, int K>
struct PanelMnMajor<tf32, MN, K> {
    using type = tf32;
    using Tile = PanelTile<tf32, K, MN>;
    static constexpr int mn = MN, k = K;
    static constexpr bool in_registers = true, mn_major = true;

    const float* p;

    // Thread 4*g + t wants rows g and g + 8 of the warp's sixteen, at k = t and t + 4 of each step. Rows g < 4 and g >= 4 lie in
    // neighbouring chunks, which the swizzle by k = 0 … 3 sends to the same four places, and by k = 4 … 7 to the other four: half a warp
    // begins with k = t, the other one with k = t + 4, and no bank is met twice.
    struct Reader {
        // To the other k, four rows and as many chunks away, and to the other row, two chunks away: no sum of these has a carry.
        static constexpr int other_k = 4 * Tile::panel_cols + 4 * Tile::chunk, other_row = 2 * Tile::chunk;
        static constexpr int step_elements = k_step<tf32> * Tile::panel_cols;

        const float* p;
        bool upper;
        int first;

        __device__ __forceinline__ explicit Reader(const PanelMnMajor& a)
            : p(a.p),
              upper(lane_index() >= 16),
              first(Tile::offset(lane_index() % 4 + (upper ? 4 : 0), warp_index() * 16 + lane_index() / 4)) {}

        __device__ __forceinline__ void load(unsigned (&fragment)[4], int step) const {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int at = first ^ half * other_row;
                const unsigned x = __float_as_uint(p[at + step * step_elements]);
                const unsigned y = __float_as_uint(p[(at ^ other_k) + step * step_elements]);
                fragment[half] = upper ? y : x;
                fragment[half + 2] = upper ? x : y;
            }
        }
    };
};

// mma's A fragments from the pairs of a tf32 operand in accumulator order (operand.cuh): element k of eight goes from thread
// k / 2 of its four to thread k % 4.
__device__ __forceinline__ void unpair_fragment(unsigned (&fragment)[4]) {
    const int lane = static_cast<int>(threadIdx.x) & 31, odd = lane & 1;
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = fragment[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // rows g, g + 8; columns t, t + 4
        const int from = (lane & ~3) + (lane & 3) / 2 + i / 2 * 2;
        const unsigned even_k = __shfl_sync(0xffffffffu, pairs[i % 2], from);
        const unsigned odd_k = __shfl_sync(0xffffffffu, pairs[i % 2 + 2], from);
        fragment[i] = odd ? odd_k : even_k;
    }
}

// A in registers, converted: the operand (RegisterA, FragmentA) may change once this is made, this not until its products are
// waited for.
template <class T, int MN, int K>
struct PackedA {
    using type = T;
    static constexpr int mn = MN, k = K, steps = K / k_step<T>;
    static constexpr bool in_registers = true, mn_major = false;

    unsigned fragments[steps][4];

    PackedA() = default;

    template <class Operand>
    __device__ __forceinline__ explicit PackedA(const Operand& operand) {
        static_assert(same<T, typename Operand::type> && Operand::mn == MN && Operand::k == K, "of one type and shape");
        using Rows = Mma16816<MN, 8, MN / 16, 1>;
        const typename Operand::template Left<Rows, true> left(operand);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            unsigned fragment[1][4];
            left.load(fragment, step);
            if constexpr (same<T, tf32>) unpair_fragment(fragment[0]);
#pragma unroll
            for (int i = 0; i < 4; ++i) fragments[step][i] = fragment[0][i];
        }
    }
};

// ---- no code, but registers are written before and read after it

template <int N>
__device__ __forceinline__ void settle(float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

__device__ __forceinline__ void settle(unsigned (&fragment)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(fragment[i])::"memory");
}

template <class T, int MN, int K>
__device__ __forceinline__ void settle(PackedA<T, MN, K>& a) {
#pragma unroll
    for (int step = 0; step < PackedA<T, MN, K>::steps; ++step) settle(a.fragments[step]);
}

// ---- products

// One k step of so many columns; A is a descriptor or a fragment.
template <class T, bool TRANS_A, bool TRANS_B, int COLUMNS, class D>
__device__ __forceinline__ void wgmma_step(D& d, unsigned long long a, unsigned long long b, bool accumulate) {
    if constexpr (same<T, f16>) {
        Wgmma<COLUMNS>::template f16_ss<TRANS_A, TRANS_B>(d, a, b, accumulate);
    } else if constexpr (same<T, bf16>) {
        Wgmma<COLUMNS>::template bf16_ss<TRANS_A, TRANS_B>(d, a, b, accumulate);
    } else {
        static_assert(same<T, tf32>, "tensor cores multiply f16, bf16 and tf32");
        Wgmma<COLUMNS>::tf32_ss(d, a, b, accumulate);
    }
}

template <class T, bool TRANS_A, bool TRANS_B, int COLUMNS, class D>
__device__ __forceinline__ void wgmma_step(D& d, const unsigned (&a)[4], unsigned long long b, bool accumulate) {
    if constexpr (same<T, f16>) {
        Wgmma<COLUMNS>::template f16_rs<TRANS_B>(d, a, b, accumulate);
    } else if constexpr (same<T, bf16>) {
        Wgmma<COLUMNS>::template bf16_rs<TRANS_B>(d, a, b, accumulate);
    } else {
        static_assert(same<T, tf32>, "tensor cores multiply f16, bf16 and tf32");
        Wgmma<COLUMNS>::tf32_rs(d, a, b, accumulate);
    }
}

// All k steps of columns that one instruction has.
template <int K, int COLUMNS, class A, class B, class D>
__device__ __forceinline__ void wgmma_steps(D& d, const A& a, unsigned long long a_matrix, unsigned long long b_matrix,
                                            bool accumulate) {
    using T = typename A::type;
#pragma unroll
    for (int step = 0; step < K / k_step<T>; ++step) {
        const unsigned long long b_step = wgmma_advance(b_matrix, B::step_bytes(step));
        if constexpr (A::in_registers) {
            wgmma_step<T, false, B::mn_major, COLUMNS>(d, a.fragments[step], b_step, accumulate || step > 0);
        } else {
            const unsigned long long a_step = wgmma_advance(a_matrix, A::step_bytes(step));
            wgmma_step<T, A::mn_major, B::mn_major, COLUMNS>(d, a_step, b_step, accumulate || step > 0);
        }
    }
}

// The columns from FIRST on, at most 256 an instruction.
template <int FIRST, int K, class A, class B, int SIZE>
__device__ __forceinline__ void wgdot_columns(float (&acc)[SIZE], const A& a, unsigned long long a_matrix,
                                              unsigned long long b_matrix, bool accumulate) {
    constexpr int left = 2 * SIZE - FIRST, columns = left < 256 ? left : 256;
    float(&d)[columns / 2] = *reinterpret_cast<float(*)[columns / 2]>(acc + FIRST / 2);
    wgmma_steps<K, columns, A, B>(d, a, a_matrix, wgmma_advance(b_matrix, B::mn_bytes(FIRST)), accumulate);
    if constexpr (left > 256) wgdot_columns<FIRST + 256, K, A, B>(acc, a, a_matrix, b_matrix, accumulate);
}

template <class Acc, int K, class A, class B>
__device__ __forceinline__ void wgdot_check() {
    static_assert(same<typename A::type, typename B::type>, "operands of one type");
    static_assert(A::k == B::k && A::k >= K && K % k_step<typename A::type> == 0, "operands of one length, the first k steps of it");
    static_assert(A::mn == Acc::rows && B::mn >= Acc::cols && !B::in_registers, "shapes agree; B lies in shared memory");
    static_assert(Acc::warps_n == 1 && Acc::warps_m % 4 == 0, "a warpgroup has 64 rows and all columns");
    static_assert(Acc::row_blocks == 1 || !A::in_registers, "or several times 64, from shared memory");
}

// acc += a · b, or acc = a · b without `accumulate`, as one group: issued, not waited for. The first form is for A that the
// caller packed; RegisterA and FragmentA are packed here.
template <class Acc, int K, class T, int MN, class B>
__device__ __forceinline__ void wgdot_issue(float (&acc)[Acc::size], PackedA<T, MN, K>& a, B b, bool accumulate = true) {
    wgdot_check<Acc, K, PackedA<T, MN, K>, B>();
    settle(acc);
    settle(a);
    wgmma_fence();
    wgdot_columns<0, K, PackedA<T, MN, K>, B>(acc, a, 0, b.descriptor(), accumulate);
    wgmma_commit();
}

// Each step's fragment is read while the product of the step before runs.
template <class Acc, int K, int MN, int BLOCK_K, class B>
__device__ __forceinline__ void wgdot_issue(float (&acc)[Acc::size], PanelMnMajor<tf32, MN, BLOCK_K> a, B b, bool accumulate = true) {
    wgdot_check<Acc, K, PanelMnMajor<tf32, MN, BLOCK_K>, B>();
    static_assert(Acc::cols <= 256, "one instruction a step");
    constexpr int steps = K / k_step<tf32>;
    const typename PanelMnMajor<tf32, MN, BLOCK_K>::Reader reader(a);
    const unsigned long long b_matrix = b.descriptor();
    unsigned fragments[steps][4];
    reader.load(fragments[0], 0);
    settle(acc);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
        settle(fragments[step]);
        wgmma_fence();
        const unsigned long long b_step = wgmma_advance(b_matrix, B::step_bytes(step));
        wgmma_step<tf32, false, false, Acc::cols>(acc, fragments[step], b_step, accumulate || step > 0);
        if (step + 1 < steps) reader.load(fragments[step + 1], step + 1);
    }
    wgmma_commit();
}

template <class Acc, int K, class A, class B>
__device__ __forceinline__ void wgdot_issue(float (&acc)[Acc::size], A a, B b, bool accumulate = true) {
    if constexpr (A::in_registers) {
        PackedA<typename A::type, A::mn, A::k> packed(a);
        wgdot_issue<Acc, K>(acc, packed, b, accumulate);
    } else {
        wgdot_check<Acc, K, A, B>();
        constexpr int registers = Acc::size / Acc::row_blocks;
        const unsigned long long a_matrix = wgmma_advance(a.descriptor(), tile_warpgroup_index() * A::mn_bytes(64));
        settle(acc);
        wgmma_fence();
#pragma unroll
        for (int block = 0; block < Acc::row_blocks; ++block) {
            float(&rows)[registers] = *reinterpret_cast<float(*)[registers]>(acc + block * registers);
            wgdot_columns<0, K, A, B>(rows, a, wgmma_advance(a_matrix, A::mn_bytes(16 * Acc::warps_m * block)), b.descriptor(), accumulate);
        }
        wgmma_commit();
    }
}

// A thread's registers of two products side by side.
template <int N>
struct Beside {
    float (&first)[N];
    float (&second)[N];

    __device__ __forceinline__ float& operator[](int i) const { return i < N ? first[i] : second[i - N]; }
};

// Two products of A, with B and with the tile that lies behind B, whose columns go on from its own.
template <class Acc, int K, class A, class B>
__device__ __forceinline__ void wgdot_issue_beside(float (&first)[Acc::size], float (&second)[Acc::size], A a, B b) {
    wgdot_check<Acc, K, A, B>();
    static_assert(!A::in_registers && B::mn == Acc::cols && 2 * Acc::cols <= 256, "one instruction a step");
    static_assert(B::mn_major ? B::mn % B::Tile::panel_cols == 0 : B::Tile::cols == B::Tile::panel_cols, "columns go on");
    constexpr int registers = Acc::size / Acc::row_blocks;
    const unsigned long long a_matrix = wgmma_advance(a.descriptor(), tile_warpgroup_index() * A::mn_bytes(64));
    settle(first);
    settle(second);
    wgmma_fence();
#pragma unroll
    for (int block = 0; block < Acc::row_blocks; ++block) {
        const auto rows = [&](float (&acc)[Acc::size]) -> float(&)[registers] {
            return *reinterpret_cast<float(*)[registers]>(acc + block * registers);
        };
        const Beside<registers> both{rows(first), rows(second)};
        wgmma_steps<K, 2 * Acc::cols, A, B>(both, a, wgmma_advance(a_matrix, A::mn_bytes(16 * Acc::warps_m * block)), b.descriptor(), true);
    }
    wgmma_commit();
}

// Waits until at most PENDING groups are under way. `held` are the accumulators and PackedA of groups that are then complete.
template <int PENDING, class... Registers>
__device__ __forceinline__ void wgdot_wait(Registers&... held) {
    wgmma_wait<PENDING>();
    (settle(held), ...);
}

}  // namespace tracea
