// The pixels of a tile: what augment_forward() and augment_filter_rotated() share.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_store.h"
#include "cuda/warp/inner_pixels.h"
#include "cuda/warp/tall_tiles.h"

namespace visops {
namespace {

// What a block of the augmentation kernels knows about its tile, prepared once in shared memory.

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
  } else {
    prepare_beside_sample(p, grid, at, kTileThreads, tile);
  }
  __syncthreads();
}

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

// Some channels of a pixel of this thread.
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
  }
  color_and_store(p, tile, output, channels, erased, value, staged);
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
