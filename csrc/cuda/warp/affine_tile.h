// What a block of the affine kernels knows about its tile, prepared once in shared memory.
#pragma once

#include "core/warp/affine_pixel.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"

namespace visops {
namespace {

// A tile lies in one segment of NOTE [ Affine coordinates ]; each thread has one pixel.
constexpr int kTileHeight = 4;
constexpr int kTileThreads = kTileWidth * kTileHeight;
static_assert(kSegment % kTileWidth == 0, "a tile lies in one segment");

// The map and the segment of each row of the tile.
template <class Acc>
struct TileMap {
  AffineMap map;
  SegmentOrigin<Acc> origin[kTileHeight];
};

// Called by all threads of the block, and synchronizes them. Threads of one warp do a row each.
template <class Acc>
__device__ inline void prepare_tile(const AffineParams& p, const TileAt& at, TileMap<Acc>* tile) {
  const int row = static_cast<int>(threadIdx.x);
  if (row < kTileHeight) {
    const AffineMap map = affine_map(p, at.sample);
    tile->origin[row] = segment_origin<Acc>(map.m, at.x - at.x % kSegment, at.y + row);
    if (row == 0) tile->map = map;
  }
  __syncthreads();
}

}  // namespace
}  // namespace visops
