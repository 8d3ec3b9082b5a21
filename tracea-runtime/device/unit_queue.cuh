// Units of work that differ in length: a block that is done takes the first that no block has.
#pragma once

#include "tracea/layout.cuh"
#include "tracea/mbarrier.cuh"

namespace tracea {

// By which a block's producer passes units to all of its warps. The first is the block's own number; so many as there are blocks are taken
// by that, and the others are counted. `done` counts the units that a thread is done with.
class UnitQueue {
    static constexpr int PLACES = 2;
    Barrier* const full;

    __device__ __forceinline__ Barrier* empty() const { return full + PLACES; }
    __device__ __forceinline__ int* places() const { return reinterpret_cast<int*>(full + 2 * PLACES); }
    __device__ __forceinline__ static int place(int done) { return (done - 1) % PLACES; }
    __device__ __forceinline__ static int phase(int done) { return (done - 1) / PLACES % 2; }

  public:
    __device__ __forceinline__ explicit UnitQueue(unsigned char* shared) : full(reinterpret_cast<Barrier*>(shared)) {}

    // By one thread, for so many warps that read what it says.
    __device__ __forceinline__ void init(int warps) const {
        for (int place = 0; place < PLACES; ++place) {
            mbarrier_init(full + place, 1);
            mbarrier_init(empty() + place, warps);
        }
    }

    // By one thread. Each unit of the grid is followed by one call, so that the last of these, the `units`-th, makes `taken` 0 again.
    __device__ __forceinline__ void take(unsigned* taken, int units, int done) const {
        const unsigned before = atomicInc(taken, static_cast<unsigned>(units) - 1);
        mbarrier_wait(empty() + place(done), phase(done) ^ 1);
        places()[place(done)] = static_cast<int>(gridDim.x + before);
        mbarrier_arrive(full + place(done));
    }

    // What has been taken, by all threads of the warps that read it.
    __device__ __forceinline__ int next(int done) const {
        mbarrier_wait(full + place(done), phase(done));
        const int unit = places()[place(done)];
        __syncwarp();
        if (lane_index() == 0) mbarrier_arrive(empty() + place(done));
        return unit;
    }
};

}  // namespace tracea
