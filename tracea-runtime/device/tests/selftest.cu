// Every device header against plain CPU code, on a GPU. From the repository's root:
//
//     mkdir -p target/selftest && ln -sfn "$PWD/tracea-runtime/device" target/selftest/tracea
//     nvcc -std=c++17 -arch=sm_90a -prec-div=false -Itarget/selftest -o target/selftest/run target/selftest/tracea/tests/selftest.cu
//     target/selftest/run
//
// One line a check, then `N passed, M failed`; the exit status is 0 if none failed. Any sm_80 or later will do.
#include "tracea/tests/host.cuh"
#include "tracea/tests/kernels.cuh"

namespace {

// ---- layouts

template <class L>
string layout_name(const char* kind) {
    return string(kind) + " " + std::to_string(L::rows) + "x" + std::to_string(L::cols) + " of " + std::to_string(L::threads) + " threads";
}

// The map as data, and the claims that layout.cuh makes of it: the registers cover the tile, each element has as many owners
// as it should, slots agree with registers, registers that count as a vector are neighbours.
template <class L>
struct Map {
    vector<int> rows, cols, owns, slice_rows, slice_cols, owns_slice;

    Map() {
        const size_t threads = L::threads;
        Buffer<int> r(threads * L::size), c(threads * L::size), o(threads), sr(threads * L::row_size), sc(threads * L::col_size), os(threads * 2);
        launch(layout_kernel<L>, 1, L::threads, 0, r.pointer, c.pointer, o.pointer, sr.pointer, sc.pointer, os.pointer);
        rows = r.read(), cols = c.read(), owns = o.read(), slice_rows = sr.read(), slice_cols = sc.read(), owns_slice = os.read();
    }
};

template <class L, class Formula>
void test_layout(const string& name, Formula formula) {
    const Map<L> map;
    vector<int> owners(L::rows * L::cols), row_owners(L::rows), col_owners(L::cols);
    bool as_formula = true, slots = true, vectors = true;
    for (int t = 0; t < L::threads; ++t) {
        for (int r = 0; r < L::size; ++r) {
            const int row = map.rows[t * L::size + r], col = map.cols[t * L::size + r];
            int expected_row, expected_col;
            formula(t, r, expected_row, expected_col);
            as_formula &= row == expected_row && col == expected_col;
            if (row < 0 || row >= L::rows || col < 0 || col >= L::cols) {
                as_formula = false;
                continue;
            }
            owners[row * L::cols + col] += map.owns[t];
            if (r % L::vec) vectors &= row == map.rows[t * L::size + r - 1] && col == map.cols[t * L::size + r - 1] + 1;
        }
        for (int s = 0; s < L::row_size; ++s) row_owners[map.slice_rows[t * L::row_size + s]] += map.owns_slice[2 * t];
        for (int s = 0; s < L::col_size; ++s) col_owners[map.slice_cols[t * L::col_size + s]] += map.owns_slice[2 * t + 1];
    }
    const auto once = [](const vector<int>& v) { return std::all_of(v.begin(), v.end(), [](int n) { return n == 1; }); };
    check("layout " + name, as_formula && slots && vectors && once(owners) && once(row_owners) && once(col_owners),
          string(as_formula ? "" : "map ") + (vectors ? "" : "vectors ") + (once(owners) ? "" : "owners ") +
              (once(row_owners) ? "" : "row-owners ") + (once(col_owners) ? "" : "column-owners "));
}

template <int ROWS, int COLS, int WM, int WN>
void test_mma_layouts() {
    test_layout<Mma16816<ROWS, COLS, WM, WN>>(layout_name<Mma16816<ROWS, COLS, WM, WN>>("Mma16816"), [](int t, int r, int& row, int& col) {
        const int warp = t / 32, lane = t % 32, blocks = COLS / WN / 8, mi = r / 4 / blocks, ni = r / 4 % blocks, e = r % 4;
        row = warp / WN * (ROWS / WM) + mi * 16 + lane / 4 + 8 * (e / 2);
        col = warp % WN * (COLS / WN) + ni * 8 + 2 * (lane % 4) + e % 2;
    });
}

template <int ROWS, int COLS, int TM, int TN, int VEC>
void test_blocked_layout() {
    using L = Blocked<ROWS, COLS, TM, TN, VEC>;
    test_layout<L>(layout_name<L>("Blocked") + " by " + std::to_string(TN) + "x" + std::to_string(VEC), [](int t, int r, int& row, int& col) {
        const int ci_count = COLS / TN / VEC, v = r % VEC, ci = r / VEC % ci_count, ri = r / VEC / ci_count;
        row = ri * TM + t / TN;
        col = (ci * TN + t % TN) * VEC + v;
    });
}

void test_layouts() {
    test_mma_layouts<64, 64, 2, 2>();
    test_mma_layouts<128, 24, 4, 1>();
    test_mma_layouts<16, 32, 1, 4>();
    test_blocked_layout<8, 2048, 1, 256, 8>();
    test_blocked_layout<16, 256, 8, 16, 8>();
    test_blocked_layout<12, 64, 3, 32, 2>();
    test_blocked_layout<64, 8, 32, 4, 1>();
    test_blocked_layout<128, 3, 128, 1, 3>();
    test_layout<MmaA<64, 32, 2, 2>>("MmaA", [](int t, int r, int& row, int& col) {
        const int warp = t / 32, lane = t % 32, mi = r / 8 / 2, ki = r / 8 % 2, e = r % 8;
        row = warp / 2 * 32 + mi * 16 + lane / 4 + 8 * (e / 2 % 2);
        col = ki * 16 + 2 * (lane % 4) + e % 2 + 8 * (e / 4);
    });
    test_layout<MmaB<32, 64, 2, 2>>("MmaB", [](int t, int r, int& row, int& col) {
        const int warp = t / 32, lane = t % 32, ki = r / 4 / 4, ni = r / 4 % 4, e = r % 4;
        row = ki * 16 + 2 * (lane % 4) + e % 2 + 8 * (e / 2);
        col = warp % 2 * 32 + ni * 8 + lane / 4;
    });
    test_layout<Linear<1024, 128, 4>>("Linear", [](int t, int r, int& row, int& col) {
        row = (r / 4 * 128 + t) * 4 + r % 4;
        col = 0;
    });
}

// ---- shared tiles: offsets are a permutation, and aligned groups of eight rows spread over all banks

template <class Tile>
void test_shared_tile() {
    Buffer<int> out(Tile::rows * Tile::cols);
    launch(offset_kernel<Tile>, 1, 128, 0, out.pointer);
    const vector<int> offsets = out.read();
    vector<int> seen(offsets.size());
    bool inside = true, permutation = true, whole = true, spread = true;
    const int chunk = Tile::chunk;
    for (size_t i = 0; i < offsets.size(); ++i) {
        inside &= offsets[i] / Tile::cols == static_cast<int>(i) / Tile::cols;
        if (inside) ++seen[offsets[i]];
        if (i % chunk) whole &= offsets[i] == offsets[i - 1] + 1;
    }
    for (int n : seen) permutation &= n == 1;
    for (int row = 0; row + 8 <= Tile::rows; row += 8) {
        for (int col = 0; col < Tile::cols; col += chunk) {
            unsigned banks = 0;
            for (int i = 0; i < 8; ++i) banks |= 1u << offsets[(row + i) * Tile::cols + col] / chunk % 8;
            spread &= banks == 255u;
        }
    }
    check("shared tile " + std::to_string(Tile::row_bytes) + "-byte rows of " + name_of<typename Tile::type>(),
          inside && permutation && whole && spread, spread ? "" : "bank conflicts");
}

template <int... BYTES>
void test_shared_tiles() {
    (test_shared_tile<SharedTile<f16, 32, BYTES / 2>>(), ...);
    (test_shared_tile<SharedTile<float, 16, BYTES / 4>>(), ...);
}

// ---- copies

struct Valid {
    int rows, cols;
};

template <class Tile>
vector<Valid> ragged() {
    return {{Tile::rows, Tile::cols},     {Tile::rows + 3, Tile::cols + 5}, {Tile::rows, Tile::cols - 1}, {Tile::rows - 1, 1},
            {Tile::rows / 2 + 1, 7},      {Tile::rows, 0},                  {Tile::rows, -9},             {0, Tile::cols},
            {-4, 3},                      {1, Tile::cols / 2}};
}

template <class Tile, int THREADS, int ALIGN, int BATCH = 8>
void test_copy_rows() {
    using T = typename Tile::element;
    // Rows that are aligned to ALIGN bytes and no better.
    const int unit = std::max<int>(ALIGN / static_cast<int>(sizeof(T)), 1);
    const int stride = (Tile::cols / unit + 2 | 1) * unit, first = 3 * unit;
    const vector<T> source = random_values<T>(static_cast<size_t>(first + stride * (Tile::rows + 8)));
    const Buffer<T> in(source);
    bool good = true;
    for (const Valid valid : ragged<Tile>()) {
        Buffer<T> out(Tile::rows * Tile::cols);
        launch(copy_rows_kernel<Tile, THREADS, ALIGN, BATCH>, 1, THREADS, Tile::bytes, in.pointer + first, stride, valid.rows, valid.cols, out.pointer);
        const vector<T> result = out.read();
        for (int row = 0; row < Tile::rows; ++row) {
            for (int col = 0; col < Tile::cols; ++col) {
                const T expected = row < valid.rows && col < valid.cols ? source[first + row * stride + col] : T{};
                good &= equal_bits(result[row * Tile::cols + col], expected);
            }
        }
    }
    check("copy_rows_async " + name_of<typename Tile::type>() + " " + std::to_string(Tile::rows) + "x" + std::to_string(Tile::cols) + ", " +
              std::to_string(THREADS) + " threads, align " + std::to_string(ALIGN) + ", batch " + std::to_string(BATCH),
          good);
}

template <class Tile, int THREADS>
void test_copy_elements() {
    using T = typename Tile::element;
    const int stride = Tile::rows + 3;
    const vector<T> source = random_values<T>(static_cast<size_t>(stride) * (Tile::cols + 1));
    const Buffer<T> in(source);
    bool good = true;
    for (const Valid valid : ragged<Tile>()) {
        Buffer<T> out(Tile::rows * Tile::cols);
        launch(copy_elements_kernel<Tile, THREADS>, 1, THREADS, Tile::bytes, in.pointer, stride, valid.rows, valid.cols, out.pointer);
        const vector<T> result = out.read();
        for (int row = 0; row < Tile::rows; ++row) {
            for (int col = 0; col < Tile::cols; ++col) {
                const T expected = row < valid.rows && col < valid.cols ? source[col * stride + row] : T{};
                good &= equal_bits(result[row * Tile::cols + col], expected);
            }
        }
    }
    check("copy_elements " + name_of<typename Tile::type>() + " " + std::to_string(Tile::rows) + "x" + std::to_string(Tile::cols), good);
}

template <class Tile, int THREADS, int N>
void test_copy_gathered() {
    using T = typename Tile::element;
    const int stride = Tile::rows + 3, size = Tile::cols + Tile::rows / 2;
    const vector<T> source = random_values<T>(static_cast<size_t>(stride) * (Tile::cols + 1));
    const Buffer<T> in(source);
    bool good = true;
    for (const Valid valid : ragged<Tile>()) {
        Buffer<T> out(Tile::rows * Tile::cols);
        launch(copy_gathered_kernel<Tile, THREADS, N>, 1, THREADS, Tile::bytes, in.pointer, stride, size, valid.rows, valid.cols, out.pointer);
        const vector<T> result = out.read();
        for (int row = 0; row < Tile::rows; ++row) {
            for (int col = 0; col < Tile::cols; ++col) {
                const int along = row - 2 + 2 * col;
                const bool inside = N == 0 || (0 <= along && along < size);
                const T expected = row < valid.rows && col < valid.cols && inside ? source[col * stride + row] : T{};
                good &= equal_bits(result[row * Tile::cols + col], expected);
            }
        }
    }
    check("copy_gathered " + name_of<typename Tile::type>() + " " + std::to_string(Tile::rows) + "x" + std::to_string(Tile::cols) + ", " +
              std::to_string(THREADS) + " threads, " + std::to_string(N) + " axes",
          good);
}

template <int ALIGN>
void test_copies_of_16_bits() {
    test_copy_rows<SharedTile<f16, 128, 32>, 128, ALIGN>();
    test_copy_rows<SharedTile<bf16, 64, 64>, 128, ALIGN, 2>();
    test_copy_rows<SharedTile<f16, 32, 128>, 256, ALIGN>();
    test_copy_rows<SharedTile<f16, 20, 16>, 96, ALIGN>();
    test_copy_rows<SharedTile<f16, 33, 48>, 128, ALIGN, 3>();
    test_copy_rows<SharedTile<f16, 8, 1024>, 32, ALIGN>();
}
template <int ALIGN>
void test_copies_of_32_bits() {
    test_copy_rows<SharedTile<float, 64, 16>, 128, ALIGN>();
    test_copy_rows<SharedTile<tf32, 64, 32>, 128, ALIGN>();
    test_copy_rows<SharedTile<float, 16, 128>, 256, ALIGN>();
}

void test_copies() {
    test_copies_of_16_bits<16>();
    test_copies_of_16_bits<8>();
    test_copies_of_16_bits<4>();
    test_copies_of_16_bits<2>();
    test_copies_of_32_bits<16>();
    test_copies_of_32_bits<8>();
    test_copies_of_32_bits<4>();
    test_copy_elements<SharedTile<f16, 64, 32>, 128>();
    test_copy_elements<SharedTile<bf16, 24, 48>, 96>();
    test_copy_elements<SharedTile<float, 33, 16>, 128>();
    test_copy_gathered<SharedTile<f16, 64, 32>, 128, 1>();
    test_copy_gathered<SharedTile<f16, 128, 64>, 96, 1>();
    test_copy_gathered<SharedTile<f16, 72, 128>, 64, 1>();
    test_copy_gathered<SharedTile<bf16, 24, 48>, 96, 0>();
    test_copy_gathered<SharedTile<float, 33, 16>, 128, 1>();
    test_copy_gathered<SharedTile<float, 40, 64>, 32, 1>();
}

// ---- loads and stores of registers

template <class L, int ALIGN, class T>
void test_load_tile(const string& layout) {
    const int unit = std::max<int>(std::max(ALIGN, 1) / static_cast<int>(sizeof(T)), 1);
    const int stride = (L::cols / unit + 2 | 1) * unit, first = 3 * unit;
    const vector<T> source = random_values<T>(static_cast<size_t>(first + stride * (L::rows + 8)));
    const Buffer<T> in(source);
    bool good = true;
    for (const Valid valid : ragged<L>()) {
        for (const int row_end : {valid.cols, stride}) {
            Buffer<float> out(L::rows * L::cols);
            launch(load_tile_kernel<L, ALIGN, T>, 1, L::threads, 0, in.pointer + first, stride, valid.rows, valid.cols, row_end, out.pointer);
            const vector<float> result = out.read();
            for (int row = 0; row < L::rows; ++row) {
                for (int col = 0; col < L::cols; ++col) {
                    const double expected = row < valid.rows && col < valid.cols ? value(source[first + row * stride + col]) : 0.0;
                    good &= result[row * L::cols + col] == expected;
                }
            }
        }
    }
    check((ALIGN == 0 ? "load_tile " : "load_tile_vec ") + name_of<T>() + ", " + layout + (ALIGN ? ", align " + std::to_string(ALIGN) : ""), good);
}

template <class L, StoreBy BY, int ALIGN, class T>
void test_store_tile(const string& layout) {
    const int unit = std::max<int>(std::max(ALIGN, 1) / static_cast<int>(sizeof(T)), 1);
    const int stride = (L::cols / unit + 2 | 1) * unit, first = 3 * unit;
    const vector<float> source = random_values<float>(L::rows * L::cols);
    const Buffer<float> in(source);
    bool good = true;
    for (const Valid valid : ragged<L>()) {
        vector<T> before = random_values<T>(static_cast<size_t>(first + stride * (L::rows + 8)), 2, 3);
        Buffer<T> out(before);
        launch(store_tile_kernel<L, BY, ALIGN, T>, 1, L::threads, BY == staged ? L::rows * L::cols * static_cast<int>(sizeof(T)) : 0, in.pointer,
               out.pointer + first, stride, valid.rows, valid.cols);
        const vector<T> result = out.read();
        for (int row = 0; row < L::rows; ++row) {
            for (int col = 0; col < L::cols; ++col) {
                if (row < valid.rows && col < valid.cols) before[first + row * stride + col] = make<T>(source[row * L::cols + col]);
            }
        }
        for (size_t i = 0; i < before.size(); ++i) good &= equal_bits(before[i], result[i]);
    }
    const char* const names[] = {"store_tile ", "store_tile_elements ", "store_tile_staged "};
    check(names[BY] + name_of<T>() + ", " + layout + ", align " + std::to_string(ALIGN), good);
}

template <class L>
void test_slices(const string& layout) {
    const int longest = std::max(L::rows, L::cols);
    const vector<f16> source = random_values<f16>(longest);
    const Buffer<f16> in(source);
    const Map<L> map;
    bool loads = true, stores = true;
    for (const int valid : {longest, longest / 2 + 1, 1, 0, -3}) {
        Buffer<float> rows(L::threads * L::row_size), cols(L::threads * L::col_size);
        launch(load_slices_kernel<L, f16>, 1, L::threads, 0, in.pointer, valid, rows.pointer, cols.pointer);
        const vector<float> row_values = rows.read(), col_values = cols.read();
        for (size_t i = 0; i < row_values.size(); ++i) loads &= row_values[i] == (map.slice_rows[i] < valid ? value(source[map.slice_rows[i]]) : 0.0);
        for (size_t i = 0; i < col_values.size(); ++i) loads &= col_values[i] == (map.slice_cols[i] < valid ? value(source[map.slice_cols[i]]) : 0.0);

        const vector<float> numbers = random_values<float>(longest);
        const Buffer<float> from(numbers);
        vector<f16> to_rows = random_values<f16>(L::rows, 2, 3), to_cols = random_values<f16>(L::cols, 2, 3);
        Buffer<f16> out_rows(to_rows), out_cols(to_cols);
        launch(store_slices_kernel<L, f16>, 1, L::threads, 0, from.pointer, out_rows.pointer, out_cols.pointer, valid);
        for (int i = 0; i < std::min(valid, L::rows); ++i) to_rows[i] = half_of(numbers[i]);
        for (int i = 0; i < std::min(valid, L::cols); ++i) to_cols[i] = half_of(numbers[i]);
        const vector<f16> got_rows = out_rows.read(), got_cols = out_cols.read();
        for (int i = 0; i < L::rows; ++i) stores &= equal_bits(got_rows[i], to_rows[i]);
        for (int i = 0; i < L::cols; ++i) stores &= equal_bits(got_cols[i], to_cols[i]);
    }
    check("load_rows, load_cols, " + layout, loads);
    check("store_rows, store_cols, " + layout, stores);
}

template <class L, class T>
void test_global(const string& layout) {
    test_load_tile<L, 0, T>(layout);
    test_load_tile<L, 16, T>(layout);
    test_load_tile<L, 4, T>(layout);
    test_load_tile<L, sizeof(T), T>(layout);
    test_store_tile<L, by_elements, sizeof(T), T>(layout);
    test_store_tile<L, by_rows, 16, T>(layout);
    test_store_tile<L, by_rows, 8, T>(layout);
    test_store_tile<L, by_rows, 4, T>(layout);
    test_store_tile<L, by_rows, sizeof(T), T>(layout);
    test_store_tile<L, staged, 16, T>(layout);
    test_store_tile<L, staged, 8, T>(layout);
    test_store_tile<L, staged, 4, T>(layout);
    test_store_tile<L, staged, sizeof(T), T>(layout);
}

void test_registers_to_global() {
    test_global<Mma16816<64, 64, 2, 2>, f16>("Mma16816 64x64");
    test_global<Mma16816<64, 24, 4, 1>, float>("Mma16816 64x24");
    test_global<Blocked<8, 512, 2, 64, 8>, bf16>("Blocked 8x512 by 64x8");
    test_global<Blocked<8, 512, 2, 64, 8>, float>("Blocked 8x512 by 64x8");
    test_global<Blocked<16, 64, 8, 16, 4>, float>("Blocked 16x64 by 16x4");
    test_global<Blocked<16, 64, 8, 16, 4>, f16>("Blocked 16x64 by 16x4");
    test_global<Blocked<32, 64, 16, 8, 8>, f16>("Blocked 32x64 by 8x8");
    test_global<Blocked<64, 32, 64, 2, 8>, bf16>("Blocked 64x32 by 2x8");
    test_load_tile<MmaA<64, 32, 2, 2>, 4, f16>("MmaA");
    test_load_tile<MmaB<32, 32, 2, 2>, 2, f16>("MmaB");
    test_store_tile<MmaA<64, 32, 2, 2>, by_rows, 4, f16>("MmaA");
    test_store_tile<MmaB<32, 32, 2, 2>, by_rows, 2, f16>("MmaB");
    test_slices<Mma16816<64, 64, 2, 2>>("Mma16816");
    test_slices<Mma16816<64, 32, 4, 1>>("Mma16816, one column of warps");
    test_slices<MmaA<64, 32, 2, 2>>("MmaA");
    test_slices<MmaB<32, 32, 2, 2>>("MmaB");
    test_slices<Blocked<8, 512, 2, 64, 4>>("Blocked 64 wide");
    test_slices<Blocked<32, 32, 16, 8, 4>>("Blocked 8 wide");
    test_slices<Linear<512, 128, 4>>("Linear");
}

// ---- products

const char* place_name(OperandPlace place) {
    const char* const names[] = {"K-major", "MN-major", "accumulator", "fragment", "float fragment"};
    return names[place];
}

// `unit` is the format's relative rounding of products and sums: tensor cores may truncate, so twice a float's.
void check_product(const string& name, int M, int N, int K, const vector<double>& a, const vector<double>& b, const vector<float>& c,
                   const vector<float>& result) {
    double worst = 0;
    for (int m = 0; m < M; ++m) {
        for (int n = 0; n < N; ++n) {
            double sum = c[m * N + n], size = std::fabs(sum);
            for (int k = 0; k < K; ++k) {
                sum += a[m * K + k] * b[k * N + n];
                size += std::fabs(a[m * K + k] * b[k * N + n]);
            }
            const double bound = size * std::ldexp(K + 1, -23);
            const double error = std::fabs(result[m * N + n] - sum) / bound;
            worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
        }
    }
    check(name, worst <= 1, number(worst) + " of the bound");
}

template <class Acc, int K, class T, OperandPlace A, OperandPlace B>
void test_dot() {
    constexpr int M = Acc::rows, N = Acc::cols;
    const vector<stored<T>> a = random_values<stored<T>>(M * K), b = random_values<stored<T>>(K * N);
    const vector<float> c = random_values<float>(M * N);
    vector<double> exact_a, exact_b;
    for (const auto x : a) exact_a.push_back(round_to<T>(value(x)));
    for (const auto x : b) exact_b.push_back(round_to<T>(value(x)));
    const Buffer<stored<T>> in_a(a), in_b(b);
    const Buffer<float> in_c(c);
    Buffer<float> out(M * N);
    launch(dot_kernel<Acc, K, T, A, B>, 1, Acc::threads, (M + N) * K * static_cast<int>(sizeof(T)), in_a.pointer, in_b.pointer, in_c.pointer, out.pointer);
    check_product("dot " + name_of<T>() + " " + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K) + ", " +
                      std::to_string(Acc::warps_m) + "x" + std::to_string(Acc::warps_n) + " warps, A " + place_name(A) + ", B " + place_name(B),
                  M, N, K, exact_a, exact_b, c, out.read());
}

