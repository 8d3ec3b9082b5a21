// Kernels of hopper_selftest.cu: each puts one header piece between plain loads and plain stores; then whole kernels as an
// emitter would write them.
#pragma once

// Consumers of the whole kernels; also those of part_of_block_kernel.
#define TRACEA_TILE_THREADS 256
#include "tracea/hopper.cuh"

namespace tracea {

template <class Tile>
__device__ __forceinline__ void fill_tile(typename Tile::element* shared, const typename Tile::element* in) {
    for (int i = static_cast<int>(threadIdx.x); i < Tile::rows * Tile::cols; i += static_cast<int>(blockDim.x)) {
        shared[Tile::offset(i / Tile::cols, i % Tile::cols)] = in[i];
    }
}

__device__ __forceinline__ void dump_bytes(const unsigned char* shared, unsigned char* out, int bytes) {
    for (int i = static_cast<int>(threadIdx.x); i < bytes; i += static_cast<int>(blockDim.x)) out[i] = shared[i];
}

// ---- turns of a ring

// Slot, parity and the slot before of so many turns, one after the other.
template <class Turn>
__global__ void ring_turn_kernel(int turns, int* out) {
    Turn turn;
    for (int n = 0; n < turns; ++n) {
        out[3 * n] = turn.slot();
        out[3 * n + 1] = turn.phase();
        out[3 * n + 2] = turn.slot_before();
        turn.advance();
    }
}

// ---- units of work

// A producer warp and two others take units, and count how often each has been taken by whom. Blocks are done with a unit at different times.
static __global__ void unit_queue_kernel(unsigned* taken, int units, int* counts) {
    __shared__ __align__(8) unsigned char shared[40];
    const UnitQueue queue(shared);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x == 0) {
        queue.init(3);
        mbarrier_init_fence();
    }
    __syncthreads();
    int done = 0;
    for (int unit = static_cast<int>(blockIdx.x); unit < units; unit = queue.next(done)) {
        if (lane_index() == 0) atomicAdd(counts + warp * units + unit, 1);
        __nanosleep(100 * (unit % 7) * warp);
        ++done;
        if (threadIdx.x == 0) queue.take(taken, units, done);
    }
}

// ---- products

// A as M x K (or K x M when MN-major), B as N x K (or K x N), C as M x N, all dense. The products begin with acc = 1 when
// they accumulate.
template <class T, int WARPGROUPS, int N, int K, bool A_MN, bool B_MN>
__global__ void __launch_bounds__(128 * WARPGROUPS)
wgdot_kernel(const stored<T>* a, const stored<T>* b, float* c, bool accumulate) {
    constexpr int M = 64 * WARPGROUPS, columns = B_MN ? (N + 63) / 64 * 64 : (N + 7) / 8 * 8;
    using Acc = Mma16816<M, N, 4 * WARPGROUPS, 1>;
    using TileA = PanelTile<T, A_MN ? K : M, A_MN ? M : K>;
    using TileB = PanelTile<T, B_MN ? K : columns, B_MN ? columns : K>;
    extern __shared__ __align__(1024) unsigned char shared[];
    stored<T>* const a_tile = reinterpret_cast<stored<T>*>(shared);
    stored<T>* const b_tile = reinterpret_cast<stored<T>*>(shared + TileA::bytes);
    fill_tile<TileA>(a_tile, a);
    fill_tile<TileB>(b_tile, b);
    fence_proxy_async();
    __syncthreads();
    float acc[Acc::size];
#pragma unroll
    for (int r = 0; r < Acc::size; ++r) acc[r] = 1.0f;
    if constexpr (A_MN && B_MN) {
        wgdot_issue<Acc, K>(acc, PanelMnMajor<T, M, K>{a_tile}, PanelMnMajor<T, columns, K>{b_tile}, accumulate);
    } else if constexpr (A_MN) {
        wgdot_issue<Acc, K>(acc, PanelMnMajor<T, M, K>{a_tile}, PanelKMajor<T, columns, K>{b_tile}, accumulate);
    } else if constexpr (B_MN) {
        wgdot_issue<Acc, K>(acc, PanelKMajor<T, M, K>{a_tile}, PanelMnMajor<T, columns, K>{b_tile}, accumulate);
    } else {
        wgdot_issue<Acc, K>(acc, PanelKMajor<T, M, K>{a_tile}, PanelKMajor<T, columns, K>{b_tile}, accumulate);
    }
    wgdot_wait<0>(acc);
#pragma unroll
    for (int r = 0; r < Acc::size; ++r) c[Acc::row(r) * N + Acc::col(r)] = acc[r];
}

