// Samples of maps at points: what a valid problem is, and what a point reads.
//
// NOTE [ Point samples ]
// A point (u, v) is in units of the map, with (0, 0) and (1, 1) its outer corners (align_corners:
// the centres of its corner pixels). With pixel centres at integers it lies at
//
//     x = u width - 0.5, y = v height - 0.5     (align_corners: u (width - 1), v (height - 1))
//
// which padding "border" clamps to the pixel centres, and "reflection" first mirrors at the
// corners. Nothing is read for a point unless u and v are finite, and with padding "zeros" unless
// -1 < x < width and -1 < y < height. "bilinear" takes, with fx and fy the fractions of x and y,
//
//     w00 = (1 - fy) (1 - fx),  w01 = (1 - fy) fx,  w10 = fy (1 - fx),  w11 = fy fx
//     sum = (w00 v00 + w01 v01) + (w10 v10 + w11 v11)
//
// where a tap outside the map has w = v = 0 and is not read. "nearest" takes the pixel that x and y
// round to, half to even, plus 0, which makes a negative zero positive. Points, weights and sums
// are float32 (float64 for float64 maps).
//
// NOTE [ Gradients of point samples ]
// Map: a pixel's gradient is the sum of w g over the points that read it, by index. Points: the
// sums over channels, in order, of
//
//     g ((1 - fy) (v01 - v00) + fy (v11 - v10)),  g ((1 - fx) (v10 - v00) + fx (v11 - v01))
//
// times the slopes of x in u and of y in v, which are 0 where padding clamps.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/deformable/pixel_lists.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "core/platform.h"

namespace visops {

// Places between pixels: which four pixels a sample reads, and with which weights.

constexpr int64_t kMostSide = int64_t{1} << 30;

// Bits of the taps that lie in the map.
enum : int32_t { kTap00 = 1, kTap01 = 2, kTap10 = 4, kTap11 = 8, kAllTaps = 15 };

// What a sample reads: pixel (y, x) and the ones right of it and below.
template <class Acc>
struct BilinearSample {
  int32_t y, x;
  Acc fy, fx;
  int32_t taps;  // 0: the sample does not count
};

// The place (x, y), where pixel centres are integers. It counts if -1 < x < width and
// -1 < y < height, which is false for NaN. Branch-free, so that loops over samples vectorise. Sides
// are at most kMostSide.
template <class Acc>
VISOPS_HOT_FN BilinearSample<Acc> bilinear_sample_at(Acc x, Acc y, int32_t height, int32_t width) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc rows = static_cast<Acc>(height), columns = static_cast<Acc>(width);
  BilinearSample<Acc> bilinear;
  const bool counts = (x > -one) & (x < columns) & (y > -one) & (y < rows);
  const Acc safe_x = counts ? x : zero, safe_y = counts ? y : zero;
  const int32_t cut_x = static_cast<int32_t>(safe_x), cut_y = static_cast<int32_t>(safe_y);
  bilinear.x = cut_x - (static_cast<Acc>(cut_x) > safe_x ? 1 : 0);
  bilinear.y = cut_y - (static_cast<Acc>(cut_y) > safe_y ? 1 : 0);
  bilinear.fx = safe_x - static_cast<Acc>(bilinear.x);
  bilinear.fy = safe_y - static_cast<Acc>(bilinear.y);
  const int32_t left = ((bilinear.x >= 0) & (bilinear.x < width)) ? kTap00 | kTap10 : 0;
  const int32_t right = bilinear.x + 1 < width ? kTap01 | kTap11 : 0;
  const int32_t top = ((bilinear.y >= 0) & (bilinear.y < height)) ? kTap00 | kTap01 : 0;
  const int32_t bottom = bilinear.y + 1 < height ? kTap10 | kTap11 : 0;
  bilinear.taps = counts ? (left | right) & (top | bottom) : 0;
  return bilinear;
}

// The weights of the four taps of a sample that counts `scale` times; 0 for those outside.
template <class Acc>
VISOPS_HOT_FN void bilinear_weights(const BilinearSample<Acc>& bilinear, Acc scale, Acc weight[4]) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc top = scale * (one - bilinear.fy), bottom = scale * bilinear.fy;
  const Acc left = one - bilinear.fx, right = bilinear.fx;
  weight[0] = (bilinear.taps & kTap00) != 0 ? top * left : zero;
  weight[1] = (bilinear.taps & kTap01) != 0 ? top * right : zero;
  weight[2] = (bilinear.taps & kTap10) != 0 ? bottom * left : zero;
  weight[3] = (bilinear.taps & kTap11) != 0 ? bottom * right : zero;
}

