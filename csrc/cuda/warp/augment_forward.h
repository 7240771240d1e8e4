// The kernels of the one-pass augmentation; NOTE [ Augment forward on CUDA ].
#pragma once

#include "core/element_types.h"
#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_images.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_store.h"
#include "cuda/warp/augment_tile.h"
#include "cuda/warp/augment_upright.h"

namespace visops {
namespace {

// `count` values of a pixel, from channel `first` on, before colour.
template <class T, Interpolation mode, class Acc>
__device__ void sample_values(const AugmentParams& p, const AugmentTile<Acc>& tile, int row,
                              const LanePoint<Acc>& point, int64_t first, int count,
                              Acc value[kPixelGroup]) {
  const AugmentSample& s = tile.sample;
  const SegmentAxes<Acc>& axes = tile.axes[row];
  Acc out = static_cast<Acc>(!point.valid || s.is_fill ? 1 : 0);
  if (mode != Interpolation::kNearest && point.valid && blends_edge(p, s)) {
    out = static_cast<Acc>(1) - edge_cover(axes.x, point.x) * edge_cover(axes.y, point.y);
  }
  bool inside = !s.is_fill && out < static_cast<Acc>(1);
  PixelGroup<Acc> group;
  if (inside) {
    const T* image = static_cast<const T*>(s.image.data) + first * s.image.channel_stride;
    inside = sample_group<T, mode, false>(p, s, axes, point, image, first, count, &group);
  }
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    const Acc fill = static_cast<Acc>(p.fill[value_index(p, first + c)]);
    value[c] = inside ? blend_fill(group.value[c], fill, out) : fill;
  }
}

// A pixel of this thread. `staged` is this warp's part of shared memory.
template <class T, Interpolation mode, class Acc>
__device__ void tile_pixel(const AugmentParams& p, const TileAt& at, const AugmentTile<Acc>& tile,
                           int row, int column, void* staged) {
  const int64_t y = at.y + row, x = int64_t{at.x} + column;
  const bool erased = tile.erased && is_erased(p, at.sample, x, y);
  const bool sampled = x < p.output_width && !erased;
  for (int64_t first = 0; first < p.channels; first += kPixelGroup) {
    const int count = group_size(p, first);
    Acc value[kPixelGroup] = {};
    if (sampled) {
      const AugmentSegment<Acc>& segment = tile.segment[row];
      const LanePoint<Acc> point = segment.direct ? lane_point_direct<Acc>(tile.sample.map, x, y)
                                                  : lane_point(segment, column);
      sample_values<T, mode>(p, tile, row, point, first, count, value);
      if (p.color_steps > 0) color_group(p, tile.plan, p.color_steps, value);
    }
    finish_group(p, first, count, erased, value);
    store_group(p, at.sample, y, x, first, count, value, staged);
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kTileThreads, 2)
    augment_forward(const __grid_constant__ AugmentParams p,
                    const __grid_constant__ LaunchImages images, const TileGrid grid) {
  using Acc = typename Accumulate<T>::type;
  __shared__ AugmentTile<Acc> tile;
  __shared__ uint64_t staged[kTileThreads / kWarp][kStaged];
  for (int round = 0;; ++round) {
    const int64_t i = blockIdx.x + static_cast<int64_t>(round) * gridDim.x;
    if (i >= grid.count) break;
    if (round > 0) __syncthreads();  // before this tile replaces the last one
    TileAt at = tile_at(grid, i);
    at.sample += images.first;
    if (mode != Interpolation::kNearest && p.antialias) {
      share_matrix(p, at.sample, tile.given);
      __syncthreads();  // the matrix is there
      if (filters_upright(p, tile.given)) continue;
    }
    const int rows = rows_of(grid, at, p.output_height);
    prepare_tile(p, images.at(p, at.sample), grid, at, rows, &tile);
    void* const mine = staged[threadIdx.x / kWarp];
    const bool copies =
        mode == Interpolation::kNearest || tile.sample.mode == Interpolation::kNearest;
    for_tile_pixels(at, rows, p.output_width, [&](int row, int column) {
      if (copies) {
        tile_pixel<T, Interpolation::kNearest>(p, at, tile, row, column, mine);
      } else {
        tile_pixel<T, mode>(p, at, tile, row, column, mine);
      }
    });
  }
}

template <class T, Interpolation mode>
void forward_as(const AugmentParams& p, void* stream) {
  each_launch(p, [&](const LaunchImages& images, int64_t count) {
    const TileGrid grid = tall_tiles(count, p.output_height, p.output_width);
    launch(augment_forward<T, mode>, grid_over(p, grid.count), dim3(kTileThreads), 0, stream, p,
           images, grid);
  });
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_forward(const AugmentParams& p, void* stream) {
  with_element_type(p.dtype, [&](auto* element) {
    forward_as<std::remove_pointer_t<decltype(element)>, mode>(p, stream);
  });
}

}  // namespace visops