// Two products side by side, C as M x 2N: B's first N columns and its last ones lie in a tile each, one behind the other, as two B's do.
template <class T, int BLOCKS, int N, int K, bool B_MN>
__global__ void __launch_bounds__(128) wgdot_beside_kernel(const stored<T>* a, const stored<T>* b, float* c) {
    constexpr int M = 64 * BLOCKS;
    using Acc = Mma16816<M, N, 4, 1, 64>;
    using TileA = PanelTile<T, M, K>;
    using TileB = PanelTile<T, B_MN ? K : N, B_MN ? N : K>;
    extern __shared__ __align__(1024) unsigned char shared[];
    stored<T>* const a_tile = reinterpret_cast<stored<T>*>(shared);
    stored<T>* const b_tile = reinterpret_cast<stored<T>*>(shared + TileA::bytes);
    fill_tile<TileA>(a_tile, a);
    fill_tile<TileB>(b_tile, b);
    fill_tile<TileB>(b_tile + N * K, b + N * K);
    fence_proxy_async();
    __syncthreads();
    float first[Acc::size], second[Acc::size];
#pragma unroll
    for (int r = 0; r < Acc::size; ++r) first[r] = second[r] = 1.0f;
    if constexpr (B_MN) {
        wgdot_issue_beside<Acc, K>(first, second, PanelKMajor<T, M, K>{a_tile}, PanelMnMajor<T, N, K>{b_tile});
    } else {
        wgdot_issue_beside<Acc, K>(first, second, PanelKMajor<T, M, K>{a_tile}, PanelKMajor<T, N, K>{b_tile});
    }
    wgdot_wait<0>(first, second);
#pragma unroll
    for (int r = 0; r < Acc::size; ++r) {
        c[Acc::row(r) * 2 * N + Acc::col(r)] = first[r];
        c[Acc::row(r) * 2 * N + N + Acc::col(r)] = second[r];
    }
}

// A from registers, in one of the forms that it may have.
enum class InRegisters { accumulators, fragments, packed };

template <class T, int WARPGROUPS, int N, int K, bool B_MN, InRegisters FORM>
__global__ void __launch_bounds__(128 * WARPGROUPS) wgdot_registers_kernel(const float* a, const stored<T>* b, float* c) {
    constexpr int M = 64 * WARPGROUPS, columns = B_MN ? (N + 63) / 64 * 64 : N;
    using Acc = Mma16816<M, N, 4 * WARPGROUPS, 1>;
    using TileB = PanelTile<T, B_MN ? K : columns, B_MN ? columns : K>;
    extern __shared__ __align__(1024) unsigned char shared[];
    stored<T>* const b_tile = reinterpret_cast<stored<T>*>(shared);
    fill_tile<TileB>(b_tile, b);
    fence_proxy_async();
    __syncthreads();
    const auto product = [&](auto left) {
        float acc[Acc::size];
        if constexpr (B_MN) {
            wgdot_issue<Acc, K>(acc, left, PanelMnMajor<T, columns, K>{b_tile}, false);
        } else {
            wgdot_issue<Acc, K>(acc, left, PanelKMajor<T, columns, K>{b_tile}, false);
        }
        wgdot_wait<0>(acc);
#pragma unroll
        for (int r = 0; r < Acc::size; ++r) c[Acc::row(r) * N + Acc::col(r)] = acc[r];
    };
    if constexpr (FORM == InRegisters::fragments) {
        using L = MmaA<M, K, 4 * WARPGROUPS, 1>;
        float x[L::size];
#pragma unroll
        for (int r = 0; r < L::size; ++r) x[r] = a[L::row(r) * K + L::col(r)];
        product(FragmentA<T, L, float>{x});
    } else {
        using L = Mma16816<M, K, 4 * WARPGROUPS, 1>;
        float x[L::size];
#pragma unroll
        for (int r = 0; r < L::size; ++r) x[r] = a[L::row(r) * K + L::col(r)];
        if constexpr (FORM == InRegisters::accumulators) {
            product(RegisterA<T, L>{x});
        } else {
            PackedA<T, M, K> packed(RegisterA<T, L>{x});
#pragma unroll
            for (int r = 0; r < L::size; ++r) x[r] = 0.0f;
            float acc[Acc::size];
            if constexpr (B_MN) {
                wgdot_issue<Acc, K>(acc, packed, PanelMnMajor<T, columns, K>{b_tile}, false);
            } else {
                wgdot_issue<Acc, K>(acc, packed, PanelKMajor<T, columns, K>{b_tile}, false);
            }
            wgdot_wait<0>(acc, packed);
#pragma unroll
            for (int r = 0; r < Acc::size; ++r) c[Acc::row(r) * N + Acc::col(r)] = acc[r] + x[0];
        }
    }
}

