// What a block of the affine kernels knows about its tile, prepared once in shared memory.
#pragma once

#include "core/warp/affine_pixel.h"
#include "cuda/warp/tall_tiles.h"

namespace visops {
namespace {

// The map and the segment of each row of the tile.
template <class Acc>
struct TileMap {
  AffineMap map;
  SegmentOrigin<Acc> origin[kMostTileRows];
};

// Called by all threads of the block, and synchronizes them. The first warp does the rows.
template <class Acc>
__device__ inline void prepare_tile(const AffineParams& p, const TileAt& at, int rows,
                                    TileMap<Acc>* tile) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < kWarp) {
    const AffineMap map = affine_map(p, at.sample);
    for (int row = lane; row < rows; row += kWarp) {
      tile->origin[row] = segment_origin<Acc>(map.m, at.x, at.y + row);
    }
    if (lane == 0) tile->map = map;
  }
  __syncthreads();
}

}  // namespace
}  // namespace visops
