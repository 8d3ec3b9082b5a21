// Accumulators → global memory by panels of 64 rows and 128 bytes of columns, of which the last may have fewer, and what they take in on
// their way: each warpgroup for itself, through places of its own in shared memory, of which one is on its way while the next is
// written, so that nobody waits for other warpgroups. Where a warpgroup has several times 64 rows, the panels of the first 64 come first.
//
//     for each panel of the tile's columns, in an unrolled loop:
//         read_panel, load_panel, load_panel_elements: what the result takes in
//         await_panel (where TMA sends); the warpgroup's barrier
//         write_panel;                   the warpgroup's barrier, with a fence before it where TMA sends
//         one thread: tma_store, tma_store_commit;       or else all: store_panel
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/copy.cuh"
#include "tracea/layout.cuh"
#include "tracea/panel_tile.cuh"
#include "tracea/stmatrix.cuh"
#include "tracea/store.cuh"
#include "tracea/tma.cuh"

namespace tracea {

// The first of a tile's rows that are the thread's warpgroup's.
#ifdef TRACEA_TILES_APART
__device__ __forceinline__ int row_of_warpgroup(int) { return 0; }
#else
__device__ __forceinline__ int row_of_warpgroup(int thread) { return thread / 128 * 64; }
#endif

// Where a panel lies of which so many lie beside each other: its place among these, the first row of its warpgroup, and of its warp. A kernel whose
// warpgroups have several times 64 rows defines as TRACEA_ROWS_APART how far these lie from each other. No division stands where it is not
// needed: the assembler arranges even code differently from which it has vanished, and spills.
#ifdef TRACEA_ROWS_APART
__device__ __forceinline__ int column_of_panel(int panel, int beside) { return panel % beside; }
__device__ __forceinline__ int row_of_panel(int panel, int beside, int thread) {
    return panel / beside * TRACEA_ROWS_APART + row_of_warpgroup(thread);
}
__device__ __forceinline__ int first_row_of_warp(int panel, int beside) { return panel / beside * TRACEA_ROWS_APART + warp_index() * 16; }
#else
__device__ __forceinline__ int column_of_panel(int panel, int) { return panel; }
__device__ __forceinline__ int row_of_panel(int, int, int thread) { return row_of_warpgroup(thread); }
__device__ __forceinline__ int first_row_of_warp(int, int) { return warp_index() * 16; }
#endif

// The first of the tile's rows that are this warpgroup's, and of those that a panel holds.
__device__ __forceinline__ int panel_row() { return row_of_warpgroup(static_cast<int>(threadIdx.x)); }
__device__ __forceinline__ int panel_row(int panel, int beside) { return row_of_panel(panel, beside, static_cast<int>(threadIdx.x)); }

// Panels of so many of a thread's registers, beside each other in 64 rows.
template <class L, int REGISTERS>
__device__ __forceinline__ constexpr int panels_beside() {
    constexpr int registers = L::size / L::row_blocks;
    static_assert(L::warps_n == 1, "a warp holds 16 whole rows");
    return (registers + REGISTERS - 1) / REGISTERS;
}

// A panel's registers: the first, and the one past the last.
#ifdef TRACEA_ROWS_APART
template <class L, int REGISTERS>
__device__ __forceinline__ constexpr int first_register(int panel) {
    constexpr int beside = panels_beside<L, REGISTERS>();
    return panel / beside * (L::size / L::row_blocks) + panel % beside * REGISTERS;
}
template <class L, int REGISTERS>
__device__ __forceinline__ constexpr int end_register(int panel) {
    constexpr int beside = panels_beside<L, REGISTERS>();
    const int end = first_register<L, REGISTERS>(panel) + REGISTERS, row = (panel / beside + 1) * (L::size / L::row_blocks);
    return end < row ? end : row;
}
#else
template <class L, int REGISTERS>
__device__ __forceinline__ constexpr int first_register(int panel) {
    static_assert(panels_beside<L, REGISTERS>() > 0 && L::row_blocks == 1, "a warp holds 16 whole rows");
    return panel * REGISTERS;
}
template <class L, int REGISTERS>
__device__ __forceinline__ constexpr int end_register(int panel) {
    return (panel + 1) * REGISTERS < L::size ? (panel + 1) * REGISTERS : L::size;
}
#endif

// Where this panel lies on its way; the warpgroup's PLACES take turns.
template <class Panel, int PLACES>
__device__ __forceinline__ typename Panel::element* own_panel(typename Panel::element* panels, int panel) {
    return panels + (static_cast<int>(threadIdx.x) / 128 * PLACES + panel % PLACES) * (Panel::rows * Panel::cols);
}

// One thread of the warpgroup asks TMA for copies, and waits for stores.
__device__ __forceinline__ bool sends_panels() { return threadIdx.x % 128 == 0; }

// Asks TMA for a panel that the warpgroup takes in, its so-manieth, to the place that comes next.
template <class Panel, int PLACES, class... At>
__device__ __forceinline__ void fetch_own_panel(typename Panel::element* panels, Barrier* came, int count, const TensorMap& map, At... at) {
    Barrier* const barrier = came + (static_cast<int>(threadIdx.x) / 128 * PLACES + count % PLACES);
    mbarrier_arrive_expect_tx(barrier, Panel::bytes);
    tma_load(own_panel<Panel, PLACES>(panels, count), map, barrier, at...);
}

template <int PLACES>
__device__ __forceinline__ void await_own_panel(Barrier* came, int count) {
    mbarrier_wait(came + (static_cast<int>(threadIdx.x) / 128 * PLACES + count % PLACES), count / PLACES % 2);
}

// Until TMA has read what lay in this panel's place, of so many: the first panel's may be on its way since the last tile, and between two that have the
// same place others are sent from the other places.
template <int PLACES>
__device__ __forceinline__ void await_panel(int panel) {
    if (sends_panels()) panel == 0 ? tma_store_wait_read<0>() : tma_store_wait_read<PLACES - 1>();
}

// Before a block ends: what TMA has been asked for has left shared memory.
__device__ __forceinline__ void finish_panels() {
    if (sends_panels()) tma_store_wait_read<0>();
}

// Of 16 rows to a warp, where in a panel a thread's register lies: the row counted from the warp's first.
struct PanelFragment {
    int lane;
    __device__ __forceinline__ int row(int r) const { return lane / 4 + r / 2 % 2 * 8; }
    __device__ __forceinline__ int col(int r) const { return r / 4 * 8 + lane % 4 * 2 + r % 2; }
};

// This panel's registers → its place, converted. Where they go is found out here: known from before, it would take registers beside
// the accumulators'.
template <class L, class Panel, class E>
__device__ __forceinline__ void write_panel(const E (&x)[L::size], int panel, typename Panel::element* place) {
    using T = typename Panel::type;
    constexpr int pair = 2 * static_cast<int>(sizeof(typename Panel::element)), registers = Panel::cols / 2;
    const int first_own = first_register<L, registers>(panel), end = end_register<L, registers>(panel);
    const int thread = thread_index_anew() % 128, first = thread / 32 * 16;
    // Tiles of one panel are those of blocks that share a multiprocessor, and have no registers for it.
    if constexpr (pair == 4 && L::size > registers) {
        // Lanes give the rows of two neighbouring chunks. The next two lie as far from these as a row's bits say, for all rows alike.
        const unsigned at = shared_address(place + Panel::offset(first + thread % 16, thread / 16 % 2 * Panel::chunk));
#pragma unroll
        for (int r = 0; r < registers; r += 8) {
            if (first_own + r >= end) break;
            unsigned pairs[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                // Of an odd number of column blocks the last one has zeros beside it, in its place if not in the tile.
                const int own = first_own + r + 2 * i;
                pairs[i] = own < end ? words_of<T, pair>(x, own).word[0] : 0;
            }
            stmatrix_x4(at ^ r * 4, pairs);
        }
    } else {
        const PanelFragment fragment{lane_index()};
#pragma unroll
        for (int r = 0; r < registers; r += 2) {
            if (first_own + r >= end) break;
            const int offset = Panel::offset(first + fragment.row(r), fragment.col(r));
            store_words<pair>(place + offset, words_of<T, pair>(x, first_own + r));
        }
    }
}

// A panel of all the tile's rows in shared memory, or of the warpgroup's 64 → its registers, converted.
template <class L, class Panel, class E>
__device__ __forceinline__ void read_panel(E (&x)[L::size], int panel, const typename Panel::element* from) {
    using T = typename Panel::element;
    constexpr int pair = 2 * static_cast<int>(sizeof(T)), registers = Panel::cols / 2;
    constexpr bool own = Panel::rows == 64;
    static_assert(own || (Panel::rows == L::rows && L::row_blocks == 1), "a warp holds 16 of its rows");
    const int first_own = first_register<L, registers>(panel), end = end_register<L, registers>(panel);
    const int first = (own ? warp_index() % 4 : warp_index()) * 16;
    const PanelFragment fragment{lane_index()};
#pragma unroll
    for (int r = 0; r < registers; r += 2) {
        if (first_own + r >= end) break;
        const Words<pair> v = load_words<pair>(from + Panel::offset(first + fragment.row(r), fragment.col(r)));
        x[first_own + r] = to<E>(element<T>(v, 0));
        x[first_own + r + 1] = to<E>(element<T>(v, 1));
    }
}

// Straight from global memory → the panel's registers, converted: source(row) says where the tile's rows begin, aligned to ALIGN
// bytes, and columns [0, valid_cols) of the tile exist. Where a thread's elements lie is found out here: known from before, that
// would take registers beside the accumulators'.
template <class L, int ALIGN, int REGISTERS, class E, class Rows>
__device__ __forceinline__ void load_panel(E (&x)[L::size], int panel, Rows source, int valid_cols) {
    using T = pointee<decltype(source(0).pointer)>;
    constexpr int element_bytes = static_cast<int>(sizeof(T)), pair = 2 * element_bytes, beside = panels_beside<L, REGISTERS>();
    const int lane = thread_index_anew() % 32, row = first_row_of_warp(panel, beside) + lane / 4;
    const int col = column_of_panel(panel, beside) * (2 * REGISTERS) + lane % 4 * 2;
    const int first_own = first_register<L, REGISTERS>(panel), end = end_register<L, REGISTERS>(panel);
    const RowSource<T> rows[2] = {source(row), source(row + 8)};
    const int left = valid_cols - col;
    // An edge cuts no pair unless strides are unusual.
    const bool whole = ALIGN >= pair && valid_cols % 2 == 0;
#pragma unroll
    for (int r = 0; r < REGISTERS; r += 2) {
        if (first_own + r >= end) break;
        const auto from = rows[r / 2 % 2];
        const int at = r / 4 * 8;
        Words<pair> v{};
        if (whole) {
            if (from.valid && at < left) v = load_words<pair>(from.pointer + col + at);
            x[first_own + r] = to<E>(element<T>(v, 0));
            x[first_own + r + 1] = to<E>(element<T>(v, 1));
        } else {
            x[first_own + r] = from.valid && at < left ? to<E>(from.pointer[col + at]) : E{};
            x[first_own + r + 1] = from.valid && at + 1 < left ? to<E>(from.pointer[col + at + 1]) : E{};
        }
    }
}

template <class L, int REGISTERS, class E, class Elements>
__device__ __forceinline__ void load_panel_elements(E (&x)[L::size], int panel, Elements source) {
    constexpr int beside = panels_beside<L, REGISTERS>();
    const int first_own = first_register<L, REGISTERS>(panel), end = end_register<L, REGISTERS>(panel);
    const int lane = thread_index_anew() % 32, row = first_row_of_warp(panel, beside) + lane / 4;
    const int col = column_of_panel(panel, beside) * (2 * REGISTERS) + lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < REGISTERS; ++r) {
        if (first_own + r >= end) break;
        const auto from = source(row + r / 2 % 2 * 8, col + r / 4 * 8 + r % 2);
        x[first_own + r] = from.valid ? to<E>(*from.pointer) : E{};
    }
}

