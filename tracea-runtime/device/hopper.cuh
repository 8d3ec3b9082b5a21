// Everything that an emitted kernel for sm_90a uses.
#pragma once

#include "tracea/barrier.cuh"
#include "tracea/cluster.cuh"
#include "tracea/dealt_panels.cuh"
#include "tracea/early_cols.cuh"
#include "tracea/kernel.cuh"
#include "tracea/launch_order.cuh"
#include "tracea/mbarrier.cuh"
#include "tracea/panel_tile.cuh"
#include "tracea/panels.cuh"
#include "tracea/ring.cuh"
#include "tracea/tma.cuh"
#include "tracea/transposed_panels.cuh"
#include "tracea/unit_queue.cuh"
#include "tracea/warpgroup.cuh"
#include "tracea/wgdot.cuh"
#include "tracea/wgmma.cuh"
