// Kernels of selftest.cu: each puts one header piece between plain loads and plain stores.
#pragma once

#include "tracea/kernel.cuh"
#include "tracea/realign.cuh"
#include "tracea/transpose.cuh"

namespace tracea {

// ---- layouts and shared tiles: their maps, as data

template <class L>
__global__ void layout_kernel(int* rows, int* cols, int* owns, int* slice_rows, int* slice_cols, int* owns_slice) {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int r = 0; r < L::size; ++r) {
        rows[thread * L::size + r] = L::row(r);
        cols[thread * L::size + r] = L::col(r);
    }
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) slice_rows[thread * L::row_size + s] = L::row_at(s);
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) slice_cols[thread * L::col_size + s] = L::col_at(s);
    owns[thread] = L::owns();
    owns_slice[2 * thread] = L::owns_row();
    owns_slice[2 * thread + 1] = L::owns_col();
}

template <class Tile>
__global__ void offset_kernel(int* out) {
    for (int i = static_cast<int>(threadIdx.x); i < Tile::rows * Tile::cols; i += static_cast<int>(blockDim.x)) {
        out[i] = Tile::offset(i / Tile::cols, i % Tile::cols);
    }
}

// ---- global → shared

template <class Tile>
__device__ void dump_shared(const typename Tile::element* shared, typename Tile::element* out) {
    for (int i = static_cast<int>(threadIdx.x); i < Tile::rows * Tile::cols; i += static_cast<int>(blockDim.x)) {
        out[i] = shared[Tile::offset(i / Tile::cols, i % Tile::cols)];
    }
}

template <class Tile>
__device__ void fill_shared(typename Tile::element* shared, const typename Tile::element* in) {
    for (int i = static_cast<int>(threadIdx.x); i < Tile::rows * Tile::cols; i += static_cast<int>(blockDim.x)) {
        shared[Tile::offset(i / Tile::cols, i % Tile::cols)] = in[i];
    }
}

__device__ inline void poison_shared(unsigned char* shared, int bytes) {
    for (int i = static_cast<int>(threadIdx.x); i < bytes; i += static_cast<int>(blockDim.x)) shared[i] = 0xa5;
    __syncthreads();
}

template <class Tile, int THREADS, int ALIGN, int BATCH>
__global__ void copy_rows_kernel(const typename Tile::element* source, int stride, int valid_rows, int valid_cols,
                                 typename Tile::element* out) {
    using T = typename Tile::element;
    extern __shared__ __align__(128) unsigned char shared[];
    T* const tile = reinterpret_cast<T*>(shared);
    poison_shared(shared, Tile::bytes);
    copy_rows_async<Tile, THREADS, ALIGN, BATCH>(
        tile, [&](int row) { return RowSource<T>{source + row * stride, row < valid_rows}; }, valid_cols);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    dump_shared<Tile>(tile, out);
}

// The tile is the transpose of the source.
template <class Tile, int THREADS>
__global__ void copy_elements_kernel(const typename Tile::element* source, int stride, int valid_rows, int valid_cols,
                                     typename Tile::element* out) {
    using T = typename Tile::element;
    extern __shared__ __align__(128) unsigned char shared[];
    T* const tile = reinterpret_cast<T*>(shared);
    poison_shared(shared, Tile::bytes);
    copy_elements<Tile, THREADS>(
        tile, [&](int row, int col) { return RowSource<T>{source + col * stride + row, row < valid_rows && col < valid_cols}; });
    __syncthreads();
    dump_shared<Tile>(tile, out);
}

// Element (row, col) is the source's at row + col * stride, along an axis of so many where row - 2 + 2 * col lies.
template <class Tile, int THREADS, int N>
__global__ void copy_gathered_kernel(const typename Tile::element* source, int stride, int size, int valid_rows, int valid_cols,
                                     typename Tile::element* out) {
    using T = typename Tile::element;
    extern __shared__ __align__(128) unsigned char shared[];
    T* const tile = reinterpret_cast<T*>(shared);
    poison_shared(shared, Tile::bytes);
    copy_gathered<Tile, THREADS, 4>(
        tile, source, AxisSizes<N>{size}, [&](int row) { return PlacePart<N>{row, {row - 2}, row < valid_rows}; },
        [&](int col) { return PlacePart<N>{static_cast<long long>(col) * stride, {2 * col}, col < valid_cols}; });
    __syncthreads();
    dump_shared<Tile>(tile, out);
}

