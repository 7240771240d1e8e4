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
  AugmentSample sample;
  AugmentSegment<Acc> segment[kMostTileRows];
  SegmentAxes<Acc> axes[kMostTileRows];
  ColorPlan<Acc> plan;
  ChannelValues<Acc> values;
  bool erased;  // some rectangle reaches into the tile
  bool words;   // writes_words()
};

// Called by all threads of the block, and synchronizes them. The first warp does the rows, the
// others the rectangles, the channels' numbers and the colour matrices.
template <class Acc>
__device__ inline void prepare_tile(const AugmentParams& p, const TileGrid& grid, const TileAt& at,
                                    int rows, AugmentTile<Acc>* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWarp) {
    if (thread == 0) tile->sample = p.samples[at.sample];
    __syncwarp();
    for (int row = thread; row < rows; row += kWarp) {
      const AugmentSegment<Acc> segment = augment_segment<Acc>(tile->sample.map, at.x, at.y + row);
      tile->segment[row] = segment;
      tile->axes[row] = segment_axes(tile->sample, segment);
    }
  } else if (thread == kWarp) {
    tile->erased = tile_meets_erase(p, grid, at);
    tile->words = writes_words(p);
  } else if (thread >= 2 * kWarp) {
    constexpr int kThreads = kTileThreads - 2 * kWarp;
    share_values(p, thread - 2 * kWarp, kThreads, &tile->values);
    share_color_plan(p, at.sample, thread - 2 * kWarp, kThreads, &tile->plan);
  }
  __syncthreads();
}

}  // namespace
}  // namespace visops
