// Tiles of an output [batch, height, width], and how blocks find theirs.
#pragma once

#include <cstdint>

#include "core/numbers/arithmetic.h"
#include "core/platform.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kWarp = 32;
constexpr int kTileWidth = 64;

// Tiles of `width` x `height` pixels; columns vary fastest.
struct TileGrid {
  int32_t width, height;
  int32_t columns, rows;  // of tiles
  int64_t count;
};

// For sizes below 2^31.
inline TileGrid tile_grid(int64_t batch, int64_t output_height, int64_t output_width,
                          int tile_height, int tile_width = kTileWidth) {
  TileGrid grid;
  grid.width = tile_width;
  grid.height = tile_height;
  grid.columns = static_cast<int32_t>(parts_of(output_width, tile_width));
  grid.rows = static_cast<int32_t>(parts_of(output_height, tile_height));
  grid.count = batch * grid.rows * grid.columns;
  return grid;
}

struct TileAt {
  int64_t sample;
  int32_t y, x;  // of its first pixel
};

__device__ inline TileAt tile_at(const TileGrid& grid, int64_t tile) {
  const int64_t row = tile / grid.columns;
  TileAt at;
  at.sample = row / grid.rows;
  at.y = static_cast<int32_t>(row - at.sample * grid.rows) * grid.height;
  at.x = static_cast<int32_t>(tile - row * grid.columns) * grid.width;
  return at;
}

}  // namespace
}  // namespace visops
