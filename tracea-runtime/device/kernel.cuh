// Everything that an emitted kernel uses. Emitted code is written inside `namespace tracea`, so that `exp`, `min` and the
// like mean the functions of math.cuh and not the toolkit's global ones.
#pragma once

#include "tracea/copy.cuh"
#include "tracea/copy_turned.cuh"
#include "tracea/dot.cuh"
#include "tracea/element.cuh"
#include "tracea/exchange.cuh"
#include "tracea/fast_div.cuh"
#include "tracea/gather.cuh"
#include "tracea/grid.cuh"
#include "tracea/held_rows.cuh"
#include "tracea/kept.cuh"
#include "tracea/layout.cuh"
#include "tracea/math.cuh"
#include "tracea/operand.cuh"
#include "tracea/parts.cuh"
#include "tracea/reduce.cuh"
#include "tracea/shared_tile.cuh"
#include "tracea/skewed_rows.cuh"
#include "tracea/store.cuh"
#include "tracea/types.cuh"
#include "tracea/whole_rows.cuh"