// ---- copies into panels: the bytes that are then in shared memory

// By threads 128 … 255 of 256.
template <class Tile, int ALIGN>
__global__ void panel_copy_kernel(const typename Tile::element* source, int stride, int valid_rows, int valid_cols,
                                  unsigned char* out) {
    extern __shared__ __align__(1024) unsigned char shared[];
    Barrier* const full = reinterpret_cast<Barrier*>(shared + Tile::bytes);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 128);
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        using T = typename Tile::element;
        T* const tile = reinterpret_cast<T*>(shared);
        if constexpr (ALIGN > 0) {
            copy_rows_async<Tile, 128, ALIGN, 8, 128>(
                tile, [&](int row) { return RowSource<T>{source + row * stride, row < valid_rows}; }, valid_cols);
            cp_async_mbarrier_arrive_noinc(full);
        } else {
            copy_elements<Tile, 128, 128>(tile, [&](int row, int col) {
                return RowSource<T>{source + row * stride + col, row < valid_rows && col < valid_cols};
            });
            mbarrier_arrive(full);
        }
    }
    mbarrier_wait(full, 0);
    dump_bytes(shared, out, Tile::bytes);
}

// The tensor's other coordinates are 0.
template <int RANK>
__device__ __forceinline__ void load_box(void* shared, const TensorMap& map, Barrier* full, int col, int row) {
    if constexpr (RANK == 1) {
        tma_load(shared, map, full, col);
    } else if constexpr (RANK == 2) {
        tma_load(shared, map, full, col, row);
    } else if constexpr (RANK == 3) {
        tma_load(shared, map, full, col, row, 0);
    } else if constexpr (RANK == 4) {
        tma_load(shared, map, full, col, row, 0, 0);
    } else {
        tma_load(shared, map, full, col, row, 0, 0, 0);
    }
}

template <int RANK>
__device__ __forceinline__ void store_box(const TensorMap& map, const void* shared, int col, int row) {
    if constexpr (RANK == 1) {
        tma_store(map, shared, col);
    } else if constexpr (RANK == 2) {
        tma_store(map, shared, col, row);
    } else if constexpr (RANK == 3) {
        tma_store(map, shared, col, row, 0);
    } else if constexpr (RANK == 4) {
        tma_store(map, shared, col, row, 0, 0);
    } else {
        tma_store(map, shared, col, row, 0, 0, 0);
    }
}

// Loads the tile that begins at (row, col), and stores it through another map.
template <class Tile, int RANK>
__global__ void tma_kernel(const __grid_constant__ TensorMap source, const __grid_constant__ TensorMap target, int row, int col,
                           unsigned char* out) {
    extern __shared__ __align__(1024) unsigned char shared[];
    Barrier* const full = reinterpret_cast<Barrier*>(shared + Tile::bytes);
    if (threadIdx.x == 0) {
        tma_prefetch_map(source);
        mbarrier_init(full, 1);
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x / 32 == 0 && elect_one()) {
        mbarrier_arrive_expect_tx(full, RANK == 1 ? 128 : Tile::bytes);
        for (int p = 0; p < Tile::panels; ++p) {
            load_box<RANK>(shared + p * Tile::panel_bytes, source, full, col + p * Tile::panel_cols, row);
        }
    }
    mbarrier_wait(full, 0);
    dump_bytes(shared, out, Tile::bytes);
    if (threadIdx.x == 0) {
        for (int p = 0; p < Tile::panels; ++p) {
            store_box<RANK>(target, shared + p * Tile::panel_bytes, col + p * Tile::panel_cols, row);
        }
        tma_store_commit();
        tma_store_wait_read<0>();
        tma_store_wait<0>();
    }
}

// Where the first row of a walk lies, axes from the innermost, and how much further along it is read.
struct WalkStart {
    int image, at[3];
    unsigned short offset[3];
};

