// NOTE [ Inner pixels ]
// Nearly all pixels of a warp have all their taps well inside the image. For these neither padding
// nor fill matters, and 32 bits hold every number: a tile knows, for each of its rows, where the
// segment's origin lies relative to the first tap that an inner pixel may have, so one comparison
// of unsigned numbers per axis tells inner pixels from others. An inner pixel then costs four loads
// (sixteen for bicubic) from one 32-bit offset, and the blend.
//
// The bits are those of NOTE [ One pixel ]: the same coordinates, weights and blends. Rows whose
// numbers do not fit say so by an origin that no pixel's taps can be inside of.
#pragma once

#include "core/images/pixel.h"
#include "core/warp/affine.h"
#include "cuda/launch.h"
#include "cuda/small_offsets.h"

namespace visops {
namespace {

// A row's segment. A pixel is inner if its first tap is one of `columns` x `rows`, by unsigned
// comparison; `x` and `y` count from the first of these, which lies at element `base` of a plane.
template <class Acc>
struct __align__(16) InnerRow {
  int32_t x, y;  // the first tap of a pixel at the segment's origin
  uint32_t columns, rows;
  Acc fx, fy;  // the fraction of the origin
  Acc step_x, step_y;
  int32_t base;
};

constexpr int32_t kNeverInner = -(1 << 30);

// The taps from `first` to `last` of an axis, at which a pixel may begin, and its origin:
// kNeverInner if 32 bits can't hold it.
struct InnerAxis {
  int32_t origin;  // relative to `first`
  uint32_t count;
  int32_t first;
};

template <Interpolation mode>
VISOPS_FN InnerAxis inner_axis(int64_t origin, int64_t first, int64_t last) {
  const int64_t tap = origin + first_tap(mode) - first;
  const int64_t count = last - first + 2 - tap_count(mode);
  const bool fits = tap > -kInnerLimit && tap < kInnerLimit && count > 0 && count < kInnerLimit;
  if (!fits) return {kNeverInner, 0, 0};
  return {static_cast<int32_t>(tap), static_cast<uint32_t>(count), static_cast<int32_t>(first)};
}

// Steps so small that no coordinate of a segment is far from its origin, nor NaN.
template <class Acc>
VISOPS_FN bool is_small_step(Acc step) {
  const Acc most = static_cast<Acc>(16384);
  return step > -most && step < most;
}

// floor(v), for |v| < 2^30.
__device__ inline int32_t floor_to_int(float v) {
#if defined(__CUDA_ARCH__)
  return __float2int_rd(v);
#else
  return static_cast<int32_t>(floor(v));
#endif
}
__device__ inline int32_t floor_to_int(double v) {
#if defined(__CUDA_ARCH__)
  return __double2int_rd(v);
#else
  return static_cast<int32_t>(floor(v));
#endif
}

// A pixel whose taps are inner ones, if it `is_inner`.
template <Interpolation mode, class Acc>
struct InnerPixel {
  int32_t x, y;  // its first tap, as an InnerRow counts
  bool is_inner;
  int32_t offset;             // of its first tap, in elements
  PixelTaps<mode, Acc> taps;  // weights only; their indices are not set
};

// `across` and `down` are how far the lane is from its segment's centre, in the source.
template <Interpolation mode, class Acc>
__device__ inline InnerPixel<mode, Acc> inner_pixel(const InnerRow<Acc>& row, Acc across, Acc down,
                                                    int32_t row_stride, int32_t column_stride) {
  constexpr bool kNearest = mode == Interpolation::kNearest;
  const Acc u = across + row.fx, v = down + row.fy;
  const Acc half = static_cast<Acc>(0.5);
  const int32_t whole_x = floor_to_int(kNearest ? u + half : u);
  const int32_t whole_y = floor_to_int(kNearest ? v + half : v);
  const int32_t x = row.x + whole_x, y = row.y + whole_y;
  InnerPixel<mode, Acc> pixel;
  pixel.x = x;
  pixel.y = y;
  // Not &&: it would be a branch.
  pixel.is_inner = (static_cast<uint32_t>(x) < row.columns) & (static_cast<uint32_t>(y) < row.rows);
  // Unsigned, since those of other pixels may overflow.
  pixel.offset =
      static_cast<int32_t>(static_cast<uint32_t>(row.base) +
                           static_cast<uint32_t>(y) * static_cast<uint32_t>(row_stride) +
                           static_cast<uint32_t>(x) * static_cast<uint32_t>(column_stride));
  if constexpr (!kNearest) {
    pixel.taps.x.t = u - static_cast<Acc>(whole_x);
    pixel.taps.y.t = v - static_cast<Acc>(whole_y);
    tap_weights<mode>(pixel.taps.x.t, pixel.taps.x.weight);
    tap_weights<mode>(pixel.taps.y.t, pixel.taps.y.weight);
  }
  return pixel;
}

// `t` is the lane's place in its segment, as in axis_sample() or lane_point().
template <Interpolation mode, class Acc>
__device__ inline InnerPixel<mode, Acc> inner_pixel(const InnerRow<Acc>& row, Acc t,
                                                    int32_t row_stride, int32_t column_stride) {
  return inner_pixel<mode>(row, row.step_x * t, row.step_y * t, row_stride, column_stride);
}

// Whether all taps of a pixel are certainly beyond the inner ones.
template <Interpolation mode, class Acc>
__device__ inline bool is_outside(const InnerRow<Acc>& row, const InnerPixel<mode, Acc>& pixel) {
  constexpr uint32_t kRim = tap_count(mode) - 1;
  const uint32_t x = static_cast<uint32_t>(pixel.x) + kRim,
                 y = static_cast<uint32_t>(pixel.y) + kRim;
  return (row.columns != 0 && x >= row.columns + 2 * kRim) ||
         (row.rows != 0 && y >= row.rows + 2 * kRim);
}

// A stride of 1, known to the compiler.
struct UnitStride {
  __device__ operator int32_t() const { return 1; }
};

// The elements at the taps of `kChannels` planes, from `image` on.
// All loads come before the first use, so that they wait for memory together.
template <int kChannels, class T, Interpolation mode, class Acc, class ColumnStride>
struct InnerTaps {
  static constexpr int kTaps = tap_count(mode);
  T element[kChannels][kTaps][kTaps];

  __device__ InnerTaps(const InnerPixel<mode, Acc>& pixel, const T* image, int64_t channel_stride,
                       int32_t row_stride, ColumnStride column_stride) {
    for (int c = 0; c < kChannels; ++c) {
      const T* at = image + c * channel_stride + pixel.offset;
      for (int i = 0; i < kTaps; ++i) {
        for (int j = 0; j < kTaps; ++j) {
          element[c][i][j] = load_readonly(at + i * row_stride + j * column_stride);
        }
      }
    }
  }

  // sample_pixel(): its bits.
  __device__ VISOPS_ALWAYS_INLINE Acc blend(const InnerPixel<mode, Acc>& pixel, int c) const {
    Acc value[kTaps][kTaps];
    for (int i = 0; i < kTaps; ++i) {
      for (int j = 0; j < kTaps; ++j) {
        value[i][j] = static_cast<Acc>(load_element(&element[c][i][j]));
      }
    }
    if constexpr (mode == Interpolation::kNearest) {
      return value[0][0];
    } else {
      return blend_taps<mode>(pixel.taps, value);
    }
  }
};

}  // namespace
}  // namespace visops
