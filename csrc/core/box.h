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

#include <type_traits>

#include "core/numbers/element.h"
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

}  // namespace visops
