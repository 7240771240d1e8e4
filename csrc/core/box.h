// Boxes [x1, y1, x2, y2], and how much two of them overlap.
//
// NOTE [ Overlap ]
// The intersection over union is torchvision's to the last bit: in float32 (float64 for float64
// and integer boxes), areas first, no contraction, and a union of area + area - intersection. The
// threshold is a double that the ratio must exceed. threshold_of() rounds it down to the ratio's
// type, so the comparison needs no conversion. A ratio that is NaN (0 / 0) exceeds nothing.
//
// A box is inert (is_inert()) if its area is not a positive finite number (it is flat, inverted in
// one direction, infinite or NaN), or if it is inverted in both directions. Its intersection with
// any box is 0, or their union is not finite.
// So it suppresses nothing, and nothing suppresses it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/numbers/element.h"
#include "core/numbers/elementary.h"
#include "core/platform.h"

namespace visops {

// Whether boxes of a dtype are computed in double: integers are exact there up to 2^53.
VISOPS_FN bool computes_in_double(DType dtype) {
  return dtype == DType::kFloat64 || !is_floating(dtype);
}

template <class Acc>
struct Box {
  Acc x1, y1, x2, y2, area;
};

template <class T, int count, class Acc>
VISOPS_FN void load_as(const void* data, int64_t i, int64_t stride, Acc number[count]) {
  for (int n = 0; n < count; ++n) {
    const T* const at = static_cast<const T*>(data) + i + n * stride;
    if constexpr (std::is_arithmetic_v<T>) {
      number[n] = static_cast<Acc>(*at);
    } else {
      number[n] = static_cast<Acc>(load_element(at));
    }
  }
}

// Coordinates of any dtype, `stride` elements apart from element i on, by one look at the dtype:
// kernels inline all ten cases of it.
template <int count, class Acc>
VISOPS_FN void load_coordinates(const void* data, DType dtype, int64_t i, int64_t stride,
                                Acc number[count]) {
  switch (dtype) {
    case DType::kUInt8: return load_as<uint8_t, count>(data, i, stride, number);
    case DType::kInt8: return load_as<int8_t, count>(data, i, stride, number);
    case DType::kInt16: return load_as<int16_t, count>(data, i, stride, number);
    case DType::kUInt16: return load_as<uint16_t, count>(data, i, stride, number);
    case DType::kInt32: return load_as<int32_t, count>(data, i, stride, number);
    case DType::kInt64: return load_as<int64_t, count>(data, i, stride, number);
    case DType::kFloat16: return load_as<Half, count>(data, i, stride, number);
    case DType::kBFloat16: return load_as<BFloat16, count>(data, i, stride, number);
    case DType::kFloat32: return load_as<float, count>(data, i, stride, number);
    case DType::kFloat64: return load_as<double, count>(data, i, stride, number);
    case DType::kBool: break;
  }
  for (int n = 0; n < count; ++n) number[n] = static_cast<Acc>(0);
}

template <class Acc>
VISOPS_FN Acc load_coordinate(const void* data, DType dtype, int64_t i) {
  Acc number[1];
  load_coordinates<1>(data, dtype, i, 0, number);
  return number[0];
}

// Stores element i of a floating dtype; 16-bit dtypes are rounded by way of float32.
VISOPS_FN void store_rounded(void* data, DType dtype, int64_t i, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::kFloat16: return store_element(static_cast<Half*>(data) + i, single);
    case DType::kBFloat16: return store_element(static_cast<BFloat16*>(data) + i, single);
    case DType::kFloat64: return store_element(static_cast<double*>(data) + i, value);
    default: return store_element(static_cast<float*>(data) + i, single);
  }
}

// Loads four coordinates `stride` elements apart, from element i on.
template <class Acc>
VISOPS_FN Box<Acc> load_box(const void* data, DType dtype, int64_t i, int64_t stride) {
  Box<Acc> box;
  box.x1 = load_coordinate<Acc>(data, dtype, i);
  box.y1 = load_coordinate<Acc>(data, dtype, i + stride);
  box.x2 = load_coordinate<Acc>(data, dtype, i + 2 * stride);
  box.y2 = load_coordinate<Acc>(data, dtype, i + 3 * stride);
  box.area = (box.x2 - box.x1) * (box.y2 - box.y1);
  return box;
}

template <class Acc>
VISOPS_FN bool is_inert(const Box<Acc>& box) {
  const Acc most = sizeof(Acc) == sizeof(float) ? static_cast<Acc>(3.4028234663852886e+38)
                                                : static_cast<Acc>(1.7976931348623157e+308);
  return !(box.x2 > box.x1 && box.y2 > box.y1 && box.area > static_cast<Acc>(0) &&
           box.area <= most);
}

