// The kernel of the one-pass augmentation without antialias; NOTE [ Augment forward on CUDA ].
#pragma once

#include "core/element_types.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_kinds.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_pixels.h"

namespace visops {
namespace {

struct TapSampler {
  template <class T, Interpolation mode, class Acc, class FillOf>
  static __device__ bool sample(const AugmentParams& p, const AugmentSample& s,
                                const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                                const T* image, int count, const FillOf& fill_of,
                                PixelGroup<Acc>* group) {
    return tap_group<T, mode, false>(p, s, axes, point, image, count, fill_of, group);
  }
};

// Blocks that a multiprocessor should hold. Where memory is the limit, half of its threads; bicubic
// has 16 taps, and float64 images compute in float64: arithmetic is their limit.
template <class T, Interpolation mode>
constexpr int kForwardBlocks =
    mode == Interpolation::kBicubic || std::is_same<T, double>::value ? 2 : 4;

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
