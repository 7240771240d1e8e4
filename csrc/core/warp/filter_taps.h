// The filter of antialias: which taps an axis has, and their weights.
#pragma once

#include <type_traits>

#include "core/pixel.h"
#include "core/warp/augment_segment.h"
#include "core/warp/lanczos.h"

namespace visops {

// The tent; Keys' kernel with a = -1/2, the one of Pillow and of torch's antialias; or Lanczos'.
template <Interpolation mode, class Acc>
VISOPS_HOT_FN Acc filter_weight(Acc distance) {
  const Acc one = static_cast<Acc>(1);
  const Acc d = distance < static_cast<Acc>(0) ? -distance : distance;
  if constexpr (mode == Interpolation::kBilinear) {
    return d < one ? one - d : static_cast<Acc>(0);
  } else if constexpr (mode == Interpolation::kLanczos) {
    return lanczos(d);
  } else {
    const Acc near = (static_cast<Acc>(1.5) * d - static_cast<Acc>(2.5)) * d * d + one;
    const Acc far =
        ((static_cast<Acc>(-0.5) * d + static_cast<Acc>(2.5)) * d - static_cast<Acc>(4)) * d +
        static_cast<Acc>(2);
    return d < one ? near : (d < static_cast<Acc>(2) ? far : static_cast<Acc>(0));
  }
}

// call(mode), with a filter that is known at run time as a std::integral_constant. In host code.
template <class Call>
static inline auto with_filter(Interpolation mode, const Call& call) {
  switch (mode) {
    case Interpolation::kBilinear:
      return call(std::integral_constant<Interpolation, Interpolation::kBilinear>());
    case Interpolation::kLanczos:
      return call(std::integral_constant<Interpolation, Interpolation::kLanczos>());
    default: return call(std::integral_constant<Interpolation, Interpolation::kBicubic>());
  }
}

// The taps of one axis with antialias: columns or rows [first, first + count), relative to the
// axis' origin. Tap k has the weight filter_weight((k - at) scale) x norm.
template <class Acc>
struct FilterTaps {
  int32_t first, count;
  Acc at, scale, norm;
};

template <Interpolation mode, class Acc>
VISOPS_HOT_FN Acc filter_tap(const FilterTaps<Acc>& taps, int32_t k) {
  return filter_weight<mode>((static_cast<Acc>(k) - taps.at) * taps.scale);
}

// The taps without their norm.
template <class Acc>
VISOPS_FN FilterTaps<Acc> filter_range(const SegmentAxis<Acc>& axis, Padding padding, Acc at) {
  FilterTaps<Acc> taps;
  const Acc limit = static_cast<Acc>(1073741824.0);
  Acc centre = at > -limit ? (at < limit ? at : limit) : -limit;
  if (padding == Padding::kConstant) {  // a soft edge may reach farther than the filter
    const Acc low = axis.low < axis.first ? axis.low : axis.first;
    const Acc high = axis.high > axis.last ? axis.high : axis.last;
    centre = centre > low ? (centre < high ? centre : high) : low;
  }
  Acc first = floor(centre - axis.radius) + static_cast<Acc>(1);
  Acc last = first + (static_cast<Acc>(2) * ceil(axis.radius) - static_cast<Acc>(1));
  if (padding == Padding::kConstant) {  // the others fold what lies outside back into the window
    if (first < axis.first) first = axis.first;
    if (last > axis.last) last = axis.last;
  }
  const bool some = first <= last;
  taps.first = some ? static_cast<int32_t>(first) : 0;
  taps.count = some ? static_cast<int32_t>(last - first) + 1 : 0;
  taps.at = centre;
  taps.scale = axis.filter_scale;
  return taps;
}

// Completes filter_range() with the sum of its filter_tap(), in order.
template <Interpolation mode, class Acc>
VISOPS_FN void set_norm(Acc sum, FilterTaps<Acc>* taps) {
  if (taps->count > 0 && sum == static_cast<Acc>(0)) {
    // Coordinates this large are sparser than the filter is wide: take the element there.
    taps->at = floor(taps->at);
    taps->first = static_cast<int32_t>(taps->at);
    taps->count = 1;
    sum = filter_tap<mode>(*taps, taps->first);
  }
  taps->norm = sum != static_cast<Acc>(0) ? static_cast<Acc>(1) / sum : static_cast<Acc>(0);
}

template <Interpolation mode, class Acc>
VISOPS_FN FilterTaps<Acc> filter_taps(const SegmentAxis<Acc>& axis, Padding padding, Acc at) {
  FilterTaps<Acc> taps = filter_range(axis, padding, at);
  Acc sum = static_cast<Acc>(0);
  for (int32_t i = 0; i < taps.count; ++i) sum = sum + filter_tap<mode>(taps, taps.first + i);
  set_norm<mode>(sum, &taps);
  return taps;
}

// The element that tap k of an axis stands for.
template <class Acc>
VISOPS_FN int64_t filter_index(const SegmentAxis<Acc>& axis, const AxisWindow& window,
                               Padding padding, int32_t k) {
  const int64_t at = axis.origin + k - window.first;
  const int64_t n = window.last - window.first + 1;
  if (at >= 0 && at < n) return window.first + at;
  const int64_t inside = pad_index(padding, at, n);
  return window.first + (inside < 0 ? 0 : inside);  // constant padding has no taps outside
}

// One channel with antialias, before it is blended with fill.
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc filter_pixel(const T* plane, const AugmentSample& s, const SegmentAxes<Acc>& axes,
                           Padding padding, const FilterTaps<Acc>& x, const FilterTaps<Acc>& y) {
  Acc value = static_cast<Acc>(0);
  for (int32_t j = 0; j < x.count; ++j) {
    const int64_t column = filter_index(axes.x, s.x, padding, x.first + j);
    Acc v = static_cast<Acc>(0);
    for (int32_t i = 0; i < y.count; ++i) {
      const int64_t row = filter_index(axes.y, s.y, padding, y.first + i);
      const T element =
          load_readonly(plane + row * s.image.row_stride + column * s.image.column_stride);
      const Acc weight = filter_tap<mode>(y, y.first + i) * y.norm;
      v = v + weight * static_cast<Acc>(load_element(&element));
    }
    value = value + (filter_tap<mode>(x, x.first + j) * x.norm) * v;
  }
  return value;
}

}  // namespace visops
