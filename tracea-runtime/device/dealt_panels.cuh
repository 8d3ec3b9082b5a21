// A tile whose sum several blocks share out, and which they also put together between them, where what comes after the sum goes
// panel by panel: each block leaves in a workspace what it has of the others' panels, and adds to its own ones what they have left.
// That takes all of these blocks to run at the same time; each warpgroup goes by itself.
//
//     own_panels; leave_panels; meet_parts; join_panels;
//     for each panel that this part puts together (has_panel): store it
#pragma once

#include "tracea/panels.cuh"
#include "tracea/parts.cuh"
#include "tracea/warpgroup.cuh"

namespace tracea {

// Of a tile that is whole.
constexpr unsigned ALL_PANELS = ~0u;

// A bit for each panel of which this part puts together this warpgroup's share: all of them in turn where there are as many shares, else
// parts that are far apart.
template <int PANELS, int THREADS>
__device__ __forceinline__ unsigned own_panels(int part, int parts) {
    static_assert(PANELS < 32, "a bit each, and not all of them");
    constexpr unsigned warpgroups = THREADS / 128;
    if (parts == 1) return ALL_PANELS;
    const unsigned warpgroup = warpgroup_index();
    unsigned own = 0;
#pragma unroll
    for (int panel = 0; panel < PANELS; ++panel) {
        const unsigned share = panel * warpgroups + warpgroup;
        own |= static_cast<unsigned>(share * parts / (PANELS * warpgroups) == part) << panel;
    }
    return own;
}

__device__ __forceinline__ bool has_panel(unsigned own, int panel) { return (own >> panel & 1) != 0; }

// Where a thread's group of four registers lies in a part: neighbouring threads' beside each other.
template <int THREADS>
__device__ __forceinline__ int group_of_four(int r) {
    return (r / 4 * THREADS + static_cast<int>(threadIdx.x)) * 4;
}

// Panels of so many of a thread's registers, in all.
template <class L, int REGISTERS>
__device__ __forceinline__ constexpr int panels_of() {
    static_assert(REGISTERS % 4 == 0 && L::size / L::row_blocks % 4 == 0, "panels of whole groups of four");
    return panels_beside<L, REGISTERS>() * L::row_blocks;
}

// What this part has of panels that others put together.
template <class L, int REGISTERS, int THREADS>
__device__ __forceinline__ void leave_panels(const float (&x)[L::size], float* this_part, unsigned own) {
#pragma unroll
    for (int panel = 0; panel < panels_of<L, REGISTERS>(); ++panel) {
        if (has_panel(own, panel)) continue;
#pragma unroll
        for (int r = first_register<L, REGISTERS>(panel); r < end_register<L, REGISTERS>(panel); r += 4) {
            __stcg(reinterpret_cast<float4*>(this_part + group_of_four<THREADS>(r)), make_float4(x[r], x[r + 1], x[r + 2], x[r + 3]));
        }
    }
}

// Until this warpgroup's share of all parts has been left, where it puts any panel together, and whether it does. `arrived` has a count for each
// warpgroup of the tile, 0 again when the last of those that wait has seen all come. One thread releases what the barrier before
// ordered, and acquires for those that the barrier after orders: PTX ISA, "Memory Consistency Model", causality order. No barrier is where one thread alone
// might go, as far as the compiler knows: it would take none of the loop before for uniform, nor the descriptors of its products.
template <int PANELS>
__device__ __forceinline__ bool meet_parts(unsigned* arrived, int parts, unsigned own) {
    const bool counts = threadIdx.x % 128 == 0;
    unsigned* const count = arrived + warpgroup_index();
    warpgroup_barrier();
    if (counts) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
    if (own == 0) return false;
    if (counts) {
        unsigned come;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(come) : "l"(count) : "memory");
        } while (come < static_cast<unsigned>(parts));
        const unsigned all = parts + min(parts, PANELS);
        if (atomicAdd(count, 1u) == all - 1) *count = 0;
    }
    warpgroup_barrier();
    return true;
}

// A thread's registers of one panel in another block's part.
template <class L, int REGISTERS, int THREADS>
__device__ __forceinline__ void read_left(float4 (&come)[REGISTERS / 4], const float* from, int panel) {
    const int first = first_register<L, REGISTERS>(panel), end = end_register<L, REGISTERS>(panel);
#pragma unroll
    for (int g = 0; g < REGISTERS / 4; ++g) {
        if (first + 4 * g >= end) break;
        come[g] = __ldcg(reinterpret_cast<const float4*>(from + group_of_four<THREADS>(first + 4 * g)));
    }
}