// Loads the tile of rows that a walk goes through.
template <class Tile, int RANK>
__global__ void im2col_kernel(const __grid_constant__ TensorMap source, WalkStart start, unsigned char* out) {
    extern __shared__ __align__(1024) unsigned char shared[];
    Barrier* const full = reinterpret_cast<Barrier*>(shared + Tile::bytes);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x / 32 == 0 && elect_one()) {
        mbarrier_arrive_expect_tx(full, Tile::bytes);
        for (int p = 0; p < Tile::panels; ++p) {
            unsigned char* const to = shared + p * Tile::panel_bytes;
            const int channel = p * Tile::panel_cols;
            const auto& [image, at, offset] = start;
            if constexpr (RANK == 3) {
                tma_load_im2col(to, source, full, channel, at[0], image, offset[0]);
            } else if constexpr (RANK == 4) {
                tma_load_im2col(to, source, full, channel, at[0], at[1], image, offset[0], offset[1]);
            } else {
                tma_load_im2col(to, source, full, channel, at[0], at[1], at[2], image, offset[0], offset[1], offset[2]);
            }
        }
    }
    mbarrier_wait(full, 0);
    dump_bytes(shared, out, Tile::bytes);
}

// A cluster of two: each block loads half of the panels into both; then each reads what it has, and waits for the other before
// it leaves.
template <class Tile>
__global__ void multicast_kernel(const __grid_constant__ TensorMap source, unsigned char* out) {
    extern __shared__ __align__(1024) unsigned char shared[];
    Barrier* const full = reinterpret_cast<Barrier*>(shared + Tile::bytes);
    Barrier* const done = full + 1;
    const int rank = cluster_rank();
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_init(done, 1);
        mbarrier_init_fence();
    }
    cluster_start();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(full, Tile::bytes);
        for (int p = rank; p < Tile::panels; p += 2) {
            tma_load_multicast(shared + p * Tile::panel_bytes, source, full, 3, p * Tile::panel_cols, 0);
        }
    }
    mbarrier_wait(full, 0);
    dump_bytes(shared, out + rank * Tile::bytes, Tile::bytes);
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_arrive_at(done, 1 - rank);
    mbarrier_wait_cluster(done, 0);
}

// Slices of two tiles, one by one where nothing is aligned, whole and panel by panel, and one between them that nobody reads: what each element's thread has of them goes to where the
// element lies.
template <class L, class T, int REGISTERS, int ALIGN>
__global__ void __launch_bounds__(L::threads) early_cols_kernel(const T* in, int stride, int valid_cols, float* whole, float* by_panels) {
    extern __shared__ __align__(16) unsigned char shared[];
    T* const slices = reinterpret_cast<T*>(shared);
    constexpr int panels = (L::size + REGISTERS - 1) / REGISTERS;
#pragma unroll 1
    for (int tile = 0; tile < 3; ++tile, in += stride) {
        if constexpr (ALIGN == 0) {
            fetch_elements_early<L>(slices, [&](int col) { return RowSource<T>{in + col, col < valid_cols}; });
        } else {
            fetch_cols_early<L, ALIGN>(slices, [&](int) { return RowSource<T>{in, true}; }, valid_cols);
        }
        if (tile == 1) continue;
        await_early_cols();
        float x[L::col_size], y[L::col_size];
        early_cols<L>(x, slices);
#pragma unroll
        for (int panel = 0; panel < panels; ++panel) early_cols_of_panel<L, REGISTERS>(y, panel, slices);
#pragma unroll
        for (int r = 0; r < L::size; ++r) {
            const int at = (tile / 2 * L::rows + L::row(r)) * L::cols + L::col(r);
            whole[at] = x[L::col_slot(r)];
            by_panels[at] = y[L::col_slot(r)];
        }
    }
}

// Reductions, exchanges and staged stores by 256 threads of 384; the others are long gone.
__global__ void __launch_bounds__(384) part_of_block_kernel(const float* in, float* column_sums, float* transposed, bf16* out) {
    extern __shared__ __align__(1024) unsigned char shared[];
    if (threadIdx.x >= 256) return;
    using L = Mma16816<128, 64, 8, 1>;
    using To = Blocked<64, 128, 16, 16, 4>;
    using Staging = PanelTile<bf16, 128, 64>;
    float x[L::size], sums[L::col_size], y[To::size];
#pragma unroll
    for (int r = 0; r < L::size; ++r) x[r] = in[L::row(r) * L::cols + L::col(r)];
    reduce_rows<Sum, L>(x, sums, reinterpret_cast<float*>(shared));
    store_cols<L, float>(sums, [&](int col) { return RowTarget<float>{column_sums + col, true}; });
    exchange_transposed<L, To>(x, y, reinterpret_cast<float*>(shared));
    store_tile<To, 16, float>(y, [&](int row) { return RowTarget<float>{transposed + row * To::cols, true}; }, To::cols);
    tile_barrier();
    store_tile_staged<L, Staging, 256, 16>(
        x, reinterpret_cast<bf16*>(shared), [&](int row) { return RowTarget<bf16>{out + row * L::cols, true}; }, L::cols);
}