template <class T, class Acc, int K>
void test_shared_dots() {
    test_dot<Acc, K, T, k_major, k_major>();
    test_dot<Acc, K, T, k_major, mn_major>();
    test_dot<Acc, K, T, mn_major, k_major>();
    test_dot<Acc, K, T, mn_major, mn_major>();
}

template <class T>
void test_dots() {
    test_shared_dots<T, Mma16816<64, 64, 2, 2>, 32>();
    test_shared_dots<T, Mma16816<128, 128, 2, 2>, 32>();
    test_shared_dots<T, Mma16816<32, 24, 2, 1>, 48>();
    test_shared_dots<T, Mma16816<96, 96, 2, 2>, 64>();
    test_shared_dots<T, Mma16816<16, 8, 1, 1>, 16>();
    test_shared_dots<T, Mma16816<16, 64, 1, 4>, 128>();
    test_dot<Mma16816<128, 64, 4, 1>, 64, T, from_accumulator, k_major>();
    test_dot<Mma16816<128, 128, 4, 1>, 64, T, from_accumulator, mn_major>();
    test_dot<Mma16816<64, 40, 4, 1>, 32, T, from_accumulator, mn_major>();
    test_dot<Mma16816<64, 64, 2, 2>, 32, T, from_fragment, k_major>();
    test_dot<Mma16816<64, 64, 2, 2>, 32, T, from_fragment, mn_major>();
    test_dot<Mma16816<64, 64, 2, 2>, 32, T, from_float_fragment, k_major>();
    test_dot<Mma16816<64, 48, 2, 2>, 32, T, k_major, from_fragment>();
    test_dot<Mma16816<64, 64, 2, 2>, 32, T, mn_major, from_float_fragment>();
    test_dot<Mma16816<64, 32, 4, 1>, 32, T, from_accumulator, from_fragment>();
    test_dot<Mma16816<64, 64, 2, 2>, 32, T, from_float_fragment, from_float_fragment>();
}