// How a register takes up what another part has left: by an operation ...
template <class Op>
struct Reduced {
    struct Beside {};
    __device__ __forceinline__ void read(Beside&, const float*) const {}
    __device__ __forceinline__ void weigh(Beside&) const {}
    __device__ __forceinline__ float take(float x, float left, const Beside&, int) const { return Op::apply(x, left); }
};

// ... or as a sum, multiplied by its row's weight. `weigh` makes that of the part's own extreme, which lies EXTREME floats from its tile.
template <class L, int THREADS, int EXTREME, int ROWS, class Weigh>
struct Weighted {
    struct Beside {
        float extreme[ROWS];
        float weight[ROWS];
    };
    Weigh weigh_rows;
    __device__ __forceinline__ void read(Beside& beside, const float* part) const {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) beside.extreme[r] = __ldcg(part + EXTREME + r * THREADS + static_cast<int>(threadIdx.x));
    }
    __device__ __forceinline__ void weigh(Beside& beside) const { weigh_rows(beside.extreme, beside.weight); }
    __device__ __forceinline__ float take(float x, float left, const Beside& beside, int r) const {
        return x + left * beside.weight[L::row_slot(r)];
    }
};

// Of panels that this part puts together, what the others have left, in an order that the panel and their number say alone. A
// thread has AHEAD parts on their way, and asks for the next one as it takes one up.
template <class L, int REGISTERS, int THREADS, int AHEAD, class Way>
__device__ __forceinline__ void join_panels_by(float (&x)[L::size], const float* first_part, int stride, int part, int parts, unsigned own, const Way& way) {
    const auto after = [&](int n) { return first_part + static_cast<long long>(part + n < parts ? part + n : part + n - parts) * stride; };
#pragma unroll
    for (int panel = 0; panel < panels_of<L, REGISTERS>(); ++panel) {
        if (!has_panel(own, panel)) continue;
        const int first_own = first_register<L, REGISTERS>(panel), end = end_register<L, REGISTERS>(panel);
        float4 come[AHEAD][REGISTERS / 4];
        typename Way::Beside beside[AHEAD];
        const auto ask = [&](int slot, int n) {
            if (n >= parts) return;
            way.read(beside[slot], after(n));
            read_left<L, REGISTERS, THREADS>(come[slot], after(n), panel);
        };
#pragma unroll
        for (int n = 0; n < AHEAD; ++n) ask(n, 1 + n);
#pragma unroll 1
        for (int first = 1; first < parts; first += AHEAD) {
#pragma unroll
            for (int n = 0; n < AHEAD; ++n) {
                if (first + n >= parts) break;
                way.weigh(beside[n]);
#pragma unroll
                for (int g = 0; g < REGISTERS / 4; ++g) {
                    const int r = first_own + 4 * g;
                    if (r >= end) break;
                    x[r] = way.take(x[r], come[n][g].x, beside[n], r);
                    x[r + 1] = way.take(x[r + 1], come[n][g].y, beside[n], r + 1);
                    x[r + 2] = way.take(x[r + 2], come[n][g].z, beside[n], r + 2);
                    x[r + 3] = way.take(x[r + 3], come[n][g].w, beside[n], r + 3);
                }
                ask(n, first + n + AHEAD);
            }
        }
    }
}

template <class Op, class L, int REGISTERS, int THREADS, int AHEAD>
__device__ __forceinline__ void join_panels(float (&x)[L::size], const float* first_part, int stride, int part, int parts, unsigned own) {
    join_panels_by<L, REGISTERS, THREADS, AHEAD>(x, first_part, stride, part, parts, own, Reduced<Op>{});
}

// The same of sums that are relative to an extreme; what this part has itself is relative to that of all.
template <class L, int REGISTERS, int THREADS, int AHEAD, int EXTREME, int ROWS, class Weigh>
__device__ __forceinline__ void join_weighted_panels(float (&x)[L::size], const float* first_part, int stride, int part, int parts, unsigned own, Weigh weigh) {
    const Weighted<L, THREADS, EXTREME, ROWS, Weigh> weighted{weigh};
    join_panels_by<L, REGISTERS, THREADS, AHEAD>(x, first_part, stride, part, parts, own, weighted);
}

}  // namespace tracea
