// What a block of the augmentation kernels knows about its tile, prepared once in shared memory.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_color.h"
#include "cuda/warp/augment_store.h"
#include "cuda/warp/tall_tiles.h"

namespace visops {
namespace {

template <class Acc>
struct AugmentTile {
  double given[9];  // the matrix, with antialias
  AugmentSample sample;
  AugmentSegment<Acc> segment[kMostTileRows];
  SegmentAxes<Acc> axes[kMostTileRows];
  ColorPlan<Acc> plan;
  bool erased;  // some rectangle reaches into the tile
};

// Called by all threads of the block, and synchronizes them. The first thread does the sample (one
// at a time: an inversion in float64 takes more registers than anything else), its warp the rows,
// the other warps the rectangles and the colour matrices.
template <class Acc>
__device__ inline void prepare_tile(const AugmentParams& p, const AugmentImage& image,
                                    const TileGrid& grid, const TileAt& at, int rows,
                                    AugmentTile<Acc>* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWarp) {
    if (thread == 0) tile->sample = augment_sample(p, at.sample, image);
    __syncwarp();
    for (int row = thread; row < rows; row += kWarp) {
      const AugmentSegment<Acc> segment = augment_segment<Acc>(tile->sample.map, at.x, at.y + row);
      tile->segment[row] = segment;
      tile->axes[row] = segment_axes(tile->sample, segment);
    }
  } else if (thread == kWarp) {
    tile->erased = tile_meets_erase(p, grid, at);
  } else if (thread >= 2 * kWarp && p.color_steps > 0) {
    share_color_plan(p, at.sample, thread - 2 * kWarp, kTileThreads - 2 * kWarp, &tile->plan);
  }
  __syncthreads();
}

}  // namespace
}  // namespace visops