template <class Acc, int K, OperandPlace A, OperandPlace B>
void test_dot_fma() {
    constexpr int M = Acc::rows, N = Acc::cols;
    const vector<float> a = random_values<float>(M * K), b = random_values<float>(K * N), c = random_values<float>(M * N);
    const Buffer<float> in_a(a), in_b(b), in_c(c);
    Buffer<float> out(M * N);
    launch(dot_fma_kernel<Acc, K, A, B>, 1, Acc::threads, (M + N) * K * 4, in_a.pointer, in_b.pointer, in_c.pointer, out.pointer);
    check_product("dot_fma " + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K) + ", A " + place_name(A) + ", B " + place_name(B), M,
                  N, K, vector<double>(a.begin(), a.end()), vector<double>(b.begin(), b.end()), c, out.read());
}

template <class Acc, int K>
void test_dots_fma() {
    test_dot_fma<Acc, K, k_major, k_major>();
    test_dot_fma<Acc, K, k_major, mn_major>();
    test_dot_fma<Acc, K, mn_major, k_major>();
    test_dot_fma<Acc, K, mn_major, mn_major>();
}

// ---- reductions

template <class Op, class T>
T apply_on_host(T a, T b) {
    if constexpr (same<Op, Sum>) return a + b;
    if constexpr (same<Op, Max>) return std::max(a, b);
    return std::min(a, b);
}