template <class Acc>
struct CoordinateGradient {
  Acc scale, x, y;
};

// The gradients of a sample's scale and place, from the sums over channels of gradient times pixel
// for each tap. Adding 0 makes negative zeros positive.
template <class Acc>
VISOPS_HOT_FN CoordinateGradient<Acc> coordinate_gradient(const BilinearSample<Acc>& bilinear,
                                                          Acc scale, const Acc lane_sum[4]) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc s00 = lane_sum[0] + zero, s01 = lane_sum[1] + zero;
  const Acc s10 = lane_sum[2] + zero, s11 = lane_sum[3] + zero;
  const Acc left = one - bilinear.fx, above = one - bilinear.fy;
  const Acc top = left * s00 + bilinear.fx * s01, bottom = left * s10 + bilinear.fx * s11;
  const Acc across = above * (s01 - s00) + bilinear.fy * (s11 - s10);
  // A sample that does not count has four sums of 0, but its scale may be infinite.
  if (bilinear.taps == 0) return {zero, zero, zero};
  return {above * top + bilinear.fy * bottom, scale * across, scale * (bottom - top)};
}

enum class PointMode : int { kBilinear, kNearest };
enum class PointPadding : int { kZeros, kBorder, kReflection };

struct PointsParams {
  const void* input;  // [batch, channels, height, width]
  int64_t batch_stride, channel_stride, row_stride, column_stride;
  int64_t batch, channels, height, width, points;
  const void* coordinates;  // [batch, points, 2] as (u, v), contiguous
  DType dtype;              // floating, or kUInt8 or kBool for masks
  DType coordinates_dtype;
  PointMode mode;
  PointPadding padding;
  bool align_corners;
  // [batch, channels, points]; one image after another. Of the input's dtype, or float32 for masks.
  void* output;
  int64_t output_channel_stride, output_point_stride;

  // Backward only.
  const void* grad;        // [batch, channels, points], contiguous; of the output's dtype
  void* grad_input;        // [batch, channels, height, width], contiguous; float32 or float64
  void* grad_coordinates;  // of the places' shape and dtype

  PixelLists lists;  // CUDA's gradient of the map only
};

extern KernelStub<PointsParams> point_sample_stub;
extern KernelStub<PointsParams> point_sample_backward_input_stub;  // on CUDA in ListSteps
extern KernelStub<PointsParams> point_sample_backward_points_stub;

constexpr int64_t kMostPointSide = int64_t{1} << 30;

PointMode parse_point_mode(const char* op, const std::string& name);
PointPadding parse_point_padding(const char* op, const std::string& name);
// All numbers of the problem.
void check_points(const char* op, const PointsParams& p);

// One axis of the map: x = u * scale - shift.
template <class Acc>
struct PointAxis {
  Acc scale, shift;
  int32_t size;
};

template <class Acc>
VISOPS_FN PointAxis<Acc> point_axis(int64_t size, bool align_corners) {
  PointAxis<Acc> axis;
  axis.scale = static_cast<Acc>(align_corners ? size - 1 : size);
  axis.shift = static_cast<Acc>(align_corners ? 0.0 : 0.5);
  axis.size = static_cast<int32_t>(size);
  return axis;
}

// Bits of an axis' two taps that exist.
enum : int32_t { kTapBefore = 1, kTapAfter = 2 };

// Where a point lies on an axis: its first pixel, the fraction from there to the next, the slope of
// that in u, and which of the two pixels are read.
template <class Acc>
struct PointOnAxis {
  int32_t first, taps;
  Acc fraction, slope;
};

// Rounds down; |x| < 2^31.
template <class Acc>
VISOPS_HOT_FN int32_t whole_part(Acc x) {
  const int32_t cut = static_cast<int32_t>(x);
  return cut - (static_cast<Acc>(cut) > x ? 1 : 0);
}

// x mirrored at both ends of the axis, -shift and scale - shift. The slope changes its sign with
// every mirror. A point too far away to tell lies at the start.
template <class Acc>
VISOPS_HOT_FN Acc reflected(Acc x, const PointAxis<Acc>& axis, Acc* slope) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc away = x + axis.shift, distance = away < zero ? zero - away : away;
  const Acc span = axis.scale > zero ? axis.scale : one;
  const Acc turns = distance / span;
  const Acc safe = turns < static_cast<Acc>(1 << 30) ? turns : zero;
  const int32_t whole = whole_part(safe);
  const bool is_turned = (whole & 1) != 0;
  const Acc rest = (safe == turns ? distance : zero) - static_cast<Acc>(whole) * span;
  *slope = ((away < zero) != is_turned) ? zero - *slope : *slope;
  return (is_turned ? span - rest : rest) - axis.shift;
}