// ---- registers ↔ global, plainly

template <class L, class T, class E>
__device__ __forceinline__ void read_plain(E (&x)[L::size], const T* in) {
#pragma unroll
    for (int r = 0; r < L::size; ++r) x[r] = to<E>(in[L::row(r) * L::cols + L::col(r)]);
}

template <class L, class T, class E>
__device__ __forceinline__ void write_plain(const E (&x)[L::size], T* out) {
    if (!L::owns()) return;
#pragma unroll
    for (int r = 0; r < L::size; ++r) out[L::row(r) * L::cols + L::col(r)] = to<T>(x[r]);
}

// ALIGN 0: by elements. `row_end` columns are there to be read, of which valid_cols count.
template <class L, int ALIGN, class T>
__global__ void load_tile_kernel(const T* source, int stride, int valid_rows, int valid_cols, int row_end, float* out) {
    float x[L::size];
    if constexpr (ALIGN == 0) {
        load_tile<L>(x, [&](int row, int col) {
            return RowSource<T>{source + row * stride + col, row < valid_rows && col < valid_cols};
        });
    } else {
        const auto rows = [&](int row) { return RowSource<T>{source + row * stride, row < valid_rows}; };
        load_tile_vec<L, ALIGN>(x, rows, {valid_cols, row_end});
    }
    write_plain<L>(x, out);
}

// Every thread's slots, replicas too.
template <class L, class T>
__global__ void load_slices_kernel(const T* source, int valid, float* out_rows, float* out_cols) {
    float m[L::row_size], b[L::col_size];
    load_rows<L>(m, [&](int row) { return RowSource<T>{source + row, row < valid}; });
    load_cols<L>(b, [&](int col) { return RowSource<T>{source + col, col < valid}; });
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) out_rows[static_cast<int>(threadIdx.x) * L::row_size + s] = m[s];
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) out_cols[static_cast<int>(threadIdx.x) * L::col_size + s] = b[s];
}

enum StoreBy { by_rows, by_elements, staged };

template <class L, StoreBy BY, int ALIGN, class T>
__global__ void store_tile_kernel(const float* in, T* target, int stride, int valid_rows, int valid_cols) {
    extern __shared__ __align__(128) unsigned char shared[];
    float x[L::size];
    read_plain<L>(x, in);
    const auto rows = [&](int row) { return RowTarget<T>{target + row * stride, row < valid_rows}; };
    if constexpr (BY == by_rows) {
        store_tile<L, ALIGN, T>(x, rows, valid_cols);
    } else if constexpr (BY == by_elements) {
        store_tile_elements<L, T>(x, [&](int row, int col) {
            return RowTarget<T>{target + row * stride + col, row < valid_rows && col < valid_cols};
        });
    } else {
        using Staging = SharedTile<T, L::rows, L::cols>;
        store_tile_staged<L, Staging, L::threads, ALIGN>(x, reinterpret_cast<stored<T>*>(shared), rows, valid_cols);
    }
}

template <class L, class T>
__global__ void store_slices_kernel(const float* in, T* rows, T* cols, int valid) {
    float m[L::row_size], b[L::col_size];
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) m[s] = in[L::row_at(s)];
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) b[s] = in[L::col_at(s)];
    store_rows<L, T>(m, [&](int row) { return RowTarget<T>{rows + row, row < valid}; });
    store_cols<L, T>(b, [&](int col) { return RowTarget<T>{cols + col, col < valid}; });
}

// ---- products. a is M x K, b is K x N, c is M x N, all row-major.

enum OperandPlace { k_major, mn_major, from_accumulator, from_fragment, from_float_fragment };

