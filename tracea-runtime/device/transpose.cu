#include "tracea/launch_order.cuh"
#include "tracea/transpose.cuh"

extern "C" __global__ void __launch_bounds__(256, 4) transpose(const __grid_constant__ tracea::Transposition all) {
    tracea::transpose<256>(all);
    tracea::let_next_launch_begin();
}