// The intersection over union of boxes that are not inert; 0 if they don't meet.
template <class Acc>
VISOPS_FN Acc overlap_of(const Box<Acc>& a, const Box<Acc>& b) {
  const Acc left = a.x1 < b.x1 ? b.x1 : a.x1, right = b.x2 < a.x2 ? b.x2 : a.x2;
  const Acc top = a.y1 < b.y1 ? b.y1 : a.y1, bottom = b.y2 < a.y2 ? b.y2 : a.y2;
  const Acc width = right - left, height = bottom - top;
  if (!(width > static_cast<Acc>(0) && height > static_cast<Acc>(0))) return static_cast<Acc>(0);
  const Acc inter = width * height;
  return inter / (a.area + b.area - inter);
}

// Whether that exceeds `threshold` (>= 0).
template <class Acc>
VISOPS_FN bool overlaps(const Box<Acc>& a, const Box<Acc>& b, Acc threshold) {
  return overlap_of(a, b) > threshold;
}

// The largest Acc that is not above `threshold`, which is finite.
VISOPS_FN float threshold_of(double threshold, float) {
  const float rounded = static_cast<float>(threshold);
  if (static_cast<double>(rounded) <= threshold) return rounded;
  return bit_cast<float>(bit_cast<int32_t>(rounded) - 1);  // positive: it was rounded up
}
VISOPS_FN double threshold_of(double threshold, double) { return threshold; }

// Whether the elements of an array that is written lie apart.

// Whether every stride passes all that smaller ones reach. Elements then surely lie apart, in steps
// of `element`. Strides may be negative.
inline bool has_no_internal_overlap(int64_t dims, const int64_t* sizes, const int64_t* strides,
                                    int64_t element = 1) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride and size of every dimension that moves
  for (int64_t d = 0; d < dims; ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] > 1) steps.emplace_back(std::abs(strides[d]), sizes[d]);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride < reach + element) return false;
    reach += stride * (size - 1);
  }
  return true;
}

// Rotated boxes [x, y, width, height, angle], and how much two of them overlap.
//
// NOTE [ Rotated overlap ]
// In the frame of box a, a's sides are parallel to the axes; let p and q be its half sides. The
// area of the intersection is the integral over x in [-p, p] of the part of b's cross-section that
// lies within [-q, q]. That is a sum over b's four edges: of the integral of clamp(y(x), -q, q) dx,
// with the sign of the edge's direction. No polygon is built and no case is special. Every term is
// a continuous function of its arguments, so rounding can't lose an edge or count it twice. (It
// can where vertices are collected and sorted, for boxes that are equal or share an edge.)
//
// Everything is float64, whatever the boxes' dtype: angles and positions of long, thin boxes need
// it. A box overlaps itself by exactly 1: with equal angles the frame's rotation is exact.

struct RotatedBox {
  double x, y, half_width, half_height;
  double angle, sine, cosine;
  double area, radius;  // the radius of the circle through its corners
};

// Loads five numbers `stride` elements apart, from element i on. The angle is in radians, from x to
// y; beyond 1e5 it is taken modulo float64's 2 pi.
VISOPS_FN RotatedBox load_rotated_box(const void* data, DType dtype, int64_t i, int64_t stride) {
  RotatedBox box;
  box.x = load_coordinate<double>(data, dtype, i);
  box.y = load_coordinate<double>(data, dtype, i + stride);
  const double width = load_coordinate<double>(data, dtype, i + 2 * stride);
  const double height = load_coordinate<double>(data, dtype, i + 3 * stride);
  box.angle = load_coordinate<double>(data, dtype, i + 4 * stride);
  box.half_width = 0.5 * width;
  box.half_height = 0.5 * height;
  const SinCos turn = sin_cos(box.angle);
  box.sine = turn.sine;
  box.cosine = turn.cosine;
  box.area = width * height;
  box.radius = sqrt(box.half_width * box.half_width + box.half_height * box.half_height);
  return box;
}

// Whether it overlaps nothing: a side is not positive, or a number is not finite, or so large that
// an area might not be, or so small that its half, or the area, would lose digits to underflow.
VISOPS_FN bool is_inert(const RotatedBox& box) {
  const double most = 1e150, least = 1e-290;
  const bool placed = fabs(box.x) <= most && fabs(box.y) <= most && box.cosine == box.cosine;
  return !(placed && box.half_width >= least && box.half_height >= least && box.radius <= most &&
           box.area >= least);
}

VISOPS_FN double clamp_between(double v, double low, double high) {
  return v < low ? low : (v > high ? high : v);
}

