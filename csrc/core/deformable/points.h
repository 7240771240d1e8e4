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

#include <string>
#include <type_traits>

#include "core/deformable/bilinear_sample.h"
#include "core/deformable/pixel_lists.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element_types.h"

namespace visops {

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
