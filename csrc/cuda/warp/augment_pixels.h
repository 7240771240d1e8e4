// The pixels of a tile: what augment_forward() and augment_turned() share.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_kinds.h"
#include "cuda/warp/augment_store.h"
#include "cuda/warp/augment_tile.h"

namespace visops {
namespace {

// `count` values of a pixel, from channel `first` on, before colour. `Sampler` says how a pixel in
// the image is sampled, as sample_group().
template <class T, Interpolation mode, class Sampler, class Acc>
__device__ void sample_values(const AugmentParams& p, const AugmentTile<Acc>& tile, int row,
                              const LanePoint<Acc>& point, int64_t first, int count,
                              Acc value[kPixelGroup]) {
  const AugmentSample& s = tile.sample;
  const SegmentAxes<Acc>& axes = tile.axes[row];
  Acc out = static_cast<Acc>(!point.valid || s.is_fill ? 1 : 0);
  if (mode != Interpolation::kNearest && point.valid && blends_edge(p, s)) {
    out = static_cast<Acc>(1) - edge_cover(axes.x, point.x) * edge_cover(axes.y, point.y);
  }
  const auto fill_of = [&](int c) { return tile.values.fill[value_index(p, first + c)]; };
  bool inside = !s.is_fill && out < static_cast<Acc>(1);
  PixelGroup<Acc> group;
  if (inside) {
    const T* image = static_cast<const T*>(s.image.data) + first * s.image.channel_stride;
    inside = Sampler::template sample<T, mode>(p, s, axes, point, image, count, fill_of, &group);
  }
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    const Acc fill = fill_of(c);
    value[c] = inside ? blend_fill(group.value[c], fill, out) : fill;
  }
}

// A pixel of this thread. `staged` is this warp's part of shared memory.
template <class T, Interpolation mode, class Sampler, class Acc>
__device__ void tile_pixel(const AugmentParams& p, const TileAt& at, const AugmentTile<Acc>& tile,
                           int row, int column, void* staged) {
  const int64_t y = at.y + row, x = int64_t{at.x} + column;
  const bool erased = tile.erased && is_erased(p, at.sample, x, y);
  const bool sampled = x < p.output_width && !erased;
  for (int64_t first = 0; first < p.channels; first += kPixelGroup) {
    const int count = group_size(p, first);
    Acc value[kPixelGroup] = {};
    if (sampled) {
      const AugmentImage& image = tile.sample.image;
      const T* const from = static_cast<const T*>(image.data) + first * image.channel_stride;
      if (!Sampler::template inner<T, mode>(tile, row, column, from, count, value)) {
        const AugmentSegment<Acc>& segment = tile.segment[row];
        const LanePoint<Acc> point = segment.direct ? lane_point_direct<Acc>(tile.sample.map, x, y)
                                                    : lane_point(segment, column);
        sample_values<T, mode, Sampler>(p, tile, row, point, first, count, value);
      }
      if (p.color_steps > 0) color_group(p, tile.plan, p.color_steps, value);
    }
    finish_group(p, tile.values, first, count, erased, value);
    store_group(p, tile.words, at.sample, y, x, first, count, value, staged);
  }
}

// Launches a kernel that has a tall tile a block.
template <class Kernel>
void launch_tall_tiles(Kernel kernel, const AugmentParams& p, void* stream) {
  const TileGrid grid = tall_tiles(p.batch, p.output_height, p.output_width);
  each_grid(grid.count, [&](int64_t first, dim3 blocks) {
    launch(kernel, blocks, dim3(kTileThreads), 0, stream, p, grid, first);
  });
}

}  // namespace
}  // namespace visops
