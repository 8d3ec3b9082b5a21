// Everything that an emitted kernel uses. Emitted code is written inside `namespace tracea`, so that `exp`, `min` and the
// like mean the functions of math.cuh and not the toolkit's global ones.
#pragma once

#include "tracea/copy.cuh"
#include "tracea/fast_div.cuh"
#include "tracea/layout.cuh"
#include "tracea/shared_tile.cuh"
#include "tracea/types.cuh"
