// The device headers for Hopper against plain CPU code, on an H100 or H200. From the repository's root:
//
//     mkdir -p target/selftest && ln -sfn "$PWD/tracea-runtime/device" target/selftest/tracea
//     cd target/selftest
//     nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -I. -o hopper tracea/tests/hopper_selftest.cu -lcuda
//     ./hopper
//
// One line a check, then what whole kernels reach, then `N passed, M failed`; the exit status is 0 if none failed.
#include <cuda.h>

#include "tracea/tests/hopper_kernels.cuh"
#include "tracea/tests/host.cuh"

namespace {

// The worse of two errors; NaN is worst.
double worse(double worst, double error) {
    return std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
}

// ---- turns of a ring

// As divisions of a count give them.
template <class Turn, int STAGES>
void test_ring_turn(const string& name) {
    constexpr int turns = 5 * STAGES;
    Buffer<int> out(vector<int>(3 * turns));
    launch(ring_turn_kernel<Turn>, 1, 1, 0, turns, out.pointer);
    const vector<int> told = out.read();
    bool good = true;
    for (int n = 0; n < turns; ++n) {
        good &= told[3 * n] == n % STAGES && told[3 * n + 1] == n / STAGES % 2 && told[3 * n + 2] == (n + STAGES - 1) % STAGES;
    }
    check(name + " of " + std::to_string(STAGES), good);
}

template <int... STAGES>
void test_ring_turns() {
    (test_ring_turn<RingTurn<STAGES>, STAGES>("turns"), ...);
    (test_ring_turn<PackedRingTurn<STAGES>, STAGES>("turns in one register"), ...);
}

// ---- units of work

// Each is taken once by each warp of one block, and the count is 0 again for the next launch.
void test_unit_queue(int blocks, int units) {
    Buffer<unsigned> taken(vector<unsigned>{0});
    bool good = true;
    for (int launches = 0; launches < 3; ++launches) {
        Buffer<int> counts(vector<int>(3 * units));
        launch(unit_queue_kernel, blocks, 96, 0, taken.pointer, units, counts.pointer);
        for (const int count : counts.read()) good &= count == 1;
        good &= taken.read()[0] == 0;
    }
    check("units from a queue, " + std::to_string(units) + " for " + std::to_string(blocks) + " blocks", good);
}

// ---- tensor maps, with the 128-byte swizzle

template <class T>
constexpr CUtensorMapDataType data_type = same<T, f16>    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                          : same<T, bf16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                          : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;

// Sizes and box from the innermost axis out; strides, in elements, of all axes but the innermost.
template <class T>
TensorMap tensor_map(const T* tensor, const vector<uint64_t>& sizes, const vector<uint64_t>& strides, const vector<uint32_t>& box) {
    vector<cuuint64_t> dims(sizes.begin(), sizes.end()), byte_strides;
    for (const uint64_t stride : strides) byte_strides.push_back(stride * sizeof(T));
    byte_strides.push_back(0);
    const vector<cuuint32_t> boxes(box.begin(), box.end()), steps(box.size(), 1);
    CUtensorMap map;
    const CUresult status = cuTensorMapEncodeTiled(&map, data_type<T>, static_cast<cuuint32_t>(dims.size()), const_cast<T*>(tensor), dims.data(),
                                                   byte_strides.data(), boxes.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                                   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        std::printf("FAILED cuTensorMapEncodeTiled: %d\n", static_cast<int>(status));
        std::exit(2);
    }
    TensorMap out;
    static_assert(sizeof out == sizeof map, "one format");
    std::memcpy(&out, &map, sizeof map);
    return out;
}

// ---- products

// Of what wgmma sees in shared memory: tf32 operands lose their low bits there.
template <class T>
double seen(stored<T> x) {
    if constexpr (same<T, tf32>) {
        uint32_t bits;
        std::memcpy(&bits, &x, 4);
        bits &= 0xffffe000u;
        std::memcpy(&x, &bits, 4);
    }
    return value(x);
}

// a(i, k), b(k, j) → the greatest error, in units of the sum of the products' magnitudes.
template <class A, class B>
double worst_error(const vector<float>& c, int m, int n, int k, double initial, A a, B b) {
    double worst = 0;
    for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
            double sum = initial, magnitude = 1;
            for (int l = 0; l < k; ++l) {
                const double product = a(i, l) * b(l, j);
                sum += product, magnitude += std::fabs(product);
            }
            worst = worse(worst, std::fabs(c[static_cast<size_t>(i) * n + j] - sum) / magnitude);
        }
    }
    return worst;
}

constexpr double most_error = 1e-5;

template <class T, int WARPGROUPS, int N, int K, bool A_MN, bool B_MN>
void test_wgdot(bool accumulate) {
    constexpr int M = 64 * WARPGROUPS, columns = B_MN ? (N + 63) / 64 * 64 : N;
    const vector<stored<T>> a = random_values<stored<T>>(M * K), b = random_values<stored<T>>(columns * K);
    Buffer<float> c(M * N);
    launch(wgdot_kernel<T, WARPGROUPS, N, K, A_MN, B_MN>, 1, 128 * WARPGROUPS, (M + columns) * K * static_cast<int>(sizeof(stored<T>)),
           Buffer<stored<T>>(a).pointer, Buffer<stored<T>>(b).pointer, c.pointer, accumulate);
    const double error = worst_error(
        c.read(), M, N, K, accumulate ? 1 : 0, [&](int i, int k) { return seen<T>(A_MN ? a[k * M + i] : a[i * K + k]); },
        [&](int k, int j) { return seen<T>(B_MN ? b[k * columns + j] : b[j * K + k]); });
    check("wgdot " + name_of<T>() + " " + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K) + (A_MN ? ", A MN-major" : "") +
              (B_MN ? ", B MN-major" : "") + (accumulate ? ", accumulating" : ""),
          error < most_error, number(error));
}

