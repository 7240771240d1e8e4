// The kernel of the one-pass augmentation without antialias; NOTE [ Augment forward on CUDA ].
#pragma once

#include "core/element_types.h"
#include "cuda/launch.h"
#include "cuda/tap_column.h"
#include "cuda/warp/augment_kinds.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_pick.h"
#include "cuda/warp/augment_pixels.h"
#include "cuda/whole_taps.h"

namespace visops {
namespace {

struct TapSampler {
  template <class T, Interpolation mode, class Acc, class FillOf>
  static __device__ bool sample(const AugmentParams& p, const AugmentSample& s,
                                const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                                const T* image, int count, const FillOf& fill_of,
                                PixelGroup<Acc>* group) {
    if constexpr (mode == Interpolation::kBicubic) {
      return sample_cubic(p, s, axes, point, image, count, fill_of, group);
    } else if constexpr (mode == Interpolation::kBilinear) {
      return sample_bilinear(p, s, axes, point, image, count, fill_of, group);
    } else {
      return tap_group<T, mode, false>(p, s, axes, point, image, count, fill_of, group);
    }
  }

 private:
  template <class T, class Acc, class FillOf>
  static __device__ bool sample_bilinear(const AugmentParams& p, const AugmentSample& s,
                                         const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                                         const T* image, int count, const FillOf& fill_of,
                                         PixelGroup<Acc>* group) {
    constexpr Interpolation kMode = Interpolation::kBilinear;
    PixelTaps<kMode, Acc> taps;
    taps.x = augment_axis_taps<kMode>(axes.x, s.x, p.padding, s.soft_edge, point.x);
    taps.y = augment_axis_taps<kMode>(axes.y, s.y, p.padding, s.soft_edge, point.y);
    if (taps.outside()) return false;
    const WholeTaps whole(taps, s.image.row_stride, s.image.column_stride);
    const Strides stride = {0, s.image.channel_stride, s.image.row_stride, s.image.column_stride};
    // Two loops: in one, the border's numbers would take registers inside the image, too.
    if (whole.whole) {
      for (int c = 0; c < kPixelGroup; ++c) {
        if (c >= count) break;
        group->value[c] = whole.sample(image + c * stride.channel, taps);
      }
      return true;
    }
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      group->value[c] = sample_pixel(image + c * stride.channel, stride, taps, fill_of(c));
    }
    return true;
  }

  // A column of taps at a time, of all channels: few registers are enough.
  template <class T, class Acc, class FillOf>
  static __device__ bool sample_cubic(const AugmentParams& p, const AugmentSample& s,
                                      const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                                      const T* image, int count, const FillOf& fill_of,
                                      PixelGroup<Acc>* group) {
    constexpr Interpolation kMode = Interpolation::kBicubic;
    constexpr int kTaps = tap_count(kMode);
    const auto x = augment_axis_taps<kMode>(axes.x, s.x, p.padding, s.soft_edge, point.x);
    if (x.outside()) return false;
    const auto y = augment_axis_taps<kMode>(axes.y, s.y, p.padding, s.soft_edge, point.y);
    if (y.outside()) return false;
#pragma unroll 1
    for (int j = 0; j < kTaps; ++j) {
      const int32_t column = pick(x.index, j);
      const Acc weight = pick(x.weight, j);
      const T* const from = image + column * s.image.column_stride;
      for (int c = 0; c < kPixelGroup; ++c) {
        if (c >= count) break;
        Acc v[kTaps];
        load_column(
            from + c * s.image.channel_stride, s.image.row_stride, y.index, column,
            [&] { return fill_of(c); }, v);
        const Acc term = weight * weighted_sum(y.weight, v[0], v[1], v[2], v[3]);
        group->value[c] = j == 0 ? term : group->value[c] + term;
      }
    }
    return true;
  }
};

// Blocks that a multiprocessor should hold: half of its threads, but 37 % for bicubic, such that no
// register is spilled. float64 images compute in float64: arithmetic is their limit.
template <class T, Interpolation mode>
constexpr int kForwardBlocks =
    std::is_same<T, double>::value ? 2 : (mode == Interpolation::kBicubic ? 3 : 4);

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kTileThreads, (kForwardBlocks<T, mode>))
    augment_forward(const __grid_constant__ AugmentParams p, const TileGrid grid,
                    const int64_t first) {
  using Acc = typename Accumulate<T>::type;
  __shared__ AugmentTile<Acc> tile;
  __shared__ uint64_t staged[kTileThreads / kWarp][kStaged];
  const TileAt at = tile_at(grid, first + blockIdx.x);
  if (mode != Interpolation::kNearest && p.antialias &&
      kind_of(p.samples[at.sample]) != SampleKind::kPlain) {
    return;
  }
  const int rows = rows_of(grid, at, p.output_height);
  prepare_tile(p, grid, at, rows, &tile);
  void* const mine = staged[threadIdx.x / kWarp];
  // Two loops: in one, what does not change in either way would take registers in both.
  if (mode == Interpolation::kNearest || tile.sample.mode == Interpolation::kNearest) {
    for_tile_pixels(at, rows, p.output_width, [&](int row, int column) {
      tile_pixel<T, Interpolation::kNearest, TapSampler>(p, at, tile, row, column, mine);
    });
  } else {
    for_tile_pixels(at, rows, p.output_width, [&](int row, int column) {
      tile_pixel<T, mode, TapSampler>(p, at, tile, row, column, mine);
    });
  }
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_forward(const AugmentParams& p, void* stream) {
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    launch_tall_tiles(augment_forward<T, mode>, p, stream);
  });
}

}  // namespace visops
