// Tiles of an output [batch, height, width], and how blocks find theirs.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kTileWidth = 64;

// Tiles of kTileWidth x Height pixels; columns vary fastest.
struct TileGrid {
  int64_t columns, rows, count;
};

template <int Height>
inline TileGrid tile_grid(int64_t batch, int64_t height, int64_t width) {
  TileGrid grid;
  grid.columns = (width + kTileWidth - 1) / kTileWidth;
  grid.rows = (height + Height - 1) / Height;
  grid.count = batch * grid.rows * grid.columns;
  return grid;
}

struct TileAt {
  int64_t sample, y, x;  // of its first pixel
};

template <int Height>
__device__ inline TileAt tile_at(const TileGrid& grid, int64_t tile) {
  const int64_t row = tile / grid.columns;
  TileAt at;
  at.sample = row / grid.rows;
  at.y = (row - at.sample * grid.rows) * Height;
  at.x = (tile - row * grid.columns) * kTileWidth;
  return at;
}

}  // namespace
}  // namespace visops