template <class T, int BLOCKS, int N, int K, bool B_MN>
void test_wgdot_beside() {
    constexpr int M = 64 * BLOCKS;
    const vector<stored<T>> a = random_values<stored<T>>(M * K), b = random_values<stored<T>>(2 * N * K);
    Buffer<float> c(M * 2 * N);
    launch(wgdot_beside_kernel<T, BLOCKS, N, K, B_MN>, 1, 128, (M + 2 * N) * K * static_cast<int>(sizeof(stored<T>)),
           Buffer<stored<T>>(a).pointer, Buffer<stored<T>>(b).pointer, c.pointer);
    const double error = worst_error(
        c.read(), M, 2 * N, K, 1, [&](int i, int k) { return seen<T>(a[i * K + k]); },
        [&](int k, int j) { return seen<T>(b[j / N * N * K + (B_MN ? k * N + j % N : j % N * K + k)]); });
    check("wgdot beside " + name_of<T>() + " " + std::to_string(M) + "x2x" + std::to_string(N) + "x" + std::to_string(K) +
              (B_MN ? ", B MN-major" : ""),
          error < most_error, number(error));
}

template <class T, int... N>
void test_wgdots() {
    test_wgdot_beside<T, 1, 128, 128 / sizeof(stored<T>), false>();
    test_wgdot_beside<T, 2, 96, 128 / sizeof(stored<T>), false>();
    if constexpr (!same<T, tf32>) {
        test_wgdot_beside<T, 1, 64, 128, true>();
        test_wgdot_beside<T, 2, 64, 64, true>();
    }
    (test_wgdot<T, 1, N, 64, false, false>(false), ...);
    if constexpr (!same<T, tf32>) {
        (test_wgdot<T, 1, N, 64, false, true>(false), ...);
        (test_wgdot<T, 1, N, 64, true, false>(false), ...);
        (test_wgdot<T, 1, N, 64, true, true>(false), ...);
        test_wgdot<T, 2, 192, 128, true, true>(true);
        test_wgdot<T, 2, 192, 144, true, true>(true);
    } else {
        // Threads read the fragments of A.
        (test_wgdot<T, 1, N, 32, true, false>(false), ...);
        test_wgdot<T, 2, 256, 32, true, false>(true);
        test_wgdot<T, 2, 128, 96, true, false>(true);
    }
    test_wgdot<T, 2, 256, 128, false, false>(true);
    test_wgdot<T, 1, 320, 64, false, false>(true);
}

template <class T, int WARPGROUPS, int N, int K, bool B_MN, InRegisters FORM>
void test_wgdot_registers(const char* form) {
    constexpr int M = 64 * WARPGROUPS, columns = B_MN ? (N + 63) / 64 * 64 : N;
    const vector<float> a = random_values<float>(M * K);
    const vector<stored<T>> b = random_values<stored<T>>(columns * K);
    Buffer<float> c(M * N);
    launch(wgdot_registers_kernel<T, WARPGROUPS, N, K, B_MN, FORM>, 1, 128 * WARPGROUPS, columns * K * static_cast<int>(sizeof(stored<T>)),
           Buffer<float>(a).pointer, Buffer<stored<T>>(b).pointer, c.pointer);
    const double error = worst_error(
        c.read(), M, N, K, 0, [&](int i, int k) { return round_to<T>(a[i * K + k]); },
        [&](int k, int j) { return seen<T>(B_MN ? b[k * columns + j] : b[j * K + k]); });
    check("wgdot " + name_of<T>() + " " + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K) + (B_MN ? ", B MN-major" : "") +
              ", A as " + form,
          error < most_error, number(error));
}

template <class T, bool B_MN>
void test_wgdots_registers() {
    test_wgdot_registers<T, 1, 64, 64, B_MN, InRegisters::accumulators>("accumulators");
    test_wgdot_registers<T, 2, 128, 64, B_MN, InRegisters::accumulators>("accumulators");
    test_wgdot_registers<T, 2, 192, 32 * (sizeof(stored<T>) == 2 ? 2 : 1), B_MN, InRegisters::fragments>("fragments");
    test_wgdot_registers<T, 2, 64, 128, B_MN, InRegisters::packed>("packed");
}

// ---- copies

template <class T>
struct Sheet {
    int rows, cols, stride;
    vector<T> host;
    Buffer<T> device;

    Sheet(int rows, int cols, int stride)
        : rows(rows), cols(cols), stride(stride), host(random_values<T>(static_cast<size_t>(rows) * stride)), device(host) {}
    TensorMap map(int rank, const T* tensor, int box_cols, int box_rows) const {
        vector<uint64_t> sizes = {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows), 1, 1, 1}, strides;
        vector<uint32_t> box = {static_cast<uint32_t>(box_cols), static_cast<uint32_t>(box_rows), 1, 1, 1};
        for (int axis = 1; axis < rank; ++axis) strides.push_back(static_cast<uint64_t>(axis == 1 ? stride : stride * rows));
        sizes.resize(rank), box.resize(rank);
        return tensor_map(tensor, sizes, strides, box);
    }
};