// Two tiles one after the other, so that the second is written where the first one was.
template <class L, class T, int ALIGN>
__global__ void __launch_bounds__(L::threads)
panel_store_kernel(const float* in, T* target, int stride, int valid_rows, int valid_cols) {
    using Panel = PanelTile<T, 64, 128 / static_cast<int>(sizeof(T))>;
    constexpr int panels = (L::cols + Panel::cols - 1) / Panel::cols, places = panels > 1 ? 2 : 1;
    extern __shared__ __align__(1024) unsigned char shared[];
    T* const staging = reinterpret_cast<T*>(shared);
#pragma unroll 1
    for (int tile = 0; tile < 2; ++tile, in += L::rows * L::cols, target += (L::rows + 1) * stride) {
        float x[L::size];
#pragma unroll
        for (int r = 0; r < L::size; ++r) x[r] = in[L::row(r) * L::cols + L::col(r)];
#pragma unroll
        for (int panel = 0; panel < panels; ++panel) {
            warpgroup_barrier();
            write_panel<L, Panel>(x, panel, own_panel<Panel, places>(staging, panel));
            warpgroup_barrier();
            store_panel<Panel, places, ALIGN, L::cols, 4>(
                staging, panel, [&](int row) { return RowTarget<T>{target + row * stride, row < valid_rows}; }, valid_cols);
        }
    }
}

// The same for memory that is contiguous along the tile's rows: column c begins at target + c * stride; or by TMA, whose maps begin at
// target and have both tiles, one behind the other: boxes of a panel, and of the last one.
template <class L, class T, int COLUMNS, int ALIGN, bool BY_TMA>
__global__ void __launch_bounds__(L::threads)
transposed_panel_store_kernel(const float* in, T* target, const __grid_constant__ TensorMap map,
                              const __grid_constant__ TensorMap last_map, int stride, int valid_rows, int valid_cols) {
    using Panel = PanelTile<T, COLUMNS, 64>;
    constexpr int panels = (L::cols + COLUMNS - 1) / COLUMNS, places = panels > 1 ? 2 : 1;
    extern __shared__ __align__(1024) unsigned char shared[];
    T* const staging = reinterpret_cast<T*>(shared);
#pragma unroll 1
    for (int tile = 0; tile < 2; ++tile, in += L::rows * L::cols, target += L::cols * stride) {
        float x[L::size];
#pragma unroll
        for (int r = 0; r < L::size; ++r) x[r] = in[L::row(r) * L::cols + L::col(r)];
#pragma unroll
        for (int panel = 0; panel < panels; ++panel) {
            T* const place = own_panel<Panel, places>(staging, panel);
            if constexpr (BY_TMA) await_panel<places>(panel);
            warpgroup_barrier();
            write_transposed_panel<L, Panel>(x, panel, place);
            if constexpr (BY_TMA) fence_proxy_async();
            warpgroup_barrier();
            if constexpr (BY_TMA) {
                if (sends_panels()) {
                    for (int p = 0; p < Panel::panels; ++p) {
                        tma_store(panel == panels - 1 ? last_map : map, place + p * Panel::panel_cols * COLUMNS, panel_row() + p * Panel::panel_cols,
                                  tile * L::cols + panel * COLUMNS);
                    }
                    tma_store_commit();
                }
            } else {
                store_transposed_panel<Panel, places, ALIGN, L::cols, 1>(
                    staging, panel, [&](int col) { return RowTarget<T>{target + col * stride, col < valid_cols}; }, valid_rows);
            }
        }
    }
    finish_panels();
}

// Panels of a tile that lies in memory column by column, as TMA would bring them, and what threads then have of it.
template <class L, class T, int COLUMNS>
__global__ void __launch_bounds__(L::threads) transposed_panel_read_kernel(const T* in, float* out) {
    using Panel = PanelTile<T, COLUMNS, L::rows>;
    extern __shared__ __align__(1024) unsigned char shared[];
    T* const place = reinterpret_cast<T*>(shared);
    float x[L::size];
#pragma unroll
    for (int panel = 0; panel < (L::cols + COLUMNS - 1) / COLUMNS; ++panel) {
        for (int at = static_cast<int>(threadIdx.x); at < COLUMNS * L::rows; at += L::threads) {
            const int col = panel * COLUMNS + at / L::rows, row = at % L::rows;
            place[Panel::offset(at / L::rows, row)] = col < L::cols ? in[col * L::rows + row] : T{};
        }
        __syncthreads();
        read_transposed_panel<L, Panel>(x, panel, place);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < L::size; ++r) out[L::row(r) * L::cols + L::col(r)] = x[r];
}

