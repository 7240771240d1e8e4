// NOTE [ Tall tiles ]
// What a block computes before the pixels of a tile is in float64, by few of its threads: the map
// of the sample, then the origin of every row of NOTE [ Affine coordinates ]. So a tile is as wide
// as a segment, of which a row has one origin, and as tall as leaves enough tiles for a large
// device. Then most lanes of a warp have a row to prepare, and hundreds of pixels share its work.
//
// Threads go through the tile in pieces of kTileWidth columns of a row, so that narrow outputs
// leave none of them idle.
#pragma once

#include "core/warp/affine.h"
#include "cuda/tile_grid.h"

namespace visops {
namespace {

constexpr int kMostTileRows = 64;
constexpr int kLeastTileRows = 8;
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int64_t kManyTiles = 8;  // few, so that tests see tiles of several heights
#else
constexpr int64_t kManyTiles = 2048;  // some 15 for each multiprocessor of the largest devices
#endif

constexpr int kTileParts = 4;  // of a block, with a piece each
constexpr int kTileThreads = kTileWidth * kTileParts;

inline TileGrid tall_tiles(int64_t batch, int64_t height, int64_t width) {
  const int64_t segments = batch * parts_of(width, kSegment);
  // Tiles above one another. Not by segments * height, which may overflow.
  const int64_t wanted = segments > 0 ? parts_of(kManyTiles, segments) : 1;
  const int64_t least = parts_of(height, kMostTileRows);
  const int64_t tiles = wanted > least ? wanted : least;
  const int64_t rows = parts_of(height, tiles);
  const int64_t tile_rows = rows > kLeastTileRows ? rows : kLeastTileRows;
  return tile_grid(batch, height, width, static_cast<int>(tile_rows), kSegment);
}

// Rows of a tile that are in the output.
__device__ inline int rows_of(const TileGrid& grid, const TileAt& at, int64_t output_height) {
  const int64_t left = output_height - at.y;
  return left < grid.height ? static_cast<int>(left) : grid.height;
}

// use(row, column) for this thread's pixels of a tile; those of its last columns may be beyond the
// output. All threads of a warp have the same row.
template <class Use>
__device__ void for_tile_pixels(const TileAt& at, int rows, int64_t output_width, const Use& use) {
  static_assert(kSegment == 2 * kTileWidth, "a row has one piece or two");
  const bool is_wide = output_width - at.x > kTileWidth;
  const int pieces = is_wide ? 2 * rows : rows;
  const int lane = static_cast<int>(threadIdx.x) % kTileWidth;
  for (int piece = static_cast<int>(threadIdx.x) / kTileWidth; piece < pieces;
       piece += kTileParts) {
    const int row = is_wide ? piece / 2 : piece;
    use(row, (is_wide ? piece % 2 * kTileWidth : 0) + lane);
  }
}

}  // namespace
}  // namespace visops