template <class Op, class L, class T>
void test_reduce(const string& name) {
    const vector<T> x = random_values<T>(L::rows * L::cols, -1000, 1000);
    const Buffer<T> in(x);
    Buffer<T> out_rows(L::threads * L::row_size), out_cols(L::threads * L::col_size), out_totals(2 * L::threads);
    launch(reduce_kernel<Op, L, T>, 1, L::threads, 0, in.pointer, out_rows.pointer, out_cols.pointer, out_totals.pointer);

    // In double and in order; sums in float may differ by their own rounding.
    vector<double> rows(L::rows), cols(L::cols);
    double total = 0, size = 0;
    for (int row = 0; row < L::rows; ++row) {
        for (int col = 0; col < L::cols; ++col) {
            const double v = value(x[row * L::cols + col]);
            rows[row] = col ? apply_on_host<Op>(rows[row], v) : v;
            cols[col] = row ? apply_on_host<Op>(cols[col], v) : v;
            total = row || col ? apply_on_host<Op>(total, v) : v;
            size += std::fabs(v);
        }
    }
    const bool exact = !same<Op, Sum> || same<T, int>;
    const auto close = [&](double got, double expected, double terms) {
        return exact ? got == expected : std::fabs(got - expected) <= terms * terms * 1000 * std::ldexp(1.0, -24);
    };
    const Map<L> map;
    const vector<T> got_rows = out_rows.read(), got_cols = out_cols.read(), got_totals = out_totals.read();
    bool good_rows = true, good_cols = true, good_totals = true;
    for (size_t i = 0; i < got_rows.size(); ++i) good_rows &= close(value(got_rows[i]), rows[map.slice_rows[i]], L::cols);
    for (size_t i = 0; i < got_cols.size(); ++i) good_cols &= close(value(got_cols[i]), cols[map.slice_cols[i]], L::rows);
    for (const T got : got_totals) {
        good_totals &= exact ? value(got) == total : std::fabs(value(got) - total) <= size * std::ldexp(static_cast<double>(L::rows + L::cols), -24);
    }
    check("reduce " + name + " " + name_of<T>(), good_rows && good_cols && good_totals,
          string(good_rows ? "" : "rows ") + (good_cols ? "" : "columns ") + (good_totals ? "" : "totals "));
}

template <class L>
void test_reductions_of(const string& layout) {
    test_reduce<Sum, L, float>("sum, " + layout);
    test_reduce<Max, L, float>("max, " + layout);
    test_reduce<Min, L, float>("min, " + layout);
    test_reduce<Sum, L, int>("sum, " + layout);
    test_reduce<Max, L, int>("max, " + layout);
    test_reduce<Min, L, int>("min, " + layout);
}

void test_reductions() {
    test_reductions_of<Mma16816<64, 64, 4, 1>>("Mma16816 4x1 warps");
    test_reductions_of<Mma16816<64, 64, 2, 2>>("Mma16816 2x2 warps");
    test_reductions_of<Mma16816<16, 64, 1, 4>>("Mma16816 1x4 warps");
    test_reductions_of<MmaA<64, 32, 2, 2>>("MmaA");
    test_reductions_of<MmaB<32, 64, 2, 2>>("MmaB");
    test_reductions_of<Blocked<64, 16, 32, 4, 2>>("Blocked 4 wide");
    test_reductions_of<Blocked<32, 64, 16, 8, 4>>("Blocked 8 wide");
    test_reductions_of<Blocked<12, 64, 6, 16, 2>>("Blocked 16 wide, 6 tall");
    test_reductions_of<Blocked<8, 64, 4, 32, 2>>("Blocked 32 wide");
    test_reductions_of<Blocked<9, 128, 3, 64, 2>>("Blocked 64 wide, 3 tall");
    test_reductions_of<Blocked<8, 512, 2, 128, 4>>("Blocked 128 wide");
    test_reductions_of<Blocked<4, 512, 1, 256, 2>>("Blocked 256 wide");
    test_reductions_of<Blocked<128, 4, 128, 1, 4>>("Blocked 1 wide");
    test_reductions_of<Linear<1024, 256, 4>>("Linear");
}

// ---- exchanges

// Elements of E as T: only a transpose converts on its way.
template <class From, class To, class T, class E = T, bool TRANSPOSED = From::rows != To::rows>
void test_exchange(const string& name) {
    const vector<E> x = random_values<E>(From::rows * From::cols, -1000, 1000);
    const Buffer<E> in(x);
    const int shared = std::max<int>(From::rows * From::cols * static_cast<int>(sizeof(T)), 4 * std::max(From::rows, From::cols));
    Buffer<T> out(x.size());
    Buffer<float> rows(To::threads * To::row_size), cols(To::threads * To::col_size);
    bool good = true;
    if constexpr (TRANSPOSED) {
        launch(transpose_kernel<From, To, T, E>, 1, To::threads, shared, in.pointer, out.pointer, rows.pointer, cols.pointer);
    } else {
        launch(exchange_kernel<From, To, T>, 1, To::threads, shared, in.pointer, out.pointer, rows.pointer, cols.pointer);
    }
    const vector<T> result = out.read();
    for (int row = 0; row < From::rows; ++row) {
        for (int col = 0; col < From::cols; ++col) {
            const T wanted = make<T>(value(x[row * From::cols + col]));
            good &= equal_bits(wanted, result[TRANSPOSED ? col * From::rows + row : row * From::cols + col]);
        }
    }
    for (const float v : rows.read()) good &= v == (TRANSPOSED ? 2.0f : 1.0f);
    for (const float v : cols.read()) good &= v == (TRANSPOSED ? 1.0f : 2.0f);
    check("exchange " + (same<T, E> ? "" : name_of<E>() + " to ") + name_of<T>() + ", " + name, good);
}

template <class T>
void test_exchanges() {
    test_exchange<Mma16816<64, 64, 2, 2>, Blocked<64, 64, 16, 8, 4>, T>("accumulator to Blocked");
    test_exchange<Blocked<64, 64, 16, 8, 4>, Mma16816<64, 64, 4, 1>, T>("Blocked to accumulator");
    test_exchange<Mma16816<64, 32, 4, 1>, MmaA<64, 32, 2, 2>, T>("accumulator to A");
    test_exchange<MmaB<32, 64, 2, 2>, Mma16816<32, 64, 2, 2>, T>("B to accumulator");
    test_exchange<Blocked<32, 12, 32, 4, 1>, Blocked<32, 12, 32, 4, 3>, T>("12 columns");
    test_exchange<Blocked<32, 3, 32, 1, 3>, Blocked<32, 3, 32, 1, 1>, T>("3 columns");
    test_exchange<Mma16816<64, 32, 4, 1>, Mma16816<32, 64, 2, 2>, T>("transposed accumulator");
    test_exchange<Blocked<128, 3, 128, 1, 3>, Blocked<3, 128, 1, 128, 1>, T>("transposed, 3 columns");
}