// The integral of clamp(y(x), -q, q) along the edge from (x0, y0) to (x1, y1), within [-p, p].
VISOPS_FN double clamped_edge_integral(double x0, double y0, double x1, double y1, double p,
                                       double q) {
  const double start = clamp_between(x0, -p, p), end = clamp_between(x1, -p, p);
  const double width = end - start;
  if (width == 0.0) return 0.0;
  // Fractions, not a slope, which could be infinite. Ends that are not cut stay exact.
  const double length = x1 - x0;
  const double ys = y0 + (start - x0) / length * (y1 - y0);
  const double ye = y1 - (x1 - end) / length * (y1 - y0);
  const double low = ys < ye ? ys : ye, high = ys < ye ? ye : ys;
  const double rise = high - low;
  const double low_in = clamp_between(low, -q, q), high_in = clamp_between(high, -q, q);
  if (!(rise > 0.0)) return low_in * width;
  const double below = (high < -q ? high : -q) - (low < -q ? low : -q);
  const double above = (high > q ? high : q) - (low > q ? low : q);
  const double inside = (high_in - low_in) * (0.5 * (high_in + low_in));
  return (inside + q * (above - below)) / rise * width;
}

// Whether the circles through the corners meet; if not, the boxes don't.
template <class Circle>
VISOPS_FN bool circles_meet(const Circle& a, const Circle& b) {
  const double dx = b.x - a.x, dy = b.y - a.y, reach = a.radius + b.radius;
  return dx * dx + dy * dy < reach * reach;
}

// A box's position and rotation in the frame of another one.
struct Placement {
  double x, y, cosine, sine;
};

VISOPS_FN Placement located_in(const RotatedBox& frame, const RotatedBox& box) {
  const double dx = box.x - frame.x, dy = box.y - frame.y;
  const double x = frame.cosine * dx + frame.sine * dy, y = frame.cosine * dy - frame.sine * dx;
  if (frame.angle == box.angle) return {x, y, 1.0, 0.0};
  return {x, y, frame.cosine * box.cosine + frame.sine * box.sine,
          frame.cosine * box.sine - frame.sine * box.cosine};
}

// The area of the intersection of boxes that are not inert.
VISOPS_FN double intersection(const RotatedBox& a, const RotatedBox& b) {
  if (!circles_meet(a, b)) return 0.0;
  const auto [x, y, c, s] = located_in(a, b);
  const double wx = c * b.half_width, wy = s * b.half_width;
  const double hx = -s * b.half_height, hy = c * b.half_height;
  const double corner_x[4] = {x - wx - hx, x + wx - hx, x + wx + hx, x - wx + hx};
  const double corner_y[4] = {y - wy - hy, y + wy - hy, y + wy + hy, y - wy + hy};
  double area = 0.0;  // counter-clockwise: upper edges run towards smaller x
  for (int i = 0; i < 4; ++i) {
    const int j = (i + 1) & 3;
    area -= clamped_edge_integral(corner_x[i], corner_y[i], corner_x[j], corner_y[j], a.half_width,
                                  a.half_height);
  }
  const double least = a.area < b.area ? a.area : b.area;
  // For boxes apart, the sum leaves a rounding error, which is below this bound: they share
  // nothing.
  return area > 1e-15 * a.area ? (area < least ? area : least) : 0.0;
}

// Intersection over union, in [0, 1], of boxes that are not inert.
VISOPS_FN double rotated_iou(const RotatedBox& a, const RotatedBox& b) {
  const double inter = intersection(a, b);
  return inter / (a.area + b.area - inter);
}

// Bounds parallel to the axes, rounding included; inert if the box is. Boxes whose bounds don't
// meet share nothing. The area is any positive one.
VISOPS_FN Box<double> bounds_of(const RotatedBox& box) {
  if (is_inert(box)) return {};
  const double c = fabs(box.cosine), s = fabs(box.sine);
  const double dx = c * box.half_width + s * box.half_height;
  const double dy = s * box.half_width + c * box.half_height;
  const double margin = 1e-14 * (fabs(box.x) + fabs(box.y) + dx + dy);
  return {box.x - dx - margin, box.y - dy - margin, box.x + dx + margin, box.y + dy + margin, 1.0};
}

// Whether rotated_iou() exceeds `threshold`.
VISOPS_FN bool overlaps(const RotatedBox& a, const RotatedBox& b, double threshold) {
  const double least = a.area < b.area ? a.area : b.area, most = a.area < b.area ? b.area : a.area;
  // The ratio of the areas bounds the overlap, and costs less.
  return least >= threshold * most * (1.0 - 1e-9) && rotated_iou(a, b) > threshold;
}

}  // namespace visops
