// What a block of the affine kernels knows of its sample, prepared once in shared memory.
#pragma once

#include "core/affine_pixel.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// A tile lies in one segment of NOTE [ Affine coordinates ]; a thread has one of its pixels.
constexpr int kTileWidth = 64;
static_assert(kSegment % kTileWidth == 0, "a tile has one segment");
constexpr int kTileHeight = 4;
constexpr int kTileThreads = kTileWidth * kTileHeight;

// Tiles of [batch, height, width], the column fastest.
struct TileGrid {
  int64_t columns, rows, count;
};

inline TileGrid tile_grid(int64_t batch, int64_t height, int64_t width) {
  TileGrid grid;
  grid.columns = (width + kTileWidth - 1) / kTileWidth;
  grid.rows = (height + kTileHeight - 1) / kTileHeight;
  grid.count = batch * grid.rows * grid.columns;
  return grid;
}

struct TileAt {
  int64_t sample, y, x;  // of its first pixel
};

__device__ inline TileAt tile_at(const TileGrid& grid, int64_t tile) {
  const int64_t row = tile / grid.columns;
  TileAt at;
  at.sample = row / grid.rows;
  at.y = (row - at.sample * grid.rows) * kTileHeight;
  at.x = (tile - row * grid.columns) * kTileWidth;
  return at;
}

// The map and the segment of each row of the tile.
template <class Acc>
struct TileMap {
  AffineMap map;
  SegmentOrigin<Acc> origin[kTileHeight];
};

// By all threads of the block, which meet here. The threads of one warp each do a row.
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