// ---- whole kernels: threads 0 … 255 compute, threads 256 … 383 fetch

// C (M x N) = A (M x K) · B (K x N), row-major: tiles of 128 x 256, K by 64.
struct Gemm {
    static constexpr int BM = 128, BN = 256, BK = 64, stages = 4, consumers = 256, producers = 128, rows_together = 8;
    template <class T>
    using TileA = PanelTile<T, BM, BK>;
    template <class T>
    using TileB = PanelTile<T, BK, BN>;
    template <class T>
    using TileC = PanelTile<T, BM, BN>;  // where the stages were
    static constexpr int a_bytes = BM * BK * 2, b_bytes = BK * BN * 2;
    static constexpr int shared_bytes = stages * (a_bytes + b_bytes) + 2 * stages * 8;
};

// Everything but how a stage is filled; `arrivals` at a full barrier.
template <class T, bool COPIED_BY_THREADS, class Fill>
__device__ __forceinline__ void gemm(T* c, int m, int n, int k, FastDiv by_cols, FastDiv by_last_group, int arrivals, unsigned char* shared, Fill fill) {
    using G = Gemm;
    using Acc = Mma16816<G::BM, G::BN, 8, 1>;
    T* const a_ring = reinterpret_cast<T*>(shared);
    T* const b_ring = reinterpret_cast<T*>(shared + G::stages * G::a_bytes);
    Barrier* const full = reinterpret_cast<Barrier*>(shared + G::stages * (G::a_bytes + G::b_bytes));
    Barrier* const empty = full + G::stages;
    const BlockPosition block = grouped<G::rows_together>(
        static_cast<int>(blockIdx.x), (m + G::BM - 1) / G::BM, (n + G::BN - 1) / G::BN, by_cols, by_last_group);
    const int row0 = block.row * G::BM, col0 = block.col * G::BN, steps = (k + G::BK - 1) / G::BK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < G::stages; ++s) {
            mbarrier_init(full + s, arrivals);
            mbarrier_init(empty + s, G::consumers / 32);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (warpgroup_index() == G::consumers / 128) {
        setmaxnreg_dec<40>();
        fill(row0, col0, steps, a_ring, b_ring, full, empty);
    } else {
        setmaxnreg_inc<232>();
        float acc[Acc::size];
        int stage = 0, phase = 0, last = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            mbarrier_wait(full + stage, phase);
            if constexpr (COPIED_BY_THREADS) fence_proxy_async();
            wgdot_issue<Acc, G::BK>(acc, PanelKMajor<T, G::BM, G::BK>{a_ring + stage * G::BM * G::BK},
                                    PanelMnMajor<T, G::BN, G::BK>{b_ring + stage * G::BK * G::BN}, step > 0);
            wgdot_wait<1>();
            if (step > 0 && lane_index() == 0) mbarrier_arrive(empty + last);
            last = stage;
            if (++stage == G::stages) stage = 0, phase ^= 1;
        }
        wgdot_wait<0>(acc);
        tile_barrier();
        store_tile_staged<Acc, typename G::template TileC<T>, G::consumers, 16>(
            acc, a_ring,
            [&](int row) { return RowTarget<T>{c + static_cast<long long>(row0 + row) * n + col0, row0 + row < m}; }, n - col0);
    }
}