// What a tile at (row, col) should be in shared memory.
template <class Tile, class T>
vector<unsigned char> expected_panels(const Sheet<T>& sheet, int row, int col) {
    vector<T> tile(Tile::rows * Tile::cols);
    for (int r = 0; r < Tile::rows; ++r) {
        for (int c = 0; c < Tile::cols; ++c) {
            const int panel = c * static_cast<int>(sizeof(T)) / 128, byte = c * static_cast<int>(sizeof(T)) % 128;
            const int place = panel * Tile::rows * 128 + r * 128 + ((byte / 16) ^ (r % 8)) * 16 + byte % 16;
            if (row + r < sheet.rows && col + c < sheet.cols) tile[place / sizeof(T)] = sheet.host[(row + r) * sheet.stride + col + c];
        }
    }
    vector<unsigned char> bytes(Tile::bytes);
    std::memcpy(bytes.data(), tile.data(), bytes.size());
    return bytes;
}

template <class Tile, int ALIGN, class T>
bool copied_as(const vector<unsigned char>& expected, const Sheet<T>& sheet, int row, int col) {
    Buffer<unsigned char> out(Tile::bytes);
    launch(panel_copy_kernel<Tile, ALIGN>, 1, 256, Tile::bytes + 8, sheet.device.pointer + row * sheet.stride + col, sheet.stride, sheet.rows - row,
           sheet.cols - col, out.pointer);
    return out.read() == expected;
}

// Rank 1 moves the first row of the first panel alone.
template <class Tile, int RANK, class T>
bool moved_by_tma(vector<unsigned char> expected, const Sheet<T>& sheet, int row, int col) {
    Buffer<unsigned char> out(Tile::bytes);
    Buffer<T> target(sheet.host.size());
    const vector<T> before = target.read();
    launch(tma_kernel<Tile, RANK>, 1, 128, Tile::bytes + 8, sheet.map(RANK, sheet.device.pointer, Tile::panel_cols, Tile::rows),
           sheet.map(RANK, target.pointer, Tile::panel_cols, Tile::rows), row, col, out.pointer);
    vector<unsigned char> bytes = out.read();
    if (RANK == 1) bytes.resize(128), expected.resize(128);
    const vector<T> after = target.read();
    bool stored_right = true;
    for (int r = 0; r < sheet.rows; ++r) {
        for (int c = 0; c < sheet.stride; ++c) {
            const int rows = RANK == 1 ? 1 : Tile::rows, cols = RANK == 1 ? Tile::panel_cols : Tile::cols;
            const bool within = r >= row && r < row + rows && c >= col && c < col + cols && c < sheet.cols;
            const size_t i = static_cast<size_t>(r) * sheet.stride + c;
            stored_right &= equal_bits(after[i], within ? sheet.host[i] : before[i]);
        }
    }
    return bytes == expected && stored_right;
}

template <class Tile>
void test_panels() {
    using T = typename Tile::element;
    const string name = " " + name_of<typename Tile::type>() + " " + std::to_string(Tile::rows) + "x" + std::to_string(Tile::cols);
    bool wide = true, narrow = true, elements = true, loads = true, ranks = true;
    for (const int rows : {Tile::rows * 2, Tile::rows + 3}) {
        for (const int cols : {Tile::cols * 2, Tile::cols + 24}) {
            const Sheet<T> sheet(rows, cols, cols + 8);
            for (const int row : {0, 8, Tile::rows}) {
                for (const int col : {0, 16, Tile::cols}) {
                    const auto expected = expected_panels<Tile>(sheet, row, col);
                    wide &= copied_as<Tile, 16>(expected, sheet, row, col);
                    narrow &= copied_as<Tile, 4>(expected, sheet, row, col);
                    elements &= copied_as<Tile, 0>(expected, sheet, row, col);
                    loads &= moved_by_tma<Tile, 2>(expected, sheet, row, col);
                    ranks &= moved_by_tma<Tile, 3>(expected, sheet, row, col) && moved_by_tma<Tile, 4>(expected, sheet, row, col) &&
                             moved_by_tma<Tile, 5>(expected, sheet, row, col);
                }
            }
        }
    }
    check("panels by cp.async, 16 bytes," + name, wide);
    check("panels by cp.async, 4 bytes," + name, narrow);
    check("panels by elements," + name, elements);
    check("panels by TMA, and back," + name, loads);
    check("panels by TMA of rank 3, 4, 5, and back," + name, ranks);
}

void test_tma_rank_1() {
    using Tile = PanelTile<f16, 8, 64>;
    const Sheet<f16> sheet(1, 512, 512);
    check("TMA of rank 1, and back", moved_by_tma<Tile, 1>(expected_panels<Tile>(sheet, 0, 64), sheet, 0, 64));
}

// Rows at part * step + tap * dilation - pad along an axis of an image.
struct Axis {
    int extent, taps, step, pad, dilation;
    int parts() const { return (extent + 2 * pad - (taps - 1) * dilation - 1) / step + 1; }
};

