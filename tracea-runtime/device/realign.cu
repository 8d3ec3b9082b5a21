#include "tracea/launch_order.cuh"
#include "tracea/realign.cuh"

extern "C" __global__ void __launch_bounds__(256) realign(const __grid_constant__ tracea::Realignment all) {
    tracea::realign<256>(all);
    tracea::let_next_launch_begin();
}
