// antialias where maps are not upright; NOTE [ Rotated filter on CUDA ].
//
// NOTE [ Rotated filter on CUDA ]
// Under a rotation, a shear or a perspective, every pixel has weights of its own in both axes, and
// sums share nothing between pixels. A thread sums kFilterRun tap columns at a time, from top to
// bottom: so a tap row's weight and place serve that many columns, of up to four channels. Sums
// have the terms and the order of filter_group(), and so its bits.
#include "core/numbers/element.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_pixels.h"

namespace visops {
namespace {

constexpr int kFilterRun = 4;

struct FilterSampler {
  template <class T, Interpolation mode, class Acc>
  static __device__ bool inner(const AugmentTile<Acc>&, int, int, const T*, int, Acc*) {
    return false;
  }

  template <class T, Interpolation mode, class Acc, class FillOf>
  static __device__ bool sample(const AugmentParams& p, const AugmentSample& s,
                                const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                                const T* image, int count, const FillOf&, PixelGroup<Acc>* group) {
    const FilterTaps<Acc> x = filter_taps<mode>(axes.x, p.padding, point.x);
    const FilterTaps<Acc> y = filter_taps<mode>(axes.y, p.padding, point.y);
    for (int c = 0; c < kPixelGroup; ++c) group->value[c] = static_cast<Acc>(0);
    for (int32_t done = 0; done < x.count; done += kFilterRun) {
      const int32_t left = x.count - done;
      int64_t column[kFilterRun];
      for (int j = 0; j < kFilterRun; ++j) {
        const int32_t k = x.first + done + (j < left ? j : 0);
        column[j] = filter_index(axes.x, s.x, p.padding, k) * s.image.column_stride;
      }
      Acc v[kFilterRun][kPixelGroup] = {};
      for (int32_t i = 0; i < y.count; ++i) {
        const int32_t k = y.first + i;
        const T* row = image + filter_index(axes.y, s.y, p.padding, k) * s.image.row_stride;
        const Acc weight = filter_tap<mode>(y, k) * y.norm;
        for (int c = 0; c < kPixelGroup; ++c) {
          if (c >= count) break;
          const T* const channel = row + c * s.image.channel_stride;
          for (int j = 0; j < kFilterRun; ++j) {
            if (j >= left) break;
            const T element = load_readonly(channel + column[j]);
            v[j][c] = v[j][c] + weight * static_cast<Acc>(load_element(&element));
          }
        }
      }
      for (int j = 0; j < kFilterRun; ++j) {
        if (j >= left) break;
        const Acc weight = filter_tap<mode>(x, x.first + done + j) * x.norm;
        for (int c = 0; c < kPixelGroup; ++c) group->value[c] = group->value[c] + weight * v[j][c];
      }
    }
    return true;
  }
};

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kTileThreads, 2)
    augment_filter_rotated(const __grid_constant__ AugmentParams p, const TileGrid grid,
                           const int64_t first) {
  using Acc = typename Accumulate<T>::type;
  __shared__ AugmentTile<Acc> tile;
  __shared__ uint64_t staged[kTileThreads / kWarp][kStaged];
  const TileAt at = tile_at(grid, first + blockIdx.x);
  if (kind_of(p.samples[at.sample]) != SampleKind::kRotated) return;
  const int rows = rows_of(grid, at, p.output_height);
  prepare_tile<mode, false>(p, grid, at, rows, &tile);
  void* const mine = staged[threadIdx.x / kWarp];
  tile_pixels<T, mode, FilterSampler>(p, at, tile, rows, mine);
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_filter_rotated(const AugmentParams& p, void* stream) {
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    launch_tall_tiles(augment_filter_rotated<T, mode>, p, stream);
  });
}

}  // namespace visops

template void visops::launch_augment_filter_rotated<
    visops::kCudaSlot, visops::Interpolation::kBilinear>(const visops::AugmentParams&, void*);
template void visops::launch_augment_filter_rotated<
    visops::kCudaSlot, visops::Interpolation::kBicubic>(const visops::AugmentParams&, void*);
template void visops::launch_augment_filter_rotated<
    visops::kCudaSlot, visops::Interpolation::kLanczos>(const visops::AugmentParams&, void*);