// Axes from the innermost; rows from `first` on, seen at one tap of each axis.
template <class Tile, int RANK>
bool walked_by_tma(const vector<Axis>& axes, int first, const vector<int>& taps) {
    using T = typename Tile::element;
    constexpr int spatial = RANK - 2, images = 2, channels = Tile::cols - 8;
    vector<uint64_t> sizes = {channels}, strides = {Tile::cols};
    for (const Axis& axis : axes) {
        sizes.push_back(static_cast<uint64_t>(axis.extent));
        strides.push_back(strides.back() * static_cast<uint64_t>(axis.extent));
    }
    sizes.push_back(images);
    const vector<T> host = random_values<T>(strides.back() * images);
    const Buffer<T> device(host);

    vector<cuuint64_t> byte_strides;
    for (const uint64_t stride : strides) byte_strides.push_back(stride * sizeof(T));
    vector<int> lower, upper;
    vector<cuuint32_t> steps = {1};
    for (const Axis& axis : axes) {
        lower.push_back(-axis.pad);
        upper.push_back(-axis.pad + (axis.parts() - 1) * axis.step - (axis.extent - 1));
        steps.push_back(static_cast<cuuint32_t>(axis.step));
    }
    steps.push_back(1);
    CUtensorMap encoded;
    const vector<cuuint64_t> dims(sizes.begin(), sizes.end());
    const CUresult status = cuTensorMapEncodeIm2col(&encoded, data_type<typename Tile::type>, RANK, device.pointer, dims.data(), byte_strides.data(),
                                                    lower.data(), upper.data(), Tile::panel_cols, Tile::rows, steps.data(),
                                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) return false;
    TensorMap map;
    std::memcpy(&map, &encoded, sizeof map);

    const auto place = [&](int row) {
        WalkStart at{};
        for (int axis = 0; axis < spatial; ++axis) {
            at.at[axis] = row % axes[axis].parts() * axes[axis].step - axes[axis].pad;
            at.offset[axis] = static_cast<unsigned short>(taps[axis] * axes[axis].dilation);
            row /= axes[axis].parts();
        }
        at.image = row;
        return at;
    };
    vector<T> expected(Tile::rows * Tile::cols);
    for (int row = 0; row < Tile::rows; ++row) {
        const WalkStart at = place(first + row);
        bool inside = at.image < images;
        uint64_t pixel = strides[spatial] * static_cast<uint64_t>(at.image);
        for (int axis = 0; axis < spatial; ++axis) {
            const int coordinate = at.at[axis] + at.offset[axis];
            inside &= coordinate >= 0 && coordinate < axes[axis].extent;
            pixel += strides[axis] * static_cast<uint64_t>(coordinate);
        }
        for (int col = 0; inside && col < channels; ++col) {
            const int panel = col / Tile::panel_cols, byte = col % Tile::panel_cols * static_cast<int>(sizeof(T));
            const int target = panel * Tile::panel_bytes + row * 128 + ((byte / 16) ^ (row % 8)) * 16 + byte % 16;
            expected[target / sizeof(T)] = host[pixel + col];
        }
    }
    Buffer<unsigned char> out(Tile::bytes);
    launch(im2col_kernel<Tile, RANK>, 1, 128, Tile::bytes + 8, map, place(first), out.pointer);
    const vector<unsigned char> bytes = out.read();
    return std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
}

template <class Tile, int RANK>
void test_walk(const string& name, const vector<Axis>& axes) {
    int rows = 2;
    vector<int> last, mixed;
    for (const Axis& axis : axes) {
        rows *= axis.parts();
        last.push_back(axis.taps - 1);
        mixed.push_back(mixed.size() % 2 ? 0 : axis.taps - 1);
    }
    bool good = true;
    for (const int first : {0, 1, rows / 2 - 3, rows - 1}) {
        for (const vector<int>& taps : {vector<int>(axes.size()), mixed, last}) good &= walked_by_tma<Tile, RANK>(axes, first, taps);
    }
    check("im2col, " + name, good);
}

void test_walks() {
    using Tile = PanelTile<f16, 64, 128>;
    test_walk<Tile, 3>("a line", {{50, 3, 1, 1, 1}});
    test_walk<Tile, 3>("a line, step 4, dilated by 100", {{500, 3, 4, 100, 100}});
    test_walk<Tile, 4>("1x1", {{9, 1, 1, 0, 1}, {7, 1, 1, 0, 1}});
    test_walk<Tile, 4>("3x3, padded", {{9, 3, 1, 1, 1}, {14, 3, 1, 1, 1}});
    test_walk<Tile, 4>("3x5, padded more than needed, dilated", {{20, 3, 1, 3, 2}, {11, 5, 1, 4, 1}});
    test_walk<Tile, 4>("7x7, step 2", {{15, 7, 2, 3, 1}, {16, 7, 2, 3, 1}});
    test_walk<Tile, 4>("3x3, steps 1 and 3, cut", {{15, 3, 1, -1, 1}, {16, 3, 3, 0, 1}});
    test_walk<PanelTile<bf16, 128, 64>, 4>("one panel", {{9, 3, 1, 1, 1}, {14, 3, 1, 1, 1}});
    test_walk<PanelTile<float, 64, 64>, 4>("f32", {{9, 3, 1, 1, 1}, {14, 3, 2, 1, 1}});
    test_walk<Tile, 5>("3x3x3", {{6, 3, 1, 1, 1}, {5, 3, 2, 1, 1}, {4, 3, 1, 0, 1}});
}

template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, size_t shared_bytes, unsigned size,
                     Arguments... arguments) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = size, cluster.val.clusterDim.y = 1, cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks), config.blockDim = dim3(threads), config.dynamicSmemBytes = shared_bytes;
    config.attrs = &cluster, config.numAttrs = 1;
    require(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "launch of clusters");
    require(cudaDeviceSynchronize(), "kernel");
}

void test_multicast() {
    using Tile = PanelTile<bf16, 64, 256>;
    const Sheet<bf16> sheet(50, 256, 256);
    const TensorMap map = sheet.map(2, sheet.device.pointer, Tile::panel_cols, Tile::rows);
    Buffer<unsigned char> out(2 * Tile::bytes);
    launch_clusters(multicast_kernel<Tile>, 2, 128, Tile::bytes + 16, 2, map, out.pointer);
    vector<unsigned char> expected = expected_panels<Tile>(sheet, 0, 0);
    expected.insert(expected.end(), expected.begin(), expected.begin() + Tile::bytes);
    check("multicast in a cluster of two", out.read() == expected);
}