template <class T>
__global__ void __launch_bounds__(384, 1)
gemm_copied_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m, int n, int k, FastDiv by_cols, FastDiv by_last_group) {
    using G = Gemm;
    extern __shared__ __align__(1024) unsigned char shared[];
    gemm<T, true>(c, m, n, k, by_cols, by_last_group, G::producers, shared,
                  [&](int row0, int col0, int steps, T* a_ring, T* b_ring, Barrier* full, Barrier* empty) {
        int stage = 0, phase = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            const int k0 = step * G::BK;
            mbarrier_wait(empty + stage, phase ^ 1);
            copy_rows_async<G::TileA<T>, G::producers, 16, 4, G::consumers>(
                a_ring + stage * G::BM * G::BK,
                [&](int row) { return RowSource<T>{a + static_cast<long long>(row0 + row) * k + k0, row0 + row < m}; }, k - k0);
            copy_rows_async<G::TileB<T>, G::producers, 16, 4, G::consumers>(
                b_ring + stage * G::BK * G::BN,
                [&](int row) { return RowSource<T>{b + static_cast<long long>(k0 + row) * n + col0, k0 + row < k}; }, n - col0);
            cp_async_mbarrier_arrive_noinc(full + stage);
            if (++stage == G::stages) stage = 0, phase ^= 1;
        }
        cp_async_commit();
        cp_async_wait<0>();
    });
}

template <class T>
__global__ void __launch_bounds__(384, 1)
gemm_tma_kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, T* __restrict__ c, int m, int n, int k, FastDiv by_cols, FastDiv by_last_group) {
    using G = Gemm;
    extern __shared__ __align__(1024) unsigned char shared[];
    gemm<T, false>(c, m, n, k, by_cols, by_last_group, 1, shared,
                   [&](int row0, int col0, int steps, T* a_ring, T* b_ring, Barrier* full, Barrier* empty) {
        if (warp_index() != G::consumers / 32 || !elect_one()) return;
        int stage = 0, phase = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            const int k0 = step * G::BK;
            mbarrier_wait(empty + stage, phase ^ 1);
            mbarrier_arrive_expect_tx(full + stage, G::a_bytes + G::b_bytes);
            T* const b_stage = b_ring + stage * G::BK * G::BN;
            tma_load(a_ring + stage * G::BM * G::BK, a, full + stage, k0, row0);
#pragma unroll
            for (int p = 0; p < G::TileB<T>::panels; ++p) tma_load(b_stage + p * G::BK * 64, b, full + stage, col0 + p * 64, k0);
            if (++stage == G::stages) stage = 0, phase ^= 1;
        }
    });
}

// O = softmax(scale Q Kᵀ) V for each head, all (heads, length, 128). A block has 128 rows of Q; keys come by 128. The product
// with V of one step is under way while the next step's scores are normalised.
struct Attention {
    static constexpr int BI = 128, BJ = 128, D = 128, stages = 2, consumers = 256;
    static constexpr int tile_bytes = 128 * 128 * 2;
    static constexpr int shared_bytes = (1 + 2 * stages) * tile_bytes + (1 + 4 * stages) * 8;
};

template <class T>
__device__ __forceinline__ void load_head_tile(T* shared, const TensorMap& map, Barrier* full, int row, int head) {
    mbarrier_arrive_expect_tx(full, Attention::tile_bytes);
#pragma unroll
    for (int p = 0; p < 2; ++p) tma_load(shared + p * 128 * 64, map, full, p * 64, row, head);
}

