// The pixels of a tile: what augment_forward() and augment_filter_rotated() share.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_store.h"
#include "cuda/warp/augment_tile.h"

namespace visops {
namespace {

// Values of a pixel before colour. `Sampler` says how a pixel in the image is sampled, as
// sample_group().
template <class T, Interpolation mode, class Sampler, int kFixed, class Acc>
__device__ void sample_values(const AugmentParams& p, const AugmentTile<Acc>& tile, int row,
                              const LanePoint<Acc>& point, const ChannelGroup<kFixed>& channels,
                              const T* image, Acc value[kPixelGroup]) {
  const AugmentSample& s = tile.sample;
  const SegmentAxes<Acc>& axes = tile.axes[row];
  Acc out = static_cast<Acc>(!point.valid || s.is_fill ? 1 : 0);
  if (mode != Interpolation::kNearest && point.valid && blends_edge(p, s)) {
    out = static_cast<Acc>(1) - edge_cover(axes.x, point.x) * edge_cover(axes.y, point.y);
  }
  const auto fill_of = [&](int c) { return tile.values.fill[channels.value(p, c)]; };
  const int count = channels.count();
  bool inside = !s.is_fill && out < static_cast<Acc>(1);
  PixelGroup<Acc> group;
  if (inside) {
    inside = Sampler::template sample<T, mode>(p, s, axes, point, image, count, fill_of, &group);
  }
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    const Acc fill = fill_of(c);
    value[c] = inside ? blend_fill(group.value[c], fill, out) : fill;
  }
}

// A pixel that Sampler::inner() does not take. Not inlined: it would take registers from those that
// nearly all pixels go through.
template <class T, Interpolation mode, class Sampler, int kFixed, class Acc>
__device__ VISOPS_NOINLINE void outer_values(const AugmentParams& p, const TileAt& at,
                                             const AugmentTile<Acc>& tile,
                                             const ChannelGroup<kFixed>& channels, int row,
                                             int column, const T* image, Acc value[kPixelGroup]) {
  const AugmentSegment<Acc>& segment = tile.segment[row];
  const LanePoint<Acc> point =
      segment.direct
          ? lane_point_direct<Acc>(tile.sample.map, int64_t{at.x} + column, int64_t{at.y} + row)
          : lane_point(segment, column);
  sample_values<T, mode, Sampler>(p, tile, row, point, channels, image, value);
}

// Some channels of a pixel of this thread. `staged` is this warp's part of shared memory.
template <class T, Interpolation mode, class Sampler, int kFixed, class Acc>
__device__ void pixel_group(const AugmentParams& p, const TileAt& at, const AugmentTile<Acc>& tile,
                            const PixelOutput& output, const ChannelGroup<kFixed>& channels,
                            int row, int column, void* staged) {
  const int64_t y = at.y + row, x = int64_t{at.x} + column;
  const bool erased = tile.erased && is_erased(p, at.sample, x, y);
  Acc value[kPixelGroup] = {};
  if (output.exists && !erased) {
    const AugmentImage& image = tile.sample.image;
    const T* const from = static_cast<const T*>(image.data) + channels.first * image.channel_stride;
    if (!Sampler::template inner<T, mode>(tile, row, column, from, channels.count(), value)) {
      Acc outer[kPixelGroup];  // its address is taken; that of `value` is not
      outer_values<T, mode, Sampler>(p, at, tile, channels, row, column, from, outer);
      for (int c = 0; c < kPixelGroup; ++c) value[c] = outer[c];
    }
    if (p.color_steps > 0) {
      color_group(p, tile.plan, p.color_steps, kFixed > 0 ? kFixed : static_cast<int>(p.channels),
                  value);
    }
  }
  finish_group(p, tile.values, channels, erased, value);
  store_group(p, output, channels, value, staged);
}

// The pixels of a tile, in groups of channels.
template <class T, Interpolation mode, class Sampler, class Acc>
__device__ void tile_pixels(const AugmentParams& p, const TileAt& at, const AugmentTile<Acc>& tile,
                            int rows, void* staged) {
  for_tile_pixels(at, rows, p.output_width, [&](int row, int column) {
    const PixelOutput output =
        pixel_output(output_layout(p), tile.words, at.sample, at.y + row, int64_t{at.x} + column);
    for (int64_t first = 0; first < p.channels; first += kPixelGroup) {
      const ChannelGroup<0> channels = {first, group_size(p, first)};
      pixel_group<T, mode, Sampler>(p, at, tile, output, channels, row, column, staged);
    }
  });
}

// The same for images of kFixed channels, whose output has_small_strides().
template <int kFixed, class T, Interpolation mode, class Sampler, class Acc>
__device__ void fixed_pixels(const AugmentParams& p, const TileAt& at, const AugmentTile<Acc>& tile,
                             int rows, void* staged) {
  const TileOutput out(output_layout(p), at);
  for_tile_pixels(at, rows, p.output_width, [&](int row, int column) {
    pixel_group<T, mode, Sampler>(p, at, tile, out.pixel(row, column),
                                  ChannelGroup<kFixed>{0, kFixed}, row, column, staged);
  });
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