void test_part_of_block() {
    const vector<float> in = random_values<float>(128 * 64);
    Buffer<float> sums(64), transposed(128 * 64);
    Buffer<bf16> out(128 * 64);
    launch(part_of_block_kernel, 1, 384, 64 * 1024, Buffer<float>(in).pointer, sums.pointer, transposed.pointer, out.pointer);
    const vector<float> s = sums.read(), t = transposed.read();
    const vector<bf16> o = out.read();
    bool good = true;
    for (int c = 0; c < 64; ++c) {
        double sum = 0;
        for (int r = 0; r < 128; ++r) {
            const float x = in[r * 64 + c];
            sum += x;
            good &= t[c * 128 + r] == x && equal_bits(o[r * 64 + c], make<bf16>(x));
        }
        good &= std::fabs(s[c] - sum) < 1e-4;
    }
    check("reduction, exchange and staged store by part of a block", good);
}

// ---- panels by threads

// The rest of the memory keeps what it had.
template <class L, class T, int ALIGN>
void test_panel_store(int first, int stride, int valid_rows, int valid_cols) {
    const vector<float> in = random_values<float>(2 * L::rows * L::cols);
    vector<T> expected = random_values<T>(static_cast<size_t>(first + 2 * (L::rows + 1) * stride + L::cols), 2, 3);
    Buffer<T> out(expected);
    constexpr int panels = L::cols * static_cast<int>(sizeof(T)) > 128 ? 2 : 1;
    launch(panel_store_kernel<L, T, ALIGN>, 1, L::threads, L::threads / 128 * panels * 64 * 128, Buffer<float>(in).pointer, out.pointer + first,
           stride, valid_rows, valid_cols);
    for (int tile = 0; tile < 2; ++tile) {
        for (int row = 0; row < std::min<int>(valid_rows, L::rows); ++row) {
            for (int col = 0; col < std::min<int>(valid_cols, L::cols); ++col) {
                expected[first + (tile * (L::rows + 1) + row) * stride + col] = make<T>(in[(tile * L::rows + row) * L::cols + col]);
            }
        }
    }
    const vector<T> result = out.read();
    bool good = true;
    for (size_t i = 0; i < result.size(); ++i) good &= equal_bits(result[i], expected[i]);
    check("panels " + name_of<T>() + " " + std::to_string(L::rows) + "x" + std::to_string(L::cols) + " by threads, align " + std::to_string(ALIGN) +
              ", from element " + std::to_string(first) + ", " + std::to_string(valid_rows) + " rows, " + std::to_string(valid_cols) + " columns",
          good);
}

template <class L, class T>
void test_panel_stores() {
    constexpr int bytes = static_cast<int>(sizeof(T)), panel = 128 / bytes;
    for (const int cols : {L::cols, L::cols + 5, L::cols - 1, panel, panel + 3, panel - 7, 17, 9, 3, 1}) {
        for (const int first : {0, 1, 2, 3, 7, 8, 13}) test_panel_store<L, T, bytes>(first, L::cols + 7, L::rows - 3, cols);
        test_panel_store<L, T, 8>(8 / bytes * 3, L::cols + 24 / bytes, L::rows + 5, cols);
        test_panel_store<L, T, 4>(4 / bytes * 5, L::cols + 12 / bytes, L::rows, cols);
        test_panel_store<L, T, 16>(16 / bytes, L::cols + 32 / bytes, L::rows, cols);
    }
}

// All columns of both tiles lie one behind another, `stride` apart; the rest of the memory keeps what it had. One map covers both tiles,
// so that TMA writes whole rows of columns.
template <class L, class T, int COLUMNS, int ALIGN, bool BY_TMA>
void test_transposed_panel_store(int first, int stride, int valid_rows, int valid_cols) {
    if (BY_TMA) valid_cols = L::cols;
    const vector<float> in = random_values<float>(2 * L::rows * L::cols);
    vector<T> expected = random_values<T>(static_cast<size_t>(first + (2 * L::cols + 1) * stride + L::rows), 2, 3);
    Buffer<T> out(expected);
    T* const target = out.pointer + first;
    const auto map_of = [&](unsigned columns) {
        return BY_TMA ? tensor_map(static_cast<const T*>(target), {static_cast<uint64_t>(valid_rows), 2ull * L::cols},
                                   {static_cast<uint64_t>(stride)}, {128 / sizeof(T), columns})
                      : TensorMap{};
    };
    constexpr int last = L::cols % COLUMNS > 0 ? L::cols % COLUMNS : COLUMNS;
    constexpr int places = L::cols > COLUMNS ? 2 : 1;
    launch(transposed_panel_store_kernel<L, T, COLUMNS, ALIGN, BY_TMA>, 1, L::threads,
           L::threads / 128 * places * 64 * COLUMNS * static_cast<int>(sizeof(T)), Buffer<float>(in).pointer, target, map_of(COLUMNS), map_of(last),
           stride, valid_rows, valid_cols);
    for (int tile = 0; tile < 2; ++tile) {
        for (int row = 0; row < std::min<int>(valid_rows, L::rows); ++row) {
            for (int col = 0; col < std::min<int>(valid_cols, L::cols); ++col) {
                expected[first + (tile * L::cols + col) * stride + row] = make<T>(in[(tile * L::rows + row) * L::cols + col]);
            }
        }
    }
    const vector<T> result = out.read();
    bool good = true;
    for (size_t i = 0; i < result.size(); ++i) good &= equal_bits(result[i], expected[i]);
    check("transposed panels " + name_of<T>() + " " + std::to_string(L::rows) + "x" + std::to_string(L::cols) + " by " +
              (BY_TMA ? string("TMA") : "threads, align " + std::to_string(ALIGN)) + ", from element " + std::to_string(first) + ", " +
              std::to_string(valid_rows) + " rows, " + std::to_string(valid_cols) + " columns",
          good);
}