// Into the layouts that lowering chooses, and from a layout whose registers are rounded first.
template <class T, class E>
void test_transposes() {
    test_exchange<Blocked<64, 64, 32, 8, 8>, Blocked<64, 64, 64, 4, 8>, T, E, true>("transposed, four vectors a row");
    test_exchange<Blocked<128, 64, 32, 8, 8>, Blocked<64, 128, 64, 4, 8>, T, E, true>("transposed, four vectors a row, twice");
    test_exchange<Blocked<32, 32, 32, 4, 8>, Blocked<32, 32, 32, 4, 8>, T, E, true>("transposed, 32 columns");
    test_exchange<Blocked<32, 48, 16, 2, 8>, Blocked<48, 32, 8, 4, 8>, T, E, true>("transposed, 48 columns");
    test_exchange<Blocked<64, 64, 16, 16, 4>, Blocked<64, 64, 32, 8, 4>, T, E, true>("transposed, eight vectors a row");
    test_exchange<Mma16816<64, 128, 2, 2>, Blocked<128, 64, 32, 4, 8>, T, E, true>("transposed accumulator, four vectors a row");
    test_exchange<Mma16816<64, 128, 2, 2>, Blocked<128, 64, 16, 8, 4>, T, E, true>("transposed accumulator, eight vectors a row");
}

// Rows that begin at every place of a chunk, tensors that begin `first` elements into one; what lies around the result stays.
template <int ROWS, int COLS, int ALIGN_X, int ALIGN_Y, class T>
void test_copy_turned(int rows, int cols, int x_gap, int y_gap, int first) {
    const int x_pitch = cols + x_gap, y_pitch = rows + y_gap;
    const vector<T> x = random_values<T>(static_cast<size_t>(first + rows * x_pitch), -1000, 1000);
    const Buffer<T> in(x);
    const Buffer<T> out(static_cast<size_t>(first + cols * y_pitch + 64));
    const vector<T> before = out.read();
    const int blocks = ((rows + ROWS - 1) / ROWS) * ((cols + COLS - 1) / COLS), bytes = TurnedRows<T, ROWS, COLS>::elements * static_cast<int>(sizeof(T));
    launch(copy_turned_kernel<ROWS, COLS, 256, ALIGN_X, ALIGN_Y, T>, blocks, 256, bytes, in.pointer + first, x_pitch, out.pointer + first, y_pitch,
           rows, cols);
    const vector<T> result = out.read();
    vector<T> wanted = before;
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < cols; ++j) wanted[first + j * y_pitch + i] = x[first + i * x_pitch + j];
    }
    bool good = true;
    for (size_t n = 0; n < result.size(); ++n) good &= equal_bits(result[n], wanted[n]);
    check("copy turned " + name_of<T>() + ", " + std::to_string(rows) + "x" + std::to_string(cols) + ", gaps " + std::to_string(x_gap) + " and " +
              std::to_string(y_gap) + ", from " + std::to_string(first) + ", aligned to " + std::to_string(ALIGN_X) + " and " + std::to_string(ALIGN_Y),
          good);
}

template <class T, int ROWS, int COLS>
void test_copies_turned() {
    constexpr int one = sizeof(T);
    for (const int first : {0, 1, 3}) {
        test_copy_turned<ROWS, COLS, one, one, T>(131, 139, 0, 0, first);
        test_copy_turned<ROWS, COLS, one, one, T>(1, 257, 0, 2, first);
        test_copy_turned<ROWS, COLS, one, one, T>(257, 1, 3, 0, first);
        test_copy_turned<ROWS, COLS, one, one, T>(5, 7, 0, 0, first);
        test_copy_turned<ROWS, COLS, one, one, T>(128, 128, 0, 0, first);
    }
    test_copy_turned<ROWS, COLS, 16, one, T>(127, 128, 8, 0, 0);
    test_copy_turned<ROWS, COLS, one, 16, T>(128, 127, 0, 8, 0);
    test_copy_turned<ROWS, COLS, 16, 16, T>(200, 152, 8, 16, 0);
    test_copy_turned<ROWS, COLS, 16, 16, T>(8, 8, 0, 0, 0);
}

// ---- scalar functions

// Distance in units of the last place of the float nearest to the truth.
double ulps(float got, double truth) {
    const float nearest = static_cast<float>(truth);
    if (std::isnan(nearest) || std::isnan(got)) return std::isnan(nearest) && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
    if (std::isinf(nearest) || std::isinf(got)) {
        // A result beside infinity may overflow or not.
        return nearest == got || std::fabs(truth) > 3.40282e38 && std::fabs(got) > 3.40282e38 && (truth > 0) == (got > 0)
                   ? 0
                   : std::numeric_limits<double>::infinity();
    }
    int exponent;
    std::frexp(nearest, &exponent);
    return std::fabs(got - truth) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

vector<float> special_values() {
    const float infinite = std::numeric_limits<float>::infinity();
    return {0.0f,  -0.0f,  1.0f,   -1.0f,      0.5f,        -0.5f,   1.5f,   -1.5f,  2.5f,    -2.5f,     0.49999997f, 1e-45f, -1e-45f,
            1e-38f, 1e38f, -1e38f, infinite, -infinite, std::nanf(""), 88.7f, -88.7f, 104.0f, -104.0f, 8388609.0f, 1e10f, -3e20f, 3.4028235e38f};
}

// Float functions of (x, y) on random x in [low, high], or, with `wide`, on random bit patterns as well.
template <class F, class Reference>
void test_function(const string& name, F f, Reference reference, double low, double high, double allowed, bool wide = true, bool flushes = false,
                   double y_low = -4, double y_high = 4) {
    vector<float> x, y;
    for (int i = 0; i < 100000; ++i) x.push_back(static_cast<float>(uniform(low, high)));
    if (wide) {
        for (const float v : special_values()) x.push_back(v);
        for (int i = 0; i < 100000; ++i) {
            const uint32_t bits = generator();
            float v;
            std::memcpy(&v, &bits, 4);
            x.push_back(v);
        }
    }
    for (size_t i = 0; i < x.size(); ++i) y.push_back(static_cast<float>(uniform(y_low, y_high)));
    const Buffer<float> in_x(x), in_y(y);
    Buffer<float> out(x.size());
    launch(map_kernel<F>, 64, 256, 0, f, in_x.pointer, in_y.pointer, out.pointer, static_cast<int>(x.size()));
    const vector<float> result = out.read();
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double truth = reference(static_cast<double>(x[i]), static_cast<double>(y[i]));
        if (flushes && std::fabs(truth) < 1.2e-38 && result[i] == 0) continue;
        const double error = ulps(result[i], truth);
        if (error > worst) worst = error, at = i;
    }
    check(name, worst <= allowed, number(worst) + " ulp at " + number(x[at]) + (worst > allowed ? ", got " + number(result[at]) : ""));
}

struct Exp { __device__ float operator()(float x, float) const { return tracea::exp(x); } };
struct Exp2 { __device__ float operator()(float x, float) const { return tracea::exp2(x); } };
struct Log { __device__ float operator()(float x, float) const { return tracea::log(x); } };
struct Log2 { __device__ float operator()(float x, float) const { return tracea::log2(x); } };
struct Sqrt { __device__ float operator()(float x, float) const { return tracea::sqrt(x); } };
struct Rsqrt { __device__ float operator()(float x, float) const { return tracea::rsqrt(x); } };
struct Recip { __device__ float operator()(float x, float) const { return tracea::recip(x); } };
struct Tanh { __device__ float operator()(float x, float) const { return tracea::tanh(x); } };
struct Sin { __device__ float operator()(float x, float) const { return tracea::sin(x); } };
struct Cos { __device__ float operator()(float x, float) const { return tracea::cos(x); } };
struct Erf { __device__ float operator()(float x, float) const { return tracea::erf(x); } };
struct Abs { __device__ float operator()(float x, float) const { return tracea::abs(x); } };
struct Floor { __device__ float operator()(float x, float) const { return tracea::floor(x); } };
struct Ceil { __device__ float operator()(float x, float) const { return tracea::ceil(x); } };
struct Round { __device__ float operator()(float x, float) const { return tracea::round(x); } };
struct Pow { __device__ float operator()(float x, float y) const { return tracea::pow(x, y); } };
struct ExponentRate { __device__ float operator()(float x, float) const { return tracea::exponent_rate(x, 1.442695f); } };
struct MinOf { __device__ float operator()(float x, float y) const { return tracea::min(x, y); } };
struct MaxOf { __device__ float operator()(float x, float y) const { return tracea::max(y, x); } };