template <class Acc, int K, class T, OperandPlace A, OperandPlace B>
__global__ void dot_kernel(const stored<T>* a, const stored<T>* b, const float* c, float* out) {
    extern __shared__ __align__(128) unsigned char shared[];
    constexpr int M = Acc::rows, N = Acc::cols;
    stored<T>* const a_shared = reinterpret_cast<stored<T>*>(shared);
    stored<T>* const b_shared = a_shared + M * K;
    using TileA = SharedTile<T, M, K>;
    using TileAt = SharedTile<T, K, M>;
    using TileB = SharedTile<T, K, N>;
    using TileBt = SharedTile<T, N, K>;
    for (int i = static_cast<int>(threadIdx.x); i < M * K; i += static_cast<int>(blockDim.x)) {
        const int m = i / K, k = i % K;
        if constexpr (A == k_major) a_shared[TileA::offset(m, k)] = a[i];
        if constexpr (A == mn_major) a_shared[TileAt::offset(k, m)] = a[i];
    }
    for (int i = static_cast<int>(threadIdx.x); i < K * N; i += static_cast<int>(blockDim.x)) {
        const int k = i / N, n = i % N;
        if constexpr (B == k_major) b_shared[TileBt::offset(n, k)] = b[i];
        if constexpr (B == mn_major) b_shared[TileB::offset(k, n)] = b[i];
    }
    __syncthreads();
    float acc[Acc::size];
    read_plain<Acc>(acc, c);

    const auto with_a = [&](auto left) {
        if constexpr (B == k_major) {
            dot<Acc, K>(acc, left, SharedKMajor<T, N, K>{b_shared});
        } else if constexpr (B == mn_major) {
            dot<Acc, K>(acc, left, SharedMnMajor<T, N, K>{b_shared});
        } else {
            using L = MmaB<K, N, Acc::warps_m, Acc::warps_n>;
            if constexpr (B == from_fragment) {
                T y[L::size];
                read_plain<L>(y, b);
                dot<Acc, K>(acc, left, FragmentB<T, L>{y});
            } else {
                float y[L::size];
                read_plain<L>(y, b);
                dot<Acc, K>(acc, left, FragmentB<T, L, float>{y});
            }
        }
    };
    if constexpr (A == k_major) {
        with_a(SharedKMajor<T, M, K>{a_shared});
    } else if constexpr (A == mn_major) {
        with_a(SharedMnMajor<T, M, K>{a_shared});
    } else if constexpr (A == from_accumulator) {
        using L = Mma16816<M, K, Acc::warps_m, 1>;
        float x[L::size];
        read_plain<L>(x, a);
        with_a(RegisterA<T, L>{x});
    } else {
        using L = MmaA<M, K, Acc::warps_m, Acc::warps_n>;
        if constexpr (A == from_fragment) {
            T x[L::size];
            read_plain<L>(x, a);
            with_a(FragmentA<T, L>{x});
        } else {
            float x[L::size];
            read_plain<L>(x, a);
            with_a(FragmentA<T, L, float>{x});
        }
    }
    write_plain<Acc>(acc, out);
}

template <class Acc, int K, OperandPlace A, OperandPlace B>
__global__ void dot_fma_kernel(const float* a, const float* b, const float* c, float* out) {
    extern __shared__ __align__(128) unsigned char shared[];
    constexpr int M = Acc::rows, N = Acc::cols;
    float* const a_shared = reinterpret_cast<float*>(shared);
    float* const b_shared = a_shared + M * K;
    for (int i = static_cast<int>(threadIdx.x); i < M * K; i += static_cast<int>(blockDim.x)) {
        const int m = i / K, k = i % K;
        a_shared[A == k_major ? SharedTile<float, M, K>::offset(m, k) : SharedTile<float, K, M>::offset(k, m)] = a[i];
    }
    for (int i = static_cast<int>(threadIdx.x); i < K * N; i += static_cast<int>(blockDim.x)) {
        const int k = i / N, n = i % N;
        b_shared[B == k_major ? SharedTile<float, N, K>::offset(n, k) : SharedTile<float, K, N>::offset(k, n)] = b[i];
    }
    __syncthreads();
    float acc[Acc::size];
    read_plain<Acc>(acc, c);
    const auto with_a = [&](auto left) {
        if constexpr (B == k_major) {
            dot_fma<Acc, K>(acc, left, SharedKMajor<float, N, K>{b_shared});
        } else {
            dot_fma<Acc, K>(acc, left, SharedMnMajor<float, N, K>{b_shared});
        }
    };
    if constexpr (A == k_major) {
        with_a(SharedKMajor<float, M, K>{a_shared});
    } else {
        with_a(SharedMnMajor<float, M, K>{a_shared});
    }
    write_plain<Acc>(acc, out);
}