template <class L, class T, int COLUMNS>
void test_transposed_panel_stores() {
    constexpr int bytes = static_cast<int>(sizeof(T));
    for (const int rows : {L::rows, L::rows + 5, L::rows - 1, 65, 64, 63, 17, 9, 3, 1}) {
        for (const int first : {0, 1, 2, 3, 7, 8, 13}) test_transposed_panel_store<L, T, COLUMNS, bytes, false>(first, L::rows + 7, rows, L::cols - 3);
        test_transposed_panel_store<L, T, COLUMNS, 8, false>(8 / bytes * 3, L::rows + 24 / bytes, rows, L::cols + 5);
        test_transposed_panel_store<L, T, COLUMNS, 4, false>(4 / bytes * 5, L::rows + 12 / bytes, rows, 1);
        test_transposed_panel_store<L, T, COLUMNS, 16, false>(16 / bytes, L::rows + 32 / bytes, rows, L::cols);
        // TMA writes whole chunks.
        const int chunk = 16 / bytes, whole = (rows + chunk - 1) / chunk * chunk;
        test_transposed_panel_store<L, T, COLUMNS, 16, true>(chunk, L::rows + 2 * chunk, whole, L::cols);
    }
}

template <class L, class T, int COLUMNS>
void test_transposed_panel_read() {
    const vector<T> in = random_values<T>(L::rows * L::cols);
    Buffer<float> out(vector<float>(L::rows * L::cols, -1.0f));
    launch(transposed_panel_read_kernel<L, T, COLUMNS>, 1, L::threads, COLUMNS * L::rows * static_cast<int>(sizeof(T)), Buffer<T>(in).pointer,
           out.pointer);
    const vector<float> result = out.read();
    bool good = true;
    for (int row = 0; row < L::rows; ++row) {
        for (int col = 0; col < L::cols; ++col) good &= equal_bits(make<T>(result[row * L::cols + col]), in[col * L::rows + row]);
    }
    check("read transposed panels " + name_of<T>() + " " + std::to_string(L::rows) + "x" + std::to_string(L::cols), good);
}

// ---- slices that come early

template <class L, class T, int REGISTERS, int ALIGN>
void test_early_cols(int first, int stride, int valid_cols) {
    const vector<T> in = random_values<T>(static_cast<size_t>(first + 2 * stride + L::cols));
    const vector<float> unwritten(2 * L::rows * L::cols, -1.0f);
    Buffer<float> whole(unwritten), by_panels(unwritten);
    launch(early_cols_kernel<L, T, REGISTERS, ALIGN>, 1, L::threads, L::threads / 128 * ((L::cols + 31) / 32 * 32) * static_cast<int>(sizeof(T)),
           Buffer<T>(in).pointer + first, stride, valid_cols, whole.pointer, by_panels.pointer);
    const vector<float> results[] = {whole.read(), by_panels.read()};
    bool good = true;
    for (size_t at = 0; at < unwritten.size(); ++at) {
        const int col = static_cast<int>(at) % L::cols, tile = static_cast<int>(at) / (L::rows * L::cols);
        const float expected = col < valid_cols ? value(in[first + 2 * tile * stride + col]) : 0.0f;
        for (const vector<float>& result : results) good &= result[at] == expected;
    }
    check("early columns " + name_of<T>() + " of " + std::to_string(L::rows) + "x" + std::to_string(L::cols) + ", align " + std::to_string(ALIGN) +
              ", from element " + std::to_string(first) + ", " + std::to_string(valid_cols) + " columns",
          good);
}

template <class L, class T, int REGISTERS>
void test_early_cols() {
    constexpr int bytes = static_cast<int>(sizeof(T));
    for (const int cols : {L::cols, L::cols + 5, L::cols - 1, L::cols - 6, 17, 1}) {
        test_early_cols<L, T, REGISTERS, bytes>(1, L::cols + 7, cols);
        if constexpr (bytes >= 4) test_early_cols<L, T, REGISTERS, 0>(1, L::cols + 7, cols);
        test_early_cols<L, T, REGISTERS, 4>(4 / bytes * 3, L::cols + 12 / bytes, cols);
        test_early_cols<L, T, REGISTERS, 16>(16 / bytes, L::cols + 32 / bytes, cols);
    }
}

// ---- whole kernels

// Does not wait for the kernel.
template <class... Parameters, class... Arguments>
void enqueue(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes, Arguments... arguments) {
    require(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
            "shared memory");
    kernel<<<grid, threads, shared_bytes>>>(static_cast<Parameters>(arguments)...);
    require(cudaGetLastError(), "launch");
}


template <class T>
struct GemmProblem {
    int m, n, k;
    Buffer<T> a, b, c;
    TensorMap a_map, b_map;

    GemmProblem(int m, int n, int k, const vector<T>& a_host, const vector<T>& b_host)
        : m(m), n(n), k(k), a(a_host), b(b_host), c(static_cast<size_t>(m) * n) {
        const uint64_t um = m, un = n, uk = k;
        a_map = tensor_map(static_cast<const T*>(a.pointer), {uk, um}, {uk}, {64, Gemm::BM});
        b_map = tensor_map(static_cast<const T*>(b.pointer), {un, uk}, {un}, {64, Gemm::BK});
    }
    void run(bool tma) const {
        const int rows = (m + Gemm::BM - 1) / Gemm::BM, cols = (n + Gemm::BN - 1) / Gemm::BN, blocks = rows * cols;
        const FastDiv by_cols = divisor_of(cols), by_last = by_last_group(rows, Gemm::rows_together);
        if (tma) {
            enqueue(gemm_tma_kernel<T>, dim3(blocks), 384, Gemm::shared_bytes, a_map, b_map, c.pointer, m, n, k, by_cols, by_last);
        } else {
            enqueue(gemm_copied_kernel<T>, dim3(blocks), 384, Gemm::shared_bytes, a.pointer, b.pointer, c.pointer, m, n, k, by_cols, by_last);
        }
    }
};