// The most, or so much that the product with a finite x stays under 2^25.
double exponent_rate_of(double x, double) {
    if (std::isnan(x) || std::isinf(x)) return std::ldexp(1.0, 24 - 128);
    return std::fabs(x) < std::ldexp(1.0, 24) ? 1.442695f : std::ldexp(1.0, 24 - std::ilogb(x));
}

void test_functions() {
    // Its error grows with |x|: two units and as many eighths as |x| has.
    test_function("exp, near 0", Exp{}, [](double x, double) { return std::exp(x); }, -8, 8, 12, false);
    test_function("exp", Exp{}, [](double x, double) { return std::exp(x); }, -100, 89, 112, true, true);
    test_function("exp2", Exp2{}, [](double x, double) { return std::exp2(x); }, -130, 128, 4, true, true);
    test_function("exponent rate", ExponentRate{}, exponent_rate_of, -4e7, 4e7, 0);
    test_function("log", Log{}, [](double x, double) { return std::log(x); }, 0, 10, 2);
    test_function("log2", Log2{}, [](double x, double) { return std::log2(x); }, 0, 10, 2);
    test_function("sqrt", Sqrt{}, [](double x, double) { return std::sqrt(x); }, 0, 1e6, 0.5);
    test_function("rsqrt", Rsqrt{}, [](double x, double) { return 1 / std::sqrt(x); }, 0, 1e6, 2.5);
    test_function("recip", Recip{}, [](double x, double) { return 1 / x; }, -10, 10, 1);
    test_function("tanh", Tanh{}, [](double x, double) { return std::tanh(x); }, -10, 10, 2.5);
    test_function("sin", Sin{}, [](double x, double) { return std::sin(x); }, -10, 10, 2);
    test_function("sin, larger", Sin{}, [](double x, double) { return std::sin(x); }, -2e5, 2e5, 2);
    test_function("cos", Cos{}, [](double x, double) { return std::cos(x); }, -10, 10, 2);
    test_function("cos, larger", Cos{}, [](double x, double) { return std::cos(x); }, -2e5, 2e5, 2);
    test_function("erf", Erf{}, [](double x, double) { return std::erf(x); }, -4, 4, 6);
    test_function("erf, saturated", Erf{}, [](double x, double) { return x < 0 ? -1.0 : 1.0; }, 3.96, 1e6, 0, false);
    test_function("abs", Abs{}, [](double x, double) { return std::fabs(x); }, -4, 4, 0);
    test_function("floor", Floor{}, [](double x, double) { return std::floor(x); }, -9, 9, 0);
    test_function("ceil", Ceil{}, [](double x, double) { return std::ceil(x); }, -9, 9, 0);
    test_function("round", Round{}, [](double x, double) { return std::round(x); }, -9, 9, 0);
    test_function("pow", Pow{}, [](double x, double y) { return std::pow(x, y); }, 0, 100, 8);
    test_function("min", MinOf{}, [](double x, double y) { return std::fmin(x, y); }, -9, 9, 0);
    test_function("max", MaxOf{}, [](double x, double y) { return std::fmax(x, y); }, -9, 9, 0);
}

// ---- conversions

template <class To, class From>
vector<To> convert(const vector<From>& x) {
    const Buffer<From> in(x);
    Buffer<To> out(x.size());
    launch(convert_kernel<To, From>, 64, 256, 0, in.pointer, out.pointer, static_cast<int>(x.size()));
    return out.read();
}

template <class T>
void test_round_trip() {
    vector<T> all(65536);
    for (int i = 0; i < 65536; ++i) all[i].bits = static_cast<unsigned short>(i);
    const vector<float> floats = convert<float>(all);
    const vector<T> back = convert<T>(floats);
    bool values = true, same_bits = true;
    for (int i = 0; i < 65536; ++i) {
        if (std::isnan(value(all[i]))) {
            values &= std::isnan(floats[i]);
            same_bits &= std::isnan(value(back[i]));
        } else {
            values &= floats[i] == value(all[i]);
            same_bits &= back[i].bits == all[i].bits;
        }
    }
    check("every " + name_of<T>() + " to float", values);
    check("every " + name_of<T>() + " through float and back", same_bits);
}

vector<float> floats_to_convert() {
    vector<float> x = special_values();
    for (int i = 0; i < 100000; ++i) {
        const uint32_t bits = generator();
        float v;
        std::memcpy(&v, &bits, 4);
        x.push_back(v);
        x.push_back(static_cast<float>(std::ldexp(uniform(-2, 2), static_cast<int>(uniform(-28, 17)))));
        // Ties of f16, bf16 and tf32.
        x.push_back(static_cast<float>(std::ldexp(2 * std::floor(uniform(1024, 2048)) + 1, static_cast<int>(uniform(-26, 5)))));
        x.push_back(static_cast<float>(std::ldexp(2 * std::floor(uniform(-256, -128)) + 1, static_cast<int>(uniform(-26, 5)))));
    }
    if (x.size() % 2) x.push_back(0);
    return x;
}

template <class T>
void test_rounding(const vector<float>& x) {
    bool good = true, packed = true;
    const auto agrees = [](double got, float from) {
        const double expected = round_to<T>(from);
        return std::isnan(expected) ? std::isnan(got) : got == expected && std::signbit(got) == std::signbit(expected);
    };
    if constexpr (same<T, tf32>) {
        const vector<T> y = convert<T>(x);
        for (size_t i = 0; i < x.size(); ++i) good &= agrees(y[i].value, x[i]);
    } else {
        const vector<T> y = convert<T>(x);
        for (size_t i = 0; i < x.size(); ++i) good &= agrees(value(y[i]), x[i]);
        const Buffer<float> in(x);
        Buffer<T> out(x.size());
        Buffer<float> back(x.size());
        launch(pack_kernel<T>, 64, 256, 0, in.pointer, out.pointer, back.pointer, static_cast<int>(x.size()));
        const vector<T> pairs = out.read();
        const vector<float> unpacked = back.read();
        for (size_t i = 0; i < x.size(); ++i) packed &= agrees(value(pairs[i]), x[i]) && agrees(unpacked[i], x[i]);
        check("pack2, unpack2 " + name_of<T>(), packed);
    }
    check("float to " + name_of<T>(), good);
}

template <class To, class From, class Reference>
void test_conversion(const vector<From>& x, Reference reference) {
    const vector<To> y = convert<To>(x);
    bool good = true;
    for (size_t i = 0; i < x.size(); ++i) {
        const double got = value(y[i]), expected = reference(value(x[i]));
        good &= std::isnan(expected) ? std::isnan(got) : got == expected;
    }
    check(name_of<From>() + " to " + name_of<To>(), good);
}

void test_conversions() {
    test_round_trip<f16>();
    test_round_trip<bf16>();
    const vector<float> floats = floats_to_convert();
    test_rounding<f16>(floats);
    test_rounding<bf16>(floats);
    test_rounding<tf32>(floats);
    const auto to_int = [](double x) {
        return std::isnan(x) ? 0.0 : std::trunc(std::min(std::max(x, -2147483648.0), 2147483647.0));
    };
    const auto keep = [](double x) { return x; };
    vector<int> integers = {0, 1, -1, 7, 65504, 65519, 65520, 16777217, 2147483647, -2147483647 - 1};
    for (int i = 0; i < 10000; ++i) integers.push_back(static_cast<int>(generator()) >> (i % 31));
    vector<f16> halves(65536);
    vector<bf16> bhalves(65536);
    for (int i = 0; i < 65536; ++i) halves[i].bits = bhalves[i].bits = static_cast<unsigned short>(i);
    test_conversion<int>(floats, to_int);
    test_conversion<int>(halves, to_int);
    test_conversion<int>(bhalves, to_int);
    test_conversion<bf16>(halves, [](double x) { return round_to<bf16>(x); });
    test_conversion<f16>(bhalves, [](double x) { return round_to<f16>(x); });
    test_conversion<float>(integers, [](double x) { return static_cast<double>(static_cast<float>(x)); });
    test_conversion<f16>(integers, [](double x) { return round_to<f16>(static_cast<float>(x)); });
    test_conversion<bf16>(integers, [](double x) { return round_to<bf16>(static_cast<float>(x)); });
    test_conversion<int>(integers, keep);
    const vector<float> some(floats.begin(), floats.begin() + 1000);
    Buffer<bool> flags(some.size());
    launch(convert_kernel<bool, float>, 4, 256, 0, Buffer<float>(some).pointer, flags.pointer, static_cast<int>(some.size()));
    vector<unsigned char> bytes(some.size());
    require(cudaMemcpy(bytes.data(), flags.pointer, bytes.size(), cudaMemcpyDeviceToHost), "copy from the device");
    bool good = true;
    for (size_t i = 0; i < some.size(); ++i) good &= bytes[i] == (some[i] != 0 ? 1 : 0);
    check("float to bool", good);
    Buffer<int> from_flags(some.size());
    launch(convert_kernel<int, bool>, 4, 256, 0, flags.pointer, from_flags.pointer, static_cast<int>(some.size()));
    const vector<int> ones = from_flags.read();
    for (size_t i = 0; i < some.size(); ++i) good &= ones[i] == bytes[i];
    check("bool to int", good);
}

