// NOTE [ Tall tiles ]
// What a block computes before the pixels of a tile is in float64, by few of its threads: the map
// of the sample, then the origin of every row of NOTE [ Affine coordinates ]. So a tile is as wide
// as a segment, of which a row has one origin, and as tall as leaves enough tiles for a large
// device. Then most lanes of a warp have a row to prepare, and hundreds of pixels share its work.
//
// Threads go through the tile in pieces of kTileWidth columns of a row, so that narrow outputs
// leave none of them idle; each keeps to one column.
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
constexpr int64_t kManyTiles = 1024;  // some 7 for each multiprocessor of the largest devices
#endif

constexpr int kTileParts = 4;  // of a block, with a piece each
constexpr int kTileThreads = kTileWidth * kTileParts;

inline TileGrid tall_tiles(int64_t batch, int64_t height, int64_t width,
                           int64_t least_rows = kLeastTileRows, int64_t most_rows = kMostTileRows,
                           int tile_width = kSegment) {
  const int64_t segments = batch * parts_of(width, tile_width);
  // Tiles above one another. Not by segments * height, which may overflow.
  const int64_t wanted = segments > 0 ? parts_of(kManyTiles, segments) : 1;
  const int64_t least = parts_of(height, most_rows);
  const int64_t tiles = wanted > least ? wanted : least;
  const int64_t rows = parts_of(height, tiles);
  const int64_t tile_rows = rows > least_rows ? rows : least_rows;
  return tile_grid(batch, height, width, static_cast<int>(tile_rows), tile_width);
}

// Rows of a tile that are in the output.
__device__ inline int rows_of(const TileGrid& grid, const TileAt& at, int64_t output_height) {
  const int64_t left = output_height - at.y;
  return left < grid.height ? static_cast<int>(left) : grid.height;
}

// This thread's pixels of a tile: of one column, every `step`-th row from `row` on. All threads of
// a warp have the same rows. The column may be beyond the output.
struct TileWalk {
  int column, row, step;
};

__device__ inline TileWalk tile_walk(const TileAt& at, int64_t output_width) {
  static_assert(kSegment == 2 * kTileWidth, "a row has one piece or two");
  const int pieces = output_width - at.x > kTileWidth ? 2 : 1;
  const int part = static_cast<int>(threadIdx.x) / kTileWidth;
  return {part % pieces * kTileWidth + static_cast<int>(threadIdx.x) % kTileWidth, part / pieces,
          kTileParts / pieces};
}

// use(row, column) for this thread's pixels of a tile.
template <class Use>
__device__ void for_tile_pixels(const TileAt& at, int rows, int64_t output_width, const Use& use) {
  const TileWalk walk = tile_walk(at, output_width);
  for (int row = walk.row; row < rows; row += walk.step) use(row, walk.column);
}

}  // namespace
}  // namespace visops
