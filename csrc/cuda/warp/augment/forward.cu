// The kernel of the one-pass augmentation without antialias; NOTE [ Augment forward on CUDA ].
#include "core/images/pixel.h"
#include "core/numbers/element.h"
#include "cuda/launch.h"
#include "cuda/pixel_gradient.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_pixels.h"
#include "cuda/warp/register_select.h"
#include "cuda/warp/staged_pixels.h"

namespace visops {
namespace {

// Bilinear's four taps where all of them are in the image, as nearly everywhere: their offsets are
// computed once for all channels, and none of them is compared with the border again.

// Offsets in elements, from the first of a plane.
struct WholeTaps {
  bool whole;  // else the others mean nothing
  int64_t first, right, down;

  template <class Acc>
  __device__ WholeTaps(const PixelTaps<Interpolation::kBilinear, Acc>& taps, int64_t row_stride,
                       int64_t column_stride) {
    const int32_t (&y)[2] = taps.y.index;
    const int32_t (&x)[2] = taps.x.index;
    whole = y[0] >= 0 && y[1] >= 0 && x[0] >= 0 && x[1] >= 0;
    first = y[0] * row_stride + x[0] * column_stride;
    right = (x[1] - x[0]) * column_stride;
    down = (y[1] - y[0]) * row_stride;
  }