// Of a result that was rounded to T.
template <class T>
constexpr double rounding = same<T, f16> ? 1.0 / 2048 : 1.0 / 256;

template <class T>
void test_gemm(int m, int n, int k) {
    const vector<T> a = random_values<T>(static_cast<size_t>(m) * k), b = random_values<T>(static_cast<size_t>(k) * n);
    const GemmProblem<T> problem(m, n, k, a, b);
    vector<double> exact(static_cast<size_t>(m) * n), av(a.size()), bv(b.size());
    for (size_t i = 0; i < a.size(); ++i) av[i] = value(a[i]);
    for (size_t i = 0; i < b.size(); ++i) bv[i] = value(b[i]);
    for (int i = 0; i < m; ++i) {
        for (int l = 0; l < k; ++l) {
            for (int j = 0; j < n; ++j) exact[static_cast<size_t>(i) * n + j] += av[static_cast<size_t>(i) * k + l] * bv[static_cast<size_t>(l) * n + j];
        }
    }
    for (const bool tma : {false, true}) {
        require(cudaMemset(problem.c.pointer, 0xff, problem.c.count * sizeof(T)), "cudaMemset");  // NaN
        problem.run(tma);
        require(cudaDeviceSynchronize(), "kernel");
        const vector<T> c = problem.c.read();
        double worst = 0;
        for (size_t i = 0; i < c.size(); ++i) {
            worst = worse(worst, std::fabs(value(c[i]) - exact[i]) / (std::fabs(exact[i]) * rounding<T> + k * 1e-5 + 1e-4));
        }
        check("GEMM " + name_of<T>() + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                  (tma ? " by TMA" : " by cp.async"),
              worst < 1, number(worst));
    }
}

template <class T>
struct AttentionProblem {
    int heads, length;
    Buffer<T> q, k, v, o;
    TensorMap maps[3];

    AttentionProblem(int heads, int length, const vector<T>& q_host, const vector<T>& k_host, const vector<T>& v_host)
        : heads(heads), length(length), q(q_host), k(k_host), v(v_host), o(q_host.size()) {
        const T* const tensors[3] = {q.pointer, k.pointer, v.pointer};
        for (int i = 0; i < 3; ++i) {
            const uint64_t rows = length;
            maps[i] = tensor_map(tensors[i], {128, rows, static_cast<uint64_t>(heads)}, {128, 128 * rows}, {64, 128, 1});
        }
    }
    void run() const {
        enqueue(attention_kernel<T>, dim3((length + 127) / 128, heads), 384, Attention::shared_bytes, maps[0], maps[1], maps[2],
                                o.pointer, length, static_cast<float>(1.4426950408889634 / std::sqrt(128.0)));
    }
};

template <class T>
void test_attention(int heads, int length) {
    const size_t count = static_cast<size_t>(heads) * length * 128;
    // Scores of some spread: weights that matter are few.
    const vector<T> q = random_values<T>(count, -4, 4), k = random_values<T>(count, -2, 2), v = random_values<T>(count);
    const AttentionProblem<T> problem(heads, length, q, k, v);
    require(cudaMemset(problem.o.pointer, 0xff, count * sizeof(T)), "cudaMemset");
    problem.run();
    require(cudaDeviceSynchronize(), "kernel");
    const vector<T> o = problem.o.read();
    double worst = 0;
    vector<double> weight(length);
    for (int head = 0; head < heads; ++head) {
        const size_t base = static_cast<size_t>(head) * length * 128;
        for (int i = 0; i < length; i += 3) {
            double most = -1e300, sum = 0;
            for (int j = 0; j < length; ++j) {
                weight[j] = 0;
                for (int d = 0; d < 128; ++d) weight[j] += value(q[base + i * 128 + d]) * value(k[base + j * 128 + d]);
                weight[j] /= std::sqrt(128.0);
                most = std::max(most, weight[j]);
            }
            for (double& w : weight) w = std::exp(w - most), sum += w;
            for (int d = 0; d < 128; ++d) {
                double exact = 0;
                for (int j = 0; j < length; ++j) exact += weight[j] / sum * value(v[base + j * 128 + d]);
                worst = worse(worst, std::fabs(value(o[base + i * 128 + d]) - exact) / rounding<T>);
            }
        }
    }
    check("attention " + name_of<T>() + ", " + std::to_string(heads) + " heads of " + std::to_string(length), worst < 1.5, number(worst));
}

// ---- how fast