// Branch-free, so that loops over points vectorise.
template <PointMode mode, PointPadding padding, class Acc>
VISOPS_HOT_FN PointOnAxis<Acc> point_on_axis(Acc u, const PointAxis<Acc>& axis) {
  const Acc zero = static_cast<Acc>(0), half = static_cast<Acc>(0.5);
  // Where no pixel is read: -2, and one behind the last pixel.
  const Acc before = static_cast<Acc>(-2), after = static_cast<Acc>(axis.size);
  PointOnAxis<Acc> point;
  point.slope = axis.scale;
  Acc x = u * axis.scale - axis.shift;
  if constexpr (padding == PointPadding::kZeros) {
    const Acc above = x > static_cast<Acc>(-1) ? x : before;
    x = above < after ? above : after;
  } else {
    const Acc last = static_cast<Acc>(axis.size - 1);
    if constexpr (padding == PointPadding::kReflection) x = reflected(x, axis, &point.slope);
    point.slope = ((x > zero) & (x < last)) ? point.slope : zero;
    const Acc above = x > zero ? x : zero, inside = above < last ? above : last;
    x = u - u == zero ? inside : before;
  }
  const int32_t first = whole_part(x);
  const Acc fraction = x - static_cast<Acc>(first);
  const auto size = static_cast<uint32_t>(axis.size);
  if constexpr (mode == PointMode::kNearest) {
    const int32_t odd = first & 1;
    const int32_t up = (fraction > half ? 1 : 0) | (fraction == half ? odd : 0);
    point.first = first + up;
    point.fraction = zero;
    point.taps = static_cast<uint32_t>(point.first) < size ? kTapBefore : 0;
  } else {
    point.first = first;
    point.fraction = fraction;
    point.taps = (static_cast<uint32_t>(first) < size ? kTapBefore : 0) |
                 (static_cast<uint32_t>(first + 1) < size ? kTapAfter : 0);
  }
  return point;
}

// The weights of the two pixels; 0 for those that are not read.
template <class Acc>
VISOPS_HOT_FN Acc weight_before(const PointOnAxis<Acc>& point) {
  return (point.taps & kTapBefore) != 0 ? static_cast<Acc>(1) - point.fraction
                                        : static_cast<Acc>(0);
}
template <class Acc>
VISOPS_HOT_FN Acc weight_after(const PointOnAxis<Acc>& point) {
  return (point.taps & kTapAfter) != 0 ? point.fraction : static_cast<Acc>(0);
}

// The pixels that a point reads, from those of its axes.
VISOPS_HOT_FN int32_t point_taps(int32_t taps_y, int32_t taps_x) {
  const int32_t left = (taps_x & kTapBefore) != 0 ? kTap00 | kTap10 : 0;
  const int32_t right = (taps_x & kTapAfter) != 0 ? kTap01 | kTap11 : 0;
  const int32_t top = (taps_y & kTapBefore) != 0 ? kTap00 | kTap01 : 0;
  const int32_t bottom = (taps_y & kTapAfter) != 0 ? kTap10 | kTap11 : 0;
  return (left | right) & (top | bottom);
}

// The type of samples: masks are sampled to float32.
template <class T>
using SampleOf =
    std::conditional_t<std::is_same<T, uint8_t>::value || std::is_same<T, Truth>::value, float, T>;

// f(T*), with the type of the map's elements.
template <class F>
static VISOPS_ALWAYS_INLINE void with_map_type(DType dtype, const F& f) {
  if (dtype == DType::kBool) return f(static_cast<Truth*>(nullptr));
  with_element_type(dtype, f);
}

template <PointMode mode>
using ModeConstant = std::integral_constant<PointMode, mode>;
template <PointPadding padding>
using PaddingConstant = std::integral_constant<PointPadding, padding>;

template <class F>
static VISOPS_ALWAYS_INLINE void with_point_mode(PointMode mode, const F& f) {
  if (mode == PointMode::kNearest) return f(ModeConstant<PointMode::kNearest>());
  f(ModeConstant<PointMode::kBilinear>());
}

template <class F>
static VISOPS_ALWAYS_INLINE void with_point_padding(PointPadding padding, const F& f) {
  switch (padding) {
    case PointPadding::kBorder: return f(PaddingConstant<PointPadding::kBorder>());
    case PointPadding::kReflection: return f(PaddingConstant<PointPadding::kReflection>());
    default: return f(PaddingConstant<PointPadding::kZeros>());
  }
}

}  // namespace visops