  // sample_pixel(): its bits.
  template <class T, class Acc>
  __device__ Acc sample(const T* plane,
                        const PixelTaps<Interpolation::kBilinear, Acc>& taps) const {
    const T* const upper = plane + first;
    const T* const lower = upper + down;
    const T element[4] = {load_readonly(upper), load_readonly(upper + right), load_readonly(lower),
                          load_readonly(lower + right)};
    const Acc value[2][2] = {{load_element(&element[0]), load_element(&element[1])},
                             {load_element(&element[2]), load_element(&element[3])}};
    return blend_taps<Interpolation::kBilinear>(taps, value);
  }
};

struct TapSampler {
  // NOTE [ Inner pixels ]: false for any other, which sample() then takes.
  template <class T, Interpolation mode, class Acc>
  static __device__ bool inner(const AugmentTile<Acc>& tile, int row, int column, const T* image,
                               int count, Acc value[kPixelGroup]) {
    const AugmentImage& from = tile.sample.image;
    const auto row_stride = static_cast<int32_t>(from.row_stride);
    const auto column_stride = static_cast<int32_t>(from.column_stride);
    Acc t = from_centre<Acc>(column);
    if (tile.sample.map.perspective) {
      t = t / (static_cast<Acc>(1) + tile.segment[row].bend * t);
    }
    const auto pixel = inner_pixel<mode>(tile.inner[row], t, row_stride, column_stride);
    if (!pixel.is_inner) return false;
    if (column_stride == 1) {
      inner_group(pixel, image, from.channel_stride, row_stride, UnitStride(), count, value);
    } else {
      inner_group(pixel, image, from.channel_stride, row_stride, column_stride, count, value);
    }
    return true;
  }

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
  // Three channels at once, since photos have as many; else one by one.
  template <class T, Interpolation mode, class Acc, class ColumnStride>
  static __device__ void inner_group(const InnerPixel<mode, Acc>& pixel, const T* image,
                                     int64_t channel_stride, int32_t row_stride,
                                     ColumnStride column_stride, int count,
                                     Acc value[kPixelGroup]) {
    if constexpr (mode != Interpolation::kBicubic) {  // whose taps would take too many registers
      if (count == 3) {
        const InnerTaps<3, T, mode, Acc, ColumnStride> taps(pixel, image, channel_stride,
                                                            row_stride, column_stride);
        for (int c = 0; c < 3; ++c) value[c] = taps.blend(pixel, c);
        return;
      }
    }
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      const InnerTaps<1, T, mode, Acc, ColumnStride> taps(pixel, image + c * channel_stride, 0,
                                                          row_stride, column_stride);
      value[c] = taps.blend(pixel, 0);
    }
  }

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

constexpr int kPhoto = 3;  // channels

// Whether photos of a type are staged; wider elements would take too much memory.
template <class T, Interpolation mode>
constexpr bool kStages = mode == Interpolation::kBilinear && sizeof(T) <= 2;

// The boxes of the tile's parts, and one of them at a time.
template <class T, class Acc = typename Accumulate<T>::type>
struct StagedTile : AugmentTile<Acc> {
  StagedBox box[kStagedParts];
  StagedPixel<T> pixel[kStagedPixels];
};

// NOTE [ Staged pixels ]. Only what is inside the image is staged, of affine maps: then all rows
// begin and end at the same taps.
template <class T, class Acc>
__device__ void staged_pixels(const AugmentParams& p, const TileAt& at, int rows, void* staged,
                              StagedTile<T, Acc>* tile) {
  constexpr Interpolation kMode = Interpolation::kBilinear;
  const InnerRow<Acc>& inner = tile->inner[0];
  const AugmentImage& from = tile->sample.image;
  const T* const planes = static_cast<const T*>(from.data);
  const Strides stride = {0, from.channel_stride, from.row_stride, from.column_stride};
  const int64_t height = int64_t{inner.rows} + 1, width = int64_t{inner.columns} + 1;
  const int skew = word_skew(planes, stride, from.width, inner.base);
  const int own = static_cast<int>(threadIdx.x) / kWarp;
  StagedBox found = {};
  if (!tile->sample.map.perspective) {
    found = staged_box(tile->inner, rows, own, skew, height, width, false, false);
  }
  if (lane_of_warp() == 0) tile->box[own] = found;
  __syncthreads();  // the boxes are there
  const StagedImage<T> image = {planes + inner.base, stride,    kPhoto, from.height,
                                from.width,          p.padding, {},     skew >= 0};
  const TileOutput out(output_layout(p), at);
  constexpr ChannelGroup<kPhoto> channels = {0, kPhoto};
  each_part(at, rows, p.output_width, [&](int part, const TileWalk& walk, int end) {
    const StagedBox& box = tile->box[part];
    PixelOutput to = out.pixel(walk.row, walk.column);
    if (!box.fits) {
      for (int row = walk.row; row < end; row += walk.step, to.at += walk.step * out.row) {
        pixel_group<T, kMode, TapSampler>(p, at, *tile, to, channels, row, walk.column, staged);
      }
      return;
    }
    stage_box(image, box, tile->pixel);
    __syncthreads();  // the box is there
    const Acc t = from_centre<Acc>(walk.column);
    const Acc across = inner.step_x * t, down = inner.step_y * t;  // in all rows
    // The box has the pixels of columns beyond the output, too.
    for (int row = walk.row; row < end; row += walk.step, to.at += walk.step * out.row) {
      const bool erased =
          tile->erased && is_erased(p, at.sample, int64_t{at.x} + walk.column, at.y + row);
      const auto pixel = inner_pixel<kMode>(tile->inner[row], across, down, 0, 0);
      const StagedTaps<T> taps(tile->pixel, box, pixel.x, pixel.y);
      Acc value[kPixelGroup] = {};
      for (int c = 0; c < kPhoto; ++c) value[c] = taps.blend(pixel.taps, c);
      color_and_store(p, *tile, to, channels, erased, value, staged);
    }
    __syncthreads();  // all threads have read it
  });
}

// Blocks that a multiprocessor should hold: 37 % of its threads, such that pixels inside the image
// spill no register; 25 % where the numbers of boxes take more. float64 images compute in float64:
// arithmetic is their limit.
template <class T, Interpolation mode>
constexpr int kForwardBlocks = std::is_same<T, double>::value || kStages<T, mode> ? 2 : 3;

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kTileThreads, (kForwardBlocks<T, mode>))
    augment_forward(const __grid_constant__ AugmentParams p, const TileGrid grid,
                    const int64_t first) {
  using Acc = typename Accumulate<T>::type;
  __shared__ std::conditional_t<kStages<T, mode>, StagedTile<T>, AugmentTile<Acc>> tile;
  __shared__ uint64_t staged[kTileThreads / kWarp][kStaged];
  const TileAt at = tile_at(grid, first + blockIdx.x);
  if (mode != Interpolation::kNearest && p.antialias &&
      kind_of(p.samples[at.sample]) != SampleKind::kPlain) {
    return;
  }
  const int rows = rows_of(grid, at, p.output_height);
  prepare_tile<mode, true>(p, grid, at, rows, static_cast<AugmentTile<Acc>*>(&tile));
  void* const mine = staged[threadIdx.x / kWarp];
  // A loop for each: in one, what does not change in either way would take registers in both.
  const bool copies =
      mode == Interpolation::kNearest || tile.sample.mode == Interpolation::kNearest;
  const bool is_photo = p.channels == kPhoto && output_layout(p).has_small_strides();
  if (copies && is_photo) {
    fixed_pixels<kPhoto, T, Interpolation::kNearest, TapSampler>(p, at, tile, rows, mine);
  } else if (copies) {
    tile_pixels<T, Interpolation::kNearest, TapSampler>(p, at, tile, rows, mine);
  } else if (is_photo) {
    if constexpr (kStages<T, mode>) {
      staged_pixels(p, at, rows, mine, &tile);
    } else {
      fixed_pixels<kPhoto, T, mode, TapSampler>(p, at, tile, rows, mine);
    }
  } else {
    tile_pixels<T, mode, TapSampler>(p, at, tile, rows, mine);
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

template void visops::launch_augment_forward<visops::kCudaSlot, visops::Interpolation::kNearest>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_forward<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_forward<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const visops::AugmentParams&, void*);