template <class Run>
void time_of(const string& name, double operations, Run run) {
    cudaEvent_t begin, end;
    require(cudaEventCreate(&begin), "event");
    require(cudaEventCreate(&end), "event");
    for (int i = 0; i < 10; ++i) run();
    vector<float> milliseconds;
    for (int i = 0; i < 9; ++i) {
        constexpr int launches = 10;
        require(cudaEventRecord(begin), "event");
        for (int j = 0; j < launches; ++j) run();
        require(cudaEventRecord(end), "event");
        require(cudaEventSynchronize(end), "event");
        float elapsed;
        require(cudaEventElapsedTime(&elapsed, begin, end), "event");
        milliseconds.push_back(elapsed / launches);
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    std::printf("time   %s: %.1f us, %.0f TFLOP/s (best %.0f)\n", name.c_str(), milliseconds[4] * 1e3, operations / milliseconds[4] * 1e-9,
                operations / milliseconds[0] * 1e-9);
    require(cudaEventDestroy(begin), "event");
    require(cudaEventDestroy(end), "event");
}

// Normally distributed, from a table: quick on the host.
vector<bf16> many_values(size_t n) {
    vector<bf16> table(1 << 16), values(n);
    std::normal_distribution<double> normal;
    for (bf16& x : table) x = make<bf16>(normal(generator));
    for (bf16& x : values) x = table[generator() >> 16];
    return values;
}

void time_gemm(int size) {
    const size_t count = static_cast<size_t>(size) * size;
    const GemmProblem<bf16> problem(size, size, size, many_values(count), many_values(count));
    const double operations = 2.0 * size * size * size;
    const string shape = std::to_string(size) + "^3 bf16 ";
    time_of("GEMM " + shape + "by cp.async", operations, [&] { problem.run(false); });
    time_of("GEMM " + shape + "by TMA", operations, [&] { problem.run(true); });
}

void time_attention(int heads, int length) {
    const size_t count = static_cast<size_t>(heads) * length * 128;
    const AttentionProblem<bf16> problem(heads, length, many_values(count), many_values(count), many_values(count));
    time_of("attention bf16, " + std::to_string(heads) + " heads of " + std::to_string(length), 4.0 * heads * length * length * 128,
            [&] { problem.run(); });
}

}  // namespace

int main() {
    require(cudaFree(nullptr), "device");
    test_ring_turns<1, 2, 3, 4, 7, 8>();
    test_unit_queue(1, 1);
    test_unit_queue(1, 9);
    test_unit_queue(40, 40);
    test_unit_queue(132, 5000);
    test_wgdots<f16, 8, 16, 24, 32, 48, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 176, 192, 208, 224, 240, 256>();
    test_wgdots<bf16, 8, 16, 24, 32, 48, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 176, 192, 208, 224, 240, 256>();
    test_wgdots<tf32, 8, 16, 24, 32, 48, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 176, 192, 208, 224, 240, 256>();
    test_wgdots_registers<f16, false>();
    test_wgdots_registers<f16, true>();
    test_wgdots_registers<bf16, false>();
    test_wgdots_registers<bf16, true>();
    test_wgdots_registers<tf32, false>();
    test_panels<PanelTile<f16, 64, 128>>();
    test_panels<PanelTile<bf16, 128, 64>>();
    test_panels<PanelTile<bf16, 24, 192>>();
    test_panels<PanelTile<float, 64, 64>>();
    test_tma_rank_1();
    test_walks();
    test_multicast();
    test_part_of_block();
    test_panel_stores<Mma16816<128, 256, 8, 1>, f16>();
    test_panel_stores<Mma16816<64, 64, 4, 1>, bf16>();
    test_panel_stores<Mma16816<128, 64, 8, 1>, float>();
    test_panel_stores<Mma16816<128, 144, 8, 1>, f16>();
    test_panel_stores<Mma16816<128, 104, 8, 1>, f16>();
    test_panel_stores<Mma16816<128, 80, 8, 1>, float>();
    test_transposed_panel_stores<Mma16816<128, 16, 8, 1>, f16, 16>();
    test_transposed_panel_stores<Mma16816<128, 96, 8, 1>, f16, 32>();
    test_transposed_panel_stores<Mma16816<64, 128, 4, 1>, bf16, 64>();
    test_transposed_panel_stores<Mma16816<128, 208, 8, 1>, f16, 64>();
    test_transposed_panel_stores<Mma16816<128, 104, 8, 1>, f16, 64>();
    test_transposed_panel_stores<Mma16816<192, 72, 12, 1>, f16, 64>();
    test_transposed_panel_stores<Mma16816<128, 136, 8, 1>, f16, 48>();
    test_transposed_panel_stores<Mma16816<128, 152, 8, 1>, float, 32>();
    test_transposed_panel_stores<Mma16816<128, 80, 8, 1>, float, 32>();
    test_transposed_panel_stores<Mma16816<128, 16, 8, 1>, float, 16>();
    test_transposed_panel_stores<Mma16816<128, 128, 8, 1>, float, 32>();
    test_transposed_panel_read<Mma16816<128, 16, 8, 1>, f16, 16>();
    test_transposed_panel_read<Mma16816<192, 80, 12, 1>, f16, 64>();
    test_transposed_panel_read<Mma16816<64, 208, 4, 1>, bf16, 64>();
    test_transposed_panel_read<Mma16816<128, 152, 8, 1>, f16, 64>();
    test_transposed_panel_read<Mma16816<128, 88, 8, 1>, f16, 64>();
    test_early_cols<Mma16816<128, 256, 8, 1>, f16, 32>();
    test_early_cols<Mma16816<128, 144, 8, 1>, bf16, 32>();
    test_early_cols<Mma16816<64, 96, 4, 1>, f16, 16>();
    test_early_cols<Mma16816<128, 104, 8, 1>, f16, 32>();
    test_early_cols<Mma16816<128, 80, 8, 1>, float, 16>();
    test_early_cols<Mma16816<128, 16, 8, 1>, f16, 8>();
    test_gemm<bf16>(128, 256, 64);
    test_gemm<bf16>(200, 328, 136);
    test_gemm<f16>(1, 8, 8);
    test_gemm<f16>(257, 520, 1000);
    test_gemm<bf16>(384, 264, 2048);
    test_attention<bf16>(1, 128);
    test_attention<bf16>(3, 200);
    test_attention<f16>(2, 77);
    test_attention<f16>(2, 1037);
    time_gemm(4096);
    time_gemm(8192);
    time_attention(16, 4096);
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