// ---- reductions: every thread's slots of both slices, and both totals. Three in a row, on the same scratch.

template <class Op, class L, class T>
__global__ void reduce_kernel(const T* in, T* out_rows, T* out_cols, T* totals) {
    __shared__ T scratch[reduce_scratch<L>() / 4 + 1];
    T x[L::size], m[L::row_size], b[L::col_size];
    read_plain<L>(x, in);
    const int thread = static_cast<int>(threadIdx.x);
    reduce_cols<Op, L>(x, m, scratch);
    reduce_rows<Op, L>(x, b, scratch);
    totals[2 * thread] = reduce_row_slice<Op, L>(m, scratch);
    totals[2 * thread + 1] = reduce_col_slice<Op, L>(b, scratch);
#pragma unroll
    for (int s = 0; s < L::row_size; ++s) out_rows[thread * L::row_size + s] = m[s];
#pragma unroll
    for (int s = 0; s < L::col_size; ++s) out_cols[thread * L::col_size + s] = b[s];
}

// ---- exchanges: a tile, its transpose and its slices, back to back on the same scratch

template <class From, class To, class T>
__global__ void exchange_kernel(const T* in, T* out, float* out_rows, float* out_cols) {
    extern __shared__ __align__(128) unsigned char shared[];
    T* const scratch = reinterpret_cast<T*>(shared);
    T x[From::size], y[To::size];
    read_plain<From>(x, in);
    exchange<From, To>(x, y, scratch);
    write_plain<To>(y, out);
    float m[From::row_size], b[From::col_size], to_m[To::row_size], to_b[To::col_size];
#pragma unroll
    for (int s = 0; s < From::row_size; ++s) m[s] = 1.0f + static_cast<float>(From::row_at(s));
#pragma unroll
    for (int s = 0; s < From::col_size; ++s) b[s] = 2.0f + static_cast<float>(From::col_at(s));
    float* const scalars = reinterpret_cast<float*>(shared);
    exchange_rows<From, To>(m, to_m, scalars);
    exchange_cols<From, To>(b, to_b, scalars);
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int s = 0; s < To::row_size; ++s) out_rows[thread * To::row_size + s] = to_m[s] - static_cast<float>(To::row_at(s));
#pragma unroll
    for (int s = 0; s < To::col_size; ++s) out_cols[thread * To::col_size + s] = to_b[s] - static_cast<float>(To::col_at(s));
}

// x is rows of `cols` elements, `x_pitch` apart; y gets its transpose, of rows `y_pitch` apart.
template <int ROWS, int COLS, int THREADS, int ALIGN_X, int ALIGN_Y, class T>
__global__ void copy_turned_kernel(const T* x, long long x_pitch, T* y, long long y_pitch, int rows, int cols) {
    extern __shared__ __align__(128) unsigned char shared[];
    const int across = (cols + COLS - 1) / COLS, i0 = static_cast<int>(blockIdx.x) / across * ROWS, j0 = static_cast<int>(blockIdx.x) % across * COLS;
    copy_turned<ROWS, COLS, THREADS, ALIGN_X, ALIGN_Y>(
        reinterpret_cast<T*>(shared), [&](int row) -> RowSource<T> { return {x + (i0 + row) * x_pitch + j0, i0 + row < rows}; },
        [&](int row) -> RowTarget<T> { return {y + (j0 + row) * y_pitch + i0, j0 + row < cols}; }, rows - i0, cols - j0, i0 == 0);
}