template <class T>
__global__ void __launch_bounds__(384, 1)
attention_kernel(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
                 T* __restrict__ o, int length, float scale_log2) {
    using P = Attention;
    using S = Mma16816<P::BI, P::BJ, 8, 1>;
    using O = Mma16816<P::BI, P::D, 8, 1>;
    extern __shared__ __align__(1024) unsigned char shared[];
    T* const q_tile = reinterpret_cast<T*>(shared);
    T* const k_ring = reinterpret_cast<T*>(shared + P::tile_bytes);
    T* const v_ring = reinterpret_cast<T*>(shared + (1 + P::stages) * P::tile_bytes);
    Barrier* const q_full = reinterpret_cast<Barrier*>(shared + (1 + 2 * P::stages) * P::tile_bytes);
    Barrier* const k_full = q_full + 1;
    Barrier* const k_empty = k_full + P::stages;
    Barrier* const v_full = k_empty + P::stages;
    Barrier* const v_empty = v_full + P::stages;
    const int i0 = static_cast<int>(blockIdx.x) * P::BI, head = static_cast<int>(blockIdx.y);
    const int steps = (length + P::BJ - 1) / P::BJ;
    if (threadIdx.x == 0) {
        mbarrier_init(q_full, 1);
        for (int s = 0; s < P::stages; ++s) {
            mbarrier_init(k_full + s, 1);
            mbarrier_init(v_full + s, 1);
            mbarrier_init(k_empty + s, P::consumers / 32);
            mbarrier_init(v_empty + s, P::consumers / 32);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (warpgroup_index() == P::consumers / 128) {
        setmaxnreg_dec<40>();
        if (warp_index() != P::consumers / 32 || !elect_one()) return;
        load_head_tile(q_tile, q, q_full, i0, head);
        int stage = 0, phase = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            mbarrier_wait(k_empty + stage, phase ^ 1);
            load_head_tile(k_ring + stage * P::BJ * P::D, k, k_full + stage, step * P::BJ, head);
            mbarrier_wait(v_empty + stage, phase ^ 1);
            load_head_tile(v_ring + stage * P::BJ * P::D, v, v_full + stage, step * P::BJ, head);
            if (++stage == P::stages) stage = 0, phase ^= 1;
        }
        return;
    }
    setmaxnreg_inc<232>();
    float s[S::size], acc[O::size], most[S::row_size], sum[S::row_size], fade[S::row_size];
#pragma unroll
    for (int r = 0; r < S::row_size; ++r) most[r] = -infinity(), sum[r] = 0.0f;
#pragma unroll
    for (int r = 0; r < O::size; ++r) acc[r] = 0.0f;

    const auto scores = [&](int stage) {
        wgdot_issue<S, P::D>(s, PanelKMajor<T, P::BI, P::D>{q_tile},
                             PanelKMajor<T, P::BJ, P::D>{k_ring + stage * P::BJ * P::D}, false);
    };
    // s becomes the weights, relative to the greatest score so far; `fade` is what earlier weights are worth now.
    const auto weigh = [&](int j0) {
        if (j0 + P::BJ > length) {
#pragma unroll
            for (int r = 0; r < S::size; ++r) {
                if (j0 + S::col(r) >= length) s[r] = -infinity();
            }
        }
        float high[S::row_size];
        reduce_cols<Max, S>(s, high, static_cast<float*>(nullptr));
#pragma unroll
        for (int r = 0; r < S::row_size; ++r) {
            high[r] = max(most[r], high[r] * scale_log2);
            fade[r] = exp2(most[r] - high[r]);
            most[r] = high[r];
            sum[r] *= fade[r];
        }
#pragma unroll
        for (int r = 0; r < S::size; ++r) {
            s[r] = exp2(fmaf(s[r], scale_log2, -most[S::row_slot(r)]));
            sum[S::row_slot(r)] += s[r];
        }
    };
    const auto weighted = [&](PackedA<T, P::BI, P::BJ>& p, int stage) {
        wgdot_issue<O, P::BJ>(acc, p, PanelMnMajor<T, P::D, P::BJ>{v_ring + stage * P::BJ * P::D});
    };
    const auto release = [&](Barrier* empty) {
        if (lane_index() == 0) mbarrier_arrive(empty);
    };

    mbarrier_wait(q_full, 0);
    mbarrier_wait(k_full, 0);
    scores(0);
    wgdot_wait<0>(s);
    release(k_empty);
    weigh(0);
    PackedA<T, P::BI, P::BJ> p(RegisterA<T, S>{s});
    int stage = 1, phase = 0, v_stage = 0, v_phase = 0;
#pragma unroll 1
    for (int step = 1; step < steps; ++step) {
        mbarrier_wait(k_full + stage, phase);
        scores(stage);
        mbarrier_wait(v_full + v_stage, v_phase);
        weighted(p, v_stage);
        wgdot_wait<1>(s);
        release(k_empty + stage);
        weigh(step * P::BJ);
        wgdot_wait<0>(acc, p);
        release(v_empty + v_stage);
        p = PackedA<T, P::BI, P::BJ>(RegisterA<T, S>{s});
#pragma unroll
        for (int r = 0; r < O::size; ++r) acc[r] *= fade[O::row_slot(r)];
        v_stage = stage, v_phase = phase;
        if (++stage == P::stages) stage = 0, phase ^= 1;
    }
    mbarrier_wait(v_full + v_stage, v_phase);
    weighted(p, v_stage);
    wgdot_wait<0>(acc, p);
#pragma unroll
    for (int r = 0; r < S::row_size; ++r) sum[r] = 1.0f / reduce_lanes<Sum, S::cols_lanes>(sum[r]);
#pragma unroll
    for (int r = 0; r < O::size; ++r) acc[r] *= sum[O::row_slot(r)];
    T* const o_rows = o + (static_cast<long long>(head) * length + i0) * P::D;
    store_tile_staged<O, PanelTile<T, P::BI, P::D>, P::consumers, 16>(
        acc, q_tile, [&](int row) { return RowTarget<T>{o_rows + row * P::D, i0 + row < length}; }, P::D);
}

}  // namespace tracea
