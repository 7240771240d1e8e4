// The kernels of the one-pass augmentation; NOTE [ Augment forward on CUDA ].
#pragma once

#include "core/element_types.h"
#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_tile.h"

namespace visops {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxInterleaved = 4;                // channels written through shared memory
constexpr int kStaged = kMaxInterleaved * kWarp;  // elements of a warp, 8 bytes each at most

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kListImages = 5;  // few, so that tests see several launches
#elif CUDART_VERSION >= 12010
constexpr int kListImages = 512;  // parameters take 32,764 bytes
#else
constexpr int kListImages = 32;  // parameters take 4,096 bytes
#endif

// The images of one launch: a whole batch, or part of a list.
struct BatchImages {
  static constexpr int64_t first = 0;
  __device__ AugmentImage at(const AugmentParams& p, int64_t sample) const {
    return augment_image(p, sample);
  }
};

struct ListedImages {
  int64_t first;  // sample that image[0] belongs to
  AugmentImage image[kListImages];
  __device__ AugmentImage at(const AugmentParams&, int64_t sample) const {
    return image[sample - first];
  }
};

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

// Stores this thread's pixel; or, if the warp's pixels are one run of whole words of interleaved
// output, its share of them.
template <class Acc>
__device__ void store_group(const AugmentParams& p, int64_t sample, int64_t y, int64_t x,
                            int64_t first, int count, const Acc value[kPixelGroup], void* staged) {
  const Strides stride = p.output_stride;
  const int in_warp = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t run = sample * stride.batch + y * stride.row + (x - in_warp) * stride.column;
  const int64_t bytes = element_size(p.output_dtype);
  char* const output = static_cast<char*>(p.output);
  const bool words = p.channels >= 2 && p.channels <= kMaxInterleaved && stride.channel == 1 &&
                     stride.column == p.channels && x - in_warp + kWarp <= p.output_width &&
                     reinterpret_cast<uintptr_t>(output + run * bytes) % sizeof(uint32_t) == 0;
  if (!words) {
    if (x >= p.output_width) return;
    const int64_t at = run + in_warp * stride.column + first * stride.channel;
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      store_output(p.output_dtype, output, at + c * stride.channel, value[c]);
    }
    return;
  }
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    store_output(p.output_dtype, staged, in_warp * count + c, value[c]);
  }
  __syncwarp();  // all lanes have written
  const int size = static_cast<int>(count * bytes) * kWarp / int{sizeof(uint32_t)};
  uint32_t* out = reinterpret_cast<uint32_t*>(output + run * bytes);
  for (int i = in_warp; i < size; i += kWarp) out[i] = static_cast<const uint32_t*>(staged)[i];
  __syncwarp();  // all lanes have read, before the next row is staged
}

// This thread's pixel of a row. `staged` is this warp's part of shared memory.
template <class T, Interpolation mode, class Acc>
__device__ void tile_pixel(const AugmentParams& p, const TileAt& at, const AugmentTile<Acc>& tile,
                           int row, void* staged) {
  const int64_t y = at.y + row, x = at.x + static_cast<int>(threadIdx.x) % kTileWidth;
  const bool erased = tile.erased && is_erased(p, at.sample, x, y);
  const bool sampled = x < p.output_width && !erased;
  for (int64_t first = 0; first < p.channels; first += kPixelGroup) {
    const int count = group_size(p, first);
    Acc value[kPixelGroup] = {};
    if (sampled) {
      const AugmentSegment<Acc>& segment = tile.segment[row];
      const LanePoint<Acc> point = segment.direct
                                       ? lane_point_direct<Acc>(tile.sample.map, x, y)
                                       : lane_point(segment, static_cast<int>(x % kSegment));
      sample_values<T, mode>(p, tile, row, point, first, count, value);
      if (p.color_steps > 0) color_group(p, tile.plan, p.color_steps, value);
    }
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      value[c] = erased ? static_cast<Acc>(p.erase_value[value_index(p, first + c)])
                        : finish_value(p, first + c, value[c]);
    }
    store_group(p, at.sample, y, x, first, count, value, staged);
  }
}

template <class T, Interpolation mode, class Images>
__global__ void __launch_bounds__(kTileThreads, 2)
    augment_forward(const __grid_constant__ AugmentParams p, const __grid_constant__ Images images,
                    const TileGrid grid) {
  using Acc = typename Accumulate<T>::type;
  __shared__ AugmentTile<Acc> tile;
  __shared__ uint64_t staged[kTileThreads / kWarp][kStaged];
  for (int64_t i = blockIdx.x; i < grid.count; i += gridDim.x) {
    TileAt at = tile_at<kTileHeight>(grid, i);
    at.sample += images.first;
    prepare_tile(p, images.at(p, at.sample), at, &tile);
    void* const mine = staged[threadIdx.x / kWarp];
    for (int row = static_cast<int>(threadIdx.x) / kTileWidth;
         row < kTileHeight && at.y + row < p.output_height; row += kTileStep) {
      if (mode == Interpolation::kNearest || tile.sample.mode == Interpolation::kNearest) {
        tile_pixel<T, Interpolation::kNearest>(p, at, tile, row, mine);
      } else {
        tile_pixel<T, mode>(p, at, tile, row, mine);
      }
    }
    if (i + gridDim.x < grid.count) __syncthreads();  // before the next tile replaces this one
  }
}

template <class T, Interpolation mode>
void batch_as(const AugmentParams& p, void* stream) {
  const TileGrid grid = tile_grid<kTileHeight>(p.batch, p.output_height, p.output_width);
  launch(augment_forward<T, mode, BatchImages>, grid_for(grid.count), dim3(kTileThreads), 0, stream,
         p, BatchImages{}, grid);
}

template <class T, Interpolation mode>
void list_as(const AugmentParams& p, void* stream) {
  ListedImages images = {};
  for (; images.first < p.batch; images.first += kListImages) {
    const int64_t left = p.batch - images.first;
    const int64_t count = left < kListImages ? left : kListImages;
    for (int64_t i = 0; i < count; ++i) images.image[i] = p.list[images.first + i];
    const TileGrid grid = tile_grid<kTileHeight>(count, p.output_height, p.output_width);
    launch(augment_forward<T, mode, ListedImages>, grid_for(grid.count), dim3(kTileThreads), 0,
           stream, p, images, grid);
  }
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_batch(const AugmentParams& p, void* stream) {
  with_element_type(p.dtype, [&](auto* element) {
    batch_as<std::remove_pointer_t<decltype(element)>, mode>(p, stream);
  });
}

template <Slot slot, Interpolation mode>
void launch_augment_list(const AugmentParams& p, void* stream) {
  with_element_type(p.dtype, [&](auto* element) {
    list_as<std::remove_pointer_t<decltype(element)>, mode>(p, stream);
  });
}

}  // namespace visops