void test_fast_div() {
    bool good = true;
    vector<int> x = {0, 1, 2, 3, 2147483647, 2147483646, 1073741824};
    for (int i = 0; i < 4000; ++i) x.push_back(static_cast<int>(generator() >> (1 + i % 31)));
    vector<unsigned> divisors = {1, 2, 3, 5, 7, 56, 64, 67, 3136, 65535, 65536, 65537, 1073741823, 1073741824, 1073741825, 2147483647};
    for (int i = 0; i < 200; ++i) divisors.push_back((generator() >> (1 + i % 30)) | 1u);
    const Buffer<int> in(x);
    Buffer<int> quotients(x.size()), remainders(x.size());
    for (const unsigned d : divisors) {
        launch(fast_div_kernel, 4, 256, 0, divisor_of(d), in.pointer, quotients.pointer, remainders.pointer, static_cast<int>(x.size()));
        const vector<int> q = quotients.read(), r = remainders.read();
        for (size_t i = 0; i < x.size(); ++i) {
            good &= q[i] == static_cast<int>(static_cast<unsigned>(x[i]) / d) && r[i] == static_cast<int>(static_cast<unsigned>(x[i]) % d);
        }
    }
    check("FastDiv, " + std::to_string(divisors.size()) + " divisors", good);
}

// ---- the order of blocks

// Group after group of rows, in each strip after strip of columns, in each row after row.
template <int GROUP, int STRIP>
void test_grouped(int rows, int cols) {
    const size_t blocks = static_cast<size_t>(rows) * cols;
    Buffer<int> row(blocks), col(blocks);
    launch(grouped_kernel<GROUP, STRIP>, 2, 256, 0, rows, cols, divisor_of(cols), by_last_group(rows, GROUP), row.pointer, col.pointer);
    const vector<int> r = row.read(), c = col.read();
    bool good = true;
    size_t i = 0;
    for (int group = 0; group < rows; group += GROUP) {
        for (int strip = 0; strip < cols; strip += STRIP) {
            for (int at = group; at < std::min(group + GROUP, rows); ++at) {
                for (int there = strip; there < std::min(strip + STRIP, cols); ++there, ++i) good &= r[i] == at && c[i] == there;
            }
        }
    }
    const string order = std::to_string(GROUP) + " rows by strips of " + std::to_string(STRIP);
    check("grouped, " + std::to_string(rows) + " x " + std::to_string(cols) + ", " + order, good);
}

template <int GROUP, int STRIP>
void test_grouped() {
    for (const int rows : {1, 2, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP + 3}) {
        for (const int cols : {1, 2, STRIP, STRIP + 1, 2 * STRIP + 1, 29}) test_grouped<GROUP, STRIP>(rows, cols);
    }
}

// Each once: by itself, a row goes from its last column to its first; of rows together, all blocks do.
void test_longest_first(int rows, int cols, int together) {
    const size_t blocks = static_cast<size_t>(rows) * cols;
    Buffer<int> row(blocks), col(blocks);
    launch(longest_first_kernel, 2, 256, 0, rows, divisor_of(cols), divisor_of(together), row.pointer, col.pointer);
    const vector<int> r = row.read(), c = col.read();
    vector<int> visits(blocks);
    bool good = true;
    const size_t apart = static_cast<size_t>(rows - together) * cols;
    for (size_t i = 0; i < blocks; ++i) {
        const bool inside = r[i] >= 0 && r[i] < rows && c[i] >= 0 && c[i] < cols;
        good &= inside && visits[r[i] * cols + c[i]]++ == 0;
        const bool goes_on = i % cols > 0 || i > apart;
        if (i < apart) good &= r[i] == static_cast<int>(i) / cols;
        if (i > 0 && goes_on) good &= c[i] <= c[i - 1];
    }
    check("longest first, " + std::to_string(rows) + " x " + std::to_string(cols) + ", " + std::to_string(together) + " rows together", good);
}

// ---- copies laid anew

// Elements of a tensor within memory that begins so many elements before it; axes from the outermost, the last stride is 1.
struct Strided {
    vector<int> sizes, strides;
    int first;

    int rows() const {
        int rows = 1;
        for (size_t axis = 0; axis + 1 < sizes.size(); ++axis) rows *= sizes[axis];
        return rows;
    }
    int row(int index) const {
        int place = first;
        for (size_t axis = sizes.size() - 1; axis-- > 0; index /= sizes[axis]) place += index % sizes[axis] * strides[axis];
        return place;
    }
    // One past the last element.
    int end() const {
        int end = first + 1;
        for (size_t axis = 0; axis < sizes.size(); ++axis) end += (sizes[axis] - 1) * strides[axis];
        return end;
    }
};

// Of all axes but the last.
OuterAxes outer_axes(const vector<int>& sizes, const vector<int>& strides, int bytes) {
    OuterAxes axes{};
    axes.count = std::max<int>(static_cast<int>(sizes.size()) - 1, 1);
    for (int axis = 0; axis + 1 < static_cast<int>(sizes.size()); ++axis) {
        const size_t from = sizes.size() - 2 - axis;
        if (axis + 1 < axes.count) axes.sizes[axis] = divisor_of(sizes[from]);
        axes.strides[axis] = static_cast<long long>(strides[from]) * bytes;
    }
    return axes;
}

template <class T>
void test_realign(const string& name, const vector<Strided>& tensors) {
    constexpr int per_block = 256, bytes = static_cast<int>(sizeof(T));
    Realignment all{};
    int blocks = 0;
    vector<vector<T>> sources, expected;
    vector<Buffer<T>*> in, out;
    for (const Strided& tensor : tensors) {
        const int columns = tensor.sizes.back(), pitch = (columns * bytes + 15) / 16 * 16 / bytes;
        sources.push_back(random_values<T>(tensor.end()));
        in.push_back(new Buffer<T>(sources.back()));
        out.push_back(new Buffer<T>(random_values<T>(static_cast<size_t>(tensor.rows() * pitch + 64), 2, 3)));
        expected.push_back(out.back()->read());
        for (int row = 0; row < tensor.rows(); ++row) {
            for (int col = 0; col < columns; ++col) expected.back()[row * pitch + col] = sources.back()[tensor.row(row) + col];
        }
        Realigned& entry = all.tensors[all.count++];
        entry.source = reinterpret_cast<const unsigned char*>(in.back()->pointer + tensor.first);
        entry.end = reinterpret_cast<const unsigned char*>(in.back()->pointer + tensor.end());
        entry.target = reinterpret_cast<unsigned char*>(out.back()->pointer);
        entry.first_block = blocks;
        entry.chunks = tensor.rows() * pitch * bytes / 16;
        entry.row_bytes = columns * bytes;
        entry.row_chunks = divisor_of(pitch * bytes / 16);
        entry.rows = outer_axes(tensor.sizes, tensor.strides, bytes);
        blocks += (entry.chunks + per_block - 1) / per_block;
    }
    launch(realign_kernel, blocks, 256, 0, all);
    bool good = true;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const vector<T> result = out[i]->read();
        const int columns = tensors[i].sizes.back(), pitch = (columns * bytes + 15) / 16 * 16 / bytes;
        for (size_t at = 0; at < result.size(); ++at) {
            const bool filler = at < static_cast<size_t>(tensors[i].rows() * pitch) && static_cast<int>(at) % pitch >= columns;
            good &= filler || equal_bits(result[at], expected[i][at]);
        }
        delete in[i];
        delete out[i];
    }
    check("realign " + name_of<T>() + ", " + name, good);
}