template <class From, class To, class T, class E>
__global__ void transpose_kernel(const E* in, T* out, float* out_rows, float* out_cols) {
    extern __shared__ __align__(128) unsigned char shared[];
    T* const scratch = reinterpret_cast<T*>(shared);
    E x[From::size];
    T y[To::size];
    read_plain<From>(x, in);
    exchange_transposed<From, To>(x, y, scratch);
    write_plain<To>(y, out);
    float m[From::row_size], b[From::col_size], to_m[To::row_size], to_b[To::col_size];
#pragma unroll
    for (int s = 0; s < From::row_size; ++s) m[s] = 1.0f + static_cast<float>(From::row_at(s));
#pragma unroll
    for (int s = 0; s < From::col_size; ++s) b[s] = 2.0f + static_cast<float>(From::col_at(s));
    float* const scalars = reinterpret_cast<float*>(shared);
    exchange_rows_to_cols<From, To>(m, to_b, scalars);
    exchange_cols_to_rows<From, To>(b, to_m, scalars);
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int s = 0; s < To::row_size; ++s) out_rows[thread * To::row_size + s] = to_m[s] - static_cast<float>(To::row_at(s));
#pragma unroll
    for (int s = 0; s < To::col_size; ++s) out_cols[thread * To::col_size + s] = to_b[s] - static_cast<float>(To::col_at(s));
}

// ---- copies laid anew

static __global__ void realign_kernel(const __grid_constant__ Realignment all) { realign<256>(all); }

static __global__ void transposition_kernel(const __grid_constant__ Transposition all) { transpose<256>(all); }

// ---- scalars

template <class F>
__global__ void map_kernel(F f, const float* x, const float* y, float* out, int n) {
    for (int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x); i < n; i += static_cast<int>(blockDim.x * gridDim.x)) {
        out[i] = f(x[i], y[i]);
    }
}

template <class To, class From>
__global__ void convert_kernel(const From* x, To* out, int n) {
    for (int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x); i < n; i += static_cast<int>(blockDim.x * gridDim.x)) {
        out[i] = to<To>(x[i]);
    }
}

// Pairs of neighbours through one register, and back.
template <class T>
__global__ void pack_kernel(const float* x, T* out, float* back, int n) {
    for (int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x); i < n / 2; i += static_cast<int>(blockDim.x * gridDim.x)) {
        const unsigned pair = pack2<T>(x[2 * i], x[2 * i + 1]);
        out[2 * i] = from_bits<T>(pair & 0xffffu);
        out[2 * i + 1] = from_bits<T>(pair >> 16);
        unpack2<T>(pair, back[2 * i], back[2 * i + 1]);
    }
}

template <int GROUP, int STRIP>
__global__ void grouped_kernel(int rows, int cols, FastDiv by_cols, FastDiv by_last_group, int* row, int* col) {
    const int n = rows * cols;
    for (int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x); i < n; i += static_cast<int>(blockDim.x * gridDim.x)) {
        const BlockPosition at = grouped<GROUP, STRIP>(i, rows, cols, by_cols, by_last_group);
        row[i] = at.row, col[i] = at.col;
    }
}

static __global__ void longest_first_kernel(int rows, FastDiv by_cols, FastDiv by_together, int* row, int* col) {
    const int n = rows * static_cast<int>(by_cols.divisor);
    for (int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x); i < n; i += static_cast<int>(blockDim.x * gridDim.x)) {
        const BlockPosition at = longest_first(i, rows, by_cols, by_together);
        row[i] = at.row, col[i] = at.col;
    }
}

static __global__ void fast_div_kernel(FastDiv d, const int* x, int* quotient, int* remainder, int n) {
    for (int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x); i < n; i += static_cast<int>(blockDim.x * gridDim.x)) {
        d.divmod(x[i], quotient[i], remainder[i]);
        if (d.div(x[i]) != quotient[i] || d.rem(x[i]) != remainder[i]) remainder[i] = -1;
    }
}

}  // namespace tracea