// Its place → global memory, by the warpgroup's threads: target(row) says where the rows of a tile of COLS columns begin, aligned to
// ALIGN bytes, and columns [0, valid_cols) of the tile exist. What the panel before left at its end goes with this one,
// unless this one is `alone`: then the panels beside it are other blocks' to store. Chunks that are put together take registers: a thread has
// BATCH of them on their way.
template <class Panel, int PLACES, int ALIGN, int COLS, int BATCH, class Rows>
__device__ __forceinline__ void store_panel(const typename Panel::element* panels, int panel, Rows target, int valid_cols,
                                            bool alone = false) {
    using T = typename Panel::element;
    // Threads that write have many addresses to compute, none of which may be kept in registers through a main loop.
    constexpr int elements = Panel::rows * Panel::cols, beside = (COLS + Panel::cols - 1) / Panel::cols;
    const int index = thread_index_anew(), group = index / 128, first = column_of_panel(panel, beside) * Panel::cols;
    const T* const now = panels + (group * PLACES + panel % PLACES) * elements;
    const int back = ((panel + PLACES - 1) % PLACES - panel % PLACES) * elements;
    constexpr int batch = ALIGN >= 16 ? 2 : BATCH;
    // The last panel may be as wide as what the next tile has there.
    if constexpr (COLS % Panel::cols != 0) valid_cols = min(valid_cols, COLS);
    if (ALIGN < 16 && alone) {
        constexpr int last_chunk = Panel::cols - Panel::chunk;
        store_staged_rows<T, ALIGN, Panel::rows, Panel::cols, 128, batch, batch>(
            index % 128, 0, Panel::cols, valid_cols - first,
            [&](int row) {
                const auto at = target(row_of_panel(panel, beside, index) + row);
                return RowTarget<T>{at.pointer + first, at.valid};
            },
            [&](int row, int col) { return now + Panel::offset(row, min(max(col, 0), last_chunk)); });
        return;
    }
    store_staged_rows<T, ALIGN, Panel::rows, Panel::cols, 128, batch, batch>(
        index % 128, first, COLS, valid_cols, [&](int row) { return target(row_of_panel(panel, beside, index) + row); },
        [&](int row, int col) { return now + (col < first ? back : 0) + Panel::offset(row, col & (Panel::cols - 1)); });
}

}  // namespace tracea