void test_realigned_copies() {
    for (int first = 0; first < 8; ++first) {
        const string name = ", from element " + std::to_string(first);
        test_realign<f16>("rows of 67" + name, {{{40, 67}, {67, 1}, first}});
        test_realign<f16>("rows of 3" + name, {{{2, 31, 17, 3}, {31 * 17 * 3, 17 * 3, 3, 1}, first}});
        test_realign<float>("rows of 5" + name, {{{9, 30, 5}, {150, 5, 1}, first}});
    }
    test_realign<f16>("one element", {{{1}, {1}, 3}});
    test_realign<f16>("rank 1", {{{1000}, {1}, 1}});
    test_realign<f16>("rows with gaps", {{{33, 130}, {139, 1}, 5}});
    test_realign<f16>("aligned rows", {{{33, 64}, {64, 1}, 0}});
    test_realign<f16>("one row, again and again", {{{33, 67}, {0, 1}, 1}});
    test_realign<bf16>("axes in another order", {{{5, 3, 7, 2, 11, 9}, {99, 10 * 495 + 1, 3 * 5 * 990 + 5, 495, 9, 1}, 1}});
    test_realign<f16>("four tensors", {{{300, 67}, {67, 1}, 0}, {{7, 1030}, {1031, 1}, 1}, {{5000, 3}, {3, 1}, 2}, {{1, 1}, {1, 1}, 3}});
}

// The axis of the tensor that is the copy's last stands beside it. Rows are filled up to whole chunks, or have something of others' behind them.
void test_transpose(const string& name, const vector<std::pair<Strided, int>>& tensors, bool filled_up = true, int width_bits = 6) {
    Transposition all{};
    int blocks = 0;
    vector<vector<unsigned>> expected;
    vector<Buffer<float>*> in, out;
    for (const auto& [tensor, last] : tensors) {
        const vector<float> source = random_values<float>(tensor.end());
        const int rank = static_cast<int>(tensor.sizes.size());
        const int rows = tensor.sizes[last], columns = tensor.sizes.back(), pitch = filled_up ? (rows + 3) / 4 * 4 : rows + 1;
        const int filled = filled_up ? pitch : rows;
        // Planes run over the other axes; one more stands for the last, which `outer_axes` leaves out.
        vector<int> sizes, strides;
        int planes = 1;
        for (int axis = 0; axis + 1 < rank; ++axis) {
            if (axis == last) continue;
            sizes.push_back(tensor.sizes[axis]), strides.push_back(tensor.strides[axis]);
            planes *= tensor.sizes[axis];
        }
        sizes.push_back(1), strides.push_back(1);
        in.push_back(new Buffer<float>(source));
        out.push_back(new Buffer<float>(random_values<float>(static_cast<size_t>(planes * columns * pitch + 64), 2, 3)));
        vector<float> copy = out.back()->read();
        for (int plane = 0; plane < planes; ++plane) {
            int first = tensor.first, rest = plane;
            for (size_t axis = sizes.size() - 1; axis-- > 0; rest /= sizes[axis]) first += rest % sizes[axis] * strides[axis];
            for (int row = 0; row < filled; ++row) {
                for (int col = 0; col < columns; ++col) {
                    copy[(plane * columns + col) * pitch + row] = row < rows ? source[first + row * tensor.strides[last] + col] : 0.0f;
                }
            }
        }
        Transposed& entry = all.tensors[all.count++];
        entry.source = reinterpret_cast<const unsigned char*>(in.back()->pointer + tensor.first);
        entry.target = reinterpret_cast<unsigned char*>(out.back()->pointer);
        entry.row_stride = tensor.strides[last];
        entry.first_block = blocks;
        entry.rows = rows, entry.columns = columns, entry.pitch = pitch;
        entry.element_bytes = sizeof(float), entry.filled = filled, entry.width_bits = width_bits;
        const int width = 1 << width_bits, height = Transposed::piece / width;
        const int across = (columns + width - 1) / width, down = (rows + height - 1) / height;
        entry.across = divisor_of(across), entry.down = divisor_of(down);
        entry.planes = outer_axes(sizes, strides, 4);
        blocks += planes * across * down;
        expected.push_back(vector<unsigned>(copy.size()));
        std::memcpy(expected.back().data(), copy.data(), 4 * copy.size());
    }
    launch(transposition_kernel, blocks, 256, 0, all);
    bool good = true;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const vector<float> result = out[i]->read();
        good &= std::memcmp(result.data(), expected[i].data(), 4 * result.size()) == 0;
        delete in[i];
        delete out[i];
    }
    check("transpose, " + name, good);
}

void test_transposed_copies() {
    for (int first = 0; first < 4; ++first) {
        const string name = ", from element " + std::to_string(first);
        test_transpose("67 x 130" + name, {{{{67, 130}, {130, 1}, first}, 0}});
        test_transpose("rows with gaps" + name, {{{{200, 61}, {67, 1}, first}, 0}});
    }
    test_transpose("67 x 130, with gaps between the copy's rows", {{{{67, 130}, {130, 1}, 1}, 0}}, false);
    test_transpose("planes, with gaps between the copy's rows", {{{{5, 70, 3}, {210, 3, 1}, 1}, 1}}, false);
    for (int width_bits = 3; width_bits <= 9; ++width_bits) {
        test_transpose("pieces of 2^" + std::to_string(width_bits) + " columns", {{{{3, 70, 530}, {70 * 530, 530, 1}, 1}, 1}}, false, width_bits);
        test_transpose("pieces of 2^" + std::to_string(width_bits) + " columns, filled up", {{{{530, 70}, {70, 1}, 1}, 0}}, true, width_bits);
    }
    test_transpose("one element", {{{{1, 1}, {1, 1}, 3}, 0}});
    test_transpose("one row", {{{{1, 1000}, {1000, 1}, 1}, 0}});
    test_transpose("one column", {{{{1000, 1}, {3, 1}, 1}, 0}});
    test_transpose("whole squares", {{{{128, 192}, {192, 1}, 0}, 0}});
    test_transpose("one row, again and again", {{{{33, 67}, {0, 1}, 1}, 0}});
    test_transpose("planes", {{{{5, 70, 3}, {210, 3, 1}, 1}, 1}});
    test_transpose("the outermost axis", {{{{70, 5, 3}, {15, 3, 1}, 1}, 0}});
    test_transpose("axes in another order", {{{{5, 3, 7, 2, 11}, {99, 6000, 600, 45, 1}, 1}, 2}});
    test_transpose("four tensors", {
        {{{300, 67}, {67, 1}, 0}, 0}, {{{7, 1030}, {1031, 1}, 1}, 0}, {{{3, 500, 3}, {1500, 3, 1}, 2}, 1}, {{{1, 1}, {1, 1}, 3}, 0}
    });
}

}  // namespace

int main() {
    test_conversions();
    test_fast_div();
    test_grouped<8, 1>();
    test_grouped<16, 2>();
    test_grouped<8, 4>();
    test_grouped<3, 2>();
    test_longest_first(1, 1, 1);
    test_longest_first(1, 7, 1);
    test_longest_first(9, 5, 1);
    test_longest_first(9, 5, 4);
    test_longest_first(9, 5, 9);
    test_longest_first(300, 1, 264);
    test_realigned_copies();
    test_transposed_copies();
    test_functions();
    test_layouts();
    test_shared_tiles<16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512>();
    test_copies();
    test_registers_to_global();
    test_dots<f16>();
    test_dots<bf16>();
    test_dots<tf32>();
    test_dots_fma<Simt<64, 64, 8, 16>, 16>();
    test_dots_fma<Simt<128, 128, 16, 16>, 8>();
    test_dots_fma<Simt<32, 32, 16, 8>, 32>();
    test_dot_fma<Blocked<128, 128, 16, 16, 1>, 32, k_major, k_major>();
    test_dot_fma<Blocked<64, 32, 8, 16, 1>, 16, mn_major, k_major>();
    test_reductions();
    test_exchanges<float>();
    test_exchanges<f16>();
    test_exchanges<int>();
    test_copies_turned<f16, 64, 128>();
    test_copies_turned<bf16, 128, 64>();
    test_copies_turned<float, 64, 64>();
    test_transposes<float, float>();
    test_transposes<f16, f16>();
    test_transposes<f16, float>();
    test_transposes<bf16, float>();
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
