// What a block of the affine kernel knows about its tile, prepared once in shared memory.
#pragma once

#include "core/warp/affine_pixel.h"
#include "cuda/warp/inner_pixels.h"
#include "cuda/warp/tall_tiles.h"

namespace visops {
namespace {

constexpr int kFills = 4;

// The map, and the segment of each row of the tile: of inner pixels and of all others.
template <class T, class Acc = typename Accumulate<T>::type>
struct TileMap {
  AffineMap map;
  T fill[kFills];  // of the first channels
  SegmentOrigin<Acc> origin[kMostTileRows];
  InnerRow<Acc> inner[kMostTileRows];
};

template <Interpolation mode, class T, class Acc>
__device__ inline void prepare_rows(const AffineParams& p, const AffineMap& map, const TileAt& at,
                                    int rows, TileMap<T, Acc>* tile) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto step_x = static_cast<Acc>(map.m[0]), step_y = static_cast<Acc>(map.m[3]);
  const bool fits = map.valid && is_small_step(step_x) && is_small_step(step_y) &&
                    has_small_offsets(p.height, p.width, p.image_stride.row, p.image_stride.column);
  for (int row = lane; row < rows; row += kWarp) {
    const SegmentOrigin<Acc> origin = segment_origin<Acc>(map.m, at.x, at.y + row);
    tile->origin[row] = origin;
    const InnerAxis x = inner_axis<mode>(origin.x, 0, fits ? p.width - 1 : -1);
    const InnerAxis y = inner_axis<mode>(origin.y, 0, fits ? p.height - 1 : -1);
    tile->inner[row] = {x.origin,  y.origin, x.count, y.count, origin.fx,
                        origin.fy, step_x,   step_y,  0};
  }
}

// Called by all threads of the block, and synchronizes them. The first warp does the rows.
template <Interpolation mode, class T, class Acc>
__device__ inline void prepare_tile(const AffineParams& p, const TileAt& at, int rows,
                                    TileMap<T, Acc>* tile) {
  const int fill = static_cast<int>(threadIdx.x) - kWarp;  // of the second warp
  if (fill >= 0 && fill < kFills && fill < p.channels) {
    tile->fill[fill] = element_from_bits<T>(fill_bits(p.dtype, affine_fill(p, fill)));
  }
  if (threadIdx.x < kWarp) {
    const AffineMap map = affine_map(p, at.sample);
    if (map.integral) {
      prepare_rows<Interpolation::kNearest>(p, map, at, rows, tile);
    } else {
      prepare_rows<mode>(p, map, at, rows, tile);
    }
    if (threadIdx.x == 0) tile->map = map;
  }
  __syncthreads();
}

}  // namespace
}  // namespace visops
