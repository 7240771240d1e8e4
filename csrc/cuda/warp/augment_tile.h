// What a block of the augmentation kernels knows about its tile, prepared once in shared memory.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_color.h"
#include "cuda/warp/augment_store.h"
#include "cuda/warp/inner_pixels.h"
#include "cuda/warp/tall_tiles.h"

namespace visops {
namespace {

template <class Acc>
struct AugmentTile {
  AugmentSample sample;
  AugmentSegment<Acc> segment[kMostTileRows];
  SegmentAxes<Acc> axes[kMostTileRows];
  InnerRow<Acc> inner[kMostTileRows];
  ColorPlan<Acc> plan;
  ChannelValues<Acc> values;
  bool erased;  // some rectangle reaches into the tile
  bool words;   // OutputLayout::writes_words()
};

// The taps of an axis at which inner pixels begin. Where constant padding blends with fill by
// cover, the pixels that `width` reaches are left out, and one more, as their distances are
// rounded.
template <Interpolation mode>
__device__ inline InnerAxis augment_inner_axis(const AxisWindow& window, int64_t origin,
                                               bool blends, double width) {
  if (!blends) return inner_axis<mode>(origin, window.first, window.last);
  const double rim = 0.5 * width + 1.0;
  const int64_t first = static_cast<int64_t>(ceil(window.low + rim));
  const int64_t last = static_cast<int64_t>(floor(window.high - rim));
  return inner_axis<mode>(origin, first > window.first ? first : window.first,
                          last < window.last ? last : window.last);
}

// NOTE [ Inner pixels ]
template <Interpolation mode, class Acc>
__device__ inline InnerRow<Acc> augment_inner_row(const AugmentParams& p, const AugmentSample& s,
                                                  const AugmentSegment<Acc>& segment) {
  InnerRow<Acc> row = {kNeverInner,    kNeverInner,    0, 0, segment.fx, segment.fy,
                       segment.step_x, segment.step_y, 0};
  const AugmentImage& image = s.image;
  const bool blends = mode != Interpolation::kNearest && blends_edge(p, s);
  const double width_x = s.soft_edge ? segment.width_x : 1.0;
  const double width_y = s.soft_edge ? segment.width_y : 1.0;
  const bool fits =
      !s.is_fill && !segment.direct && is_small_step(row.step_x) && is_small_step(row.step_y) &&
      width_x < 16384.0 && width_y < 16384.0 &&
      has_small_offsets(image.height, image.width, image.row_stride, image.column_stride);
  if (!fits) return row;
  const InnerAxis x = augment_inner_axis<mode>(s.x, segment.x, blends, width_x);
  const InnerAxis y = augment_inner_axis<mode>(s.y, segment.y, blends, width_y);
  row.x = x.origin;
  row.y = y.origin;
  row.columns = x.count;
  row.rows = y.count;
  row.base = static_cast<int32_t>(y.first * image.row_stride + x.first * image.column_stride);
  return row;
}

// Called by all threads of the block, and synchronizes them. The first warp does the rows, the
// others the rectangles, the channels' numbers and the colour matrices. `kInner` where the kernel
// samples by taps.
template <Interpolation mode, bool kInner, class Acc>
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
      if constexpr (kInner) {
        tile->inner[row] =
            tile->sample.mode == Interpolation::kNearest
                ? augment_inner_row<Interpolation::kNearest>(p, tile->sample, segment)
                : augment_inner_row<mode>(p, tile->sample, segment);
      }
    }
  } else if (thread == kWarp) {
    tile->erased = tile_meets_erase(p, grid, at);
    tile->words = output_layout(p).writes_words();
  } else if (thread >= 2 * kWarp) {
    constexpr int kThreads = kTileThreads - 2 * kWarp;
    share_values(p, thread - 2 * kWarp, kThreads, &tile->values);
    share_color_plan(p, at.sample, thread - 2 * kWarp, kThreads, &tile->plan);
  }
  __syncthreads();
}

}  // namespace
}  // namespace visops
