// One pixel of the augmentation in plain scalar code: sampling, colour, output.
//
// NOTE [ One augmented pixel ]
// The arithmetic that every backend must reproduce bit for bit: CUDA runs it as it stands, the CPU
// where no vector path fits. In this order, without contraction:
//
//   sample   the taps of NOTE [ One pixel ] (core/images/pixel.h) at the clamped coordinate, then
//            blended with fill (NOTE [ Window and edge ], core/warp/augment_segment.h)
//   filter   antialias: v_j = sum_i wy_i p_ij, value = sum_j wx_j v_j, taps in ascending order,
//            weights f(distance x filter_scale), divided by their sum over existing taps; or in
//            integers, NOTE [ Integer filter ] (core/warp/augment_pixel.h)
//   colour   per step v'_c = ((a_c0 v_0 + a_c1 v_1) + ...) + a_cC, then clamp
//   output   v scale + offset, erased where a rectangle covers the pixel, rounded when stored
#pragma once

#include <type_traits>

#include "core/images/pixel.h"
#include "core/platform.h"
#include "core/warp/affine.h"
#include "core/warp/augment.h"
#include "core/warp/augment_segment.h"

namespace visops {

// Lanczos' window of three lobes, sinc(d) sinc(d / 3), as Pillow has it.
//
// NOTE [ Lanczos ]
// With x = pi d / 3 and q = sin(x) / x, the second factor is q, and the first one, by the sine of
// the triple angle, q (1 - (4/3) x^2 q^2). So the window is a polynomial in x^2 and q; and q is its
// Taylor series in z = x^2, which up to x = pi converges in a few terms. That is the same on every
// processor, without a division or a jump, and loops are vectorized. Errors are a few units in the
// last place of 1.

// q, and dq / dz.
template <class Acc>
struct LanczosSine {
  Acc value, slope;
};

// Horner's scheme, for the value and, if it is used, its derivative.
template <class Acc>
VISOPS_HOT_FN LanczosSine<Acc> lanczos_sine(Acc z) {
  LanczosSine<Acc> q = {static_cast<Acc>(0), static_cast<Acc>(0)};
  const auto add = [&](double coefficient) {  // 1 / (2 k + 1)!
    q.slope = q.slope * z + q.value;
    q.value = q.value * z + static_cast<Acc>(coefficient);
  };
  if constexpr (sizeof(Acc) == 8) {
    add(-1.2161250415535181e-34);
    add(1.1309962886447716e-31);
    add(-9.183689863795546e-29);
    add(6.446950284384474e-26);
    add(-3.868170170630684e-23);
    add(1.9572941063391263e-20);
  }
  add(-8.22063524662433e-18);
  add(2.8114572543455206e-15);
  add(-7.647163731819816e-13);
  add(1.6059043836821613e-10);
  add(-2.505210838544172e-08);
  add(2.7557319223985893e-06);
  add(-0.0001984126984126984);
  add(0.008333333333333333);
  add(-0.16666666666666666);
  add(1.0);
  return q;
}

constexpr double kLanczosTurn = 1.0471975511965977462;  // pi / 3: x by d

// d >= 0.
template <class Acc>
VISOPS_HOT_FN Acc lanczos(Acc d) {
  const Acc three = static_cast<Acc>(3);
  const Acc x = (d < three ? d : three) * static_cast<Acc>(kLanczosTurn);
  const Acc z = x * x;
  const Acc q = lanczos_sine(z).value, square = q * q;
  const Acc w = square * (static_cast<Acc>(1) - static_cast<Acc>(4.0 / 3.0) * (z * square));
  return d < three ? w : static_cast<Acc>(0);
}

// d lanczos / dd, d >= 0: of p - (4/3) z p^2, where p is the square of q.
template <class Acc>
VISOPS_HOT_FN Acc lanczos_derivative(Acc d) {
  const Acc three = static_cast<Acc>(3), two = static_cast<Acc>(2);
  const Acc x = (d < three ? d : three) * static_cast<Acc>(kLanczosTurn);
  const Acc z = x * x;
  const LanczosSine<Acc> q = lanczos_sine(z);
  const Acc p = q.value * q.value, rise = two * (q.value * q.slope);  // dp / dz
  const Acc slope =
      rise - static_cast<Acc>(4.0 / 3.0) * (p * p + two * (z * (p * rise)));  // dw / dz
  return d < three ? slope * (x * static_cast<Acc>(2.0 * kLanczosTurn)) : static_cast<Acc>(0);
}

// The filter of antialias: which taps an axis has, and their weights.

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
    const Acc inner = (static_cast<Acc>(1.5) * d - static_cast<Acc>(2.5)) * d * d + one;
    const Acc outer =
        ((static_cast<Acc>(-0.5) * d + static_cast<Acc>(2.5)) * d - static_cast<Acc>(4)) * d +
        static_cast<Acc>(2);
    return d < one ? inner : (d < static_cast<Acc>(2) ? outer : static_cast<Acc>(0));
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

// antialias of uint8 images in integers.
//
// NOTE [ Integer filter ]
// Where filters_integers(), antialias is evaluated in 16-bit weights and 32-bit sums, which every
// processor has instructions for and which no order of summation changes. From the float32 weights
// w_k of filter_tap(), per axis and output pixel:
//
//   weights   q_k = round(W_k N) - round(W_(k-1) N) with W_k = w_0 + ... + w_k: their sum is N, so
//             a constant image stays constant, and their errors cancel where an image is smooth.
//             N = level 2^shift, with the largest shift that keeps q_k in 16 bits and sums in 32.
//   columns   v = round(sum_i qy_i (p_ij - 128) / 2^shift_y), halves up, in 16 bits; in steps of
//             1 / level. level is 256 for bilinear; bicubic overshoots by up to an eighth of the
//             range at either end, so there it is 192; Lanczos by up to 0.28 of it, so 128.
//   rows      value = (sum_j qx_j v_j) / (N_x level) + 128, in float32; N_x is a power of two
//
// With at most kMostIntegerTaps taps an axis, the value is within 0.4 of the exact one, whatever
// the image: a weight is off by less than 1 / N, a column by 1 / (2 level).

template <Interpolation mode>
struct IntegerLevel {
  static constexpr int32_t value = mode == Interpolation::kBilinear  ? 256
                                   : mode == Interpolation::kBicubic ? 192
                                                                     : 128;
};

// The weights of FilterTaps as integers, which next_weight() yields in order.
struct IntegerTaps {
  int32_t total;  // their sum, N; 0 without taps
  int shift;
  float scale;    // of running sums of filter_tap()
  float sum;      // so far
  int32_t until;  // weights so far
};

// total = level 2^shift, shift <= most_shift. `peak` is the largest filter_tap(), by size.
VISOPS_FN IntegerTaps integer_taps(const FilterTaps<float>& taps, float peak, int32_t level,
                                   int most_shift) {
  // 32767, less what rounding running sums may add.
  constexpr uint32_t kLargest = 0x46ff7800;  // 32700, as a float
  // The largest shift with 2^shift x peak x norm x level <= 32700.
  const auto largest = bit_cast<uint32_t>(peak * taps.norm * static_cast<float>(level));
  constexpr uint32_t kFraction = (1u << 23) - 1;
  const int fits = static_cast<int>(kLargest >> 23) - static_cast<int>(largest >> 23) -
                   ((largest & kFraction) > (kLargest & kFraction) ? 1 : 0);
  IntegerTaps t;
  t.shift = fits > 0 ? (fits < most_shift ? fits : most_shift) : 0;
  t.total = taps.count > 0 ? level << t.shift : 0;
  t.scale = taps.norm * static_cast<float>(t.total);
  t.sum = 0.0f;
  t.until = 0;
  return t;
}

template <Interpolation mode>
VISOPS_FN float filter_peak(const FilterTaps<float>& taps) {
  float peak = 0.0f;
  for (int32_t i = 0; i < taps.count; ++i) {
    const float weight = filter_tap<mode>(taps, taps.first + i);
    const float size = weight < 0.0f ? -weight : weight;
    peak = size > peak ? size : peak;
  }
  return peak;
}

// The weights of tap rows, and of tap columns.
template <Interpolation mode>
VISOPS_FN IntegerTaps integer_rows(const FilterTaps<float>& taps, float peak) {
  return integer_taps(taps, peak, IntegerLevel<mode>::value, 13);
}
template <Interpolation mode>
VISOPS_FN IntegerTaps integer_rows(const FilterTaps<float>& taps) {
  return integer_rows<mode>(taps, filter_peak<mode>(taps));
}
template <Interpolation mode>
VISOPS_FN IntegerTaps integer_columns(const FilterTaps<float>& taps, float peak) {
  return integer_taps(taps, peak, 1, 15);
}
template <Interpolation mode>
VISOPS_FN IntegerTaps integer_columns(const FilterTaps<float>& taps) {
  return integer_columns<mode>(taps, filter_peak<mode>(taps));
}

// The sum of all weights up to a tap, from the one of filter_tap() and IntegerTaps::scale.
VISOPS_HOT_FN int32_t weight_until(float scale, float sum) {
  return static_cast<int32_t>(floor(sum * scale + 0.5f));
}

// The weight of tap `i` of 0, 1, 2 ...
template <Interpolation mode>
VISOPS_HOT_FN int32_t next_weight(const FilterTaps<float>& taps, int32_t i, IntegerTaps* t) {
  t->sum = t->sum + filter_tap<mode>(taps, taps.first + i);
  const int32_t before = t->until;
  const bool last = i + 1 == taps.count;
  t->until = last ? t->total : weight_until(t->scale, t->sum);
  return t->until - before;
}

// What a sum over tap rows becomes, in 16 bits.
VISOPS_HOT_FN int32_t round_column(int32_t sum, int shift) {
  const int32_t v = (sum + ((1 << shift) >> 1)) >> shift;
  return v > -32768 ? (v < 32767 ? v : 32767) : -32768;
}

// What one unit of a sum over tap columns is worth. 1 / 192 is not exact, but near enough for
// multiples of 192 / 2^n to come out exact.
template <Interpolation mode>
VISOPS_HOT_FN float integer_unit(const IntegerTaps& columns) {
  const int32_t most = columns.total > 0 ? columns.total : 1;
  return 1.0f / (static_cast<float>(IntegerLevel<mode>::value) * static_cast<float>(most));
}

// `count` channels of one pixel, at most Channels, before they are blended with fill. `image` is
// the plane of the first.
template <Interpolation mode, int Channels>
VISOPS_FN void integer_pixels(const AugmentSample& s, const SegmentAxes<float>& axes,
                              const uint8_t* image, int count, const FilterTaps<float>& x,
                              const FilterTaps<float>& y, float* value) {
  IntegerTaps columns = integer_columns<mode>(x);
  const IntegerTaps rows = integer_rows<mode>(y);
  int32_t sum[Channels] = {};
  for (int32_t j = 0; j < x.count; ++j) {
    const uint8_t* column =
        image + filter_index(axes.x, s.x, Padding::kConstant, x.first + j) * s.image.column_stride;
    IntegerTaps t = rows;
    int32_t v[Channels] = {};
    for (int32_t i = 0; i < y.count; ++i) {
      const uint8_t* at =
          column + filter_index(axes.y, s.y, Padding::kConstant, y.first + i) * s.image.row_stride;
      const int32_t weight = next_weight<mode>(y, i, &t);
      for (int c = 0; c < Channels; ++c) {
        if (c >= count) break;
        v[c] +=
            weight * (static_cast<int32_t>(load_readonly(at + c * s.image.channel_stride)) - 128);
      }
    }
    const int32_t weight = next_weight<mode>(x, j, &columns);
    for (int c = 0; c < Channels; ++c) sum[c] += weight * round_column(v[c], rows.shift);
  }
  const float unit = integer_unit<mode>(columns);
  for (int c = 0; c < Channels; ++c) value[c] = static_cast<float>(sum[c]) * unit + 128.0f;
}

// The first tap of one axis without antialias, and the fraction from tap `-first_tap` on. `at` is
// relative to the axis' origin.
template <class Acc>
struct AxisStart {
  int64_t first;
  Acc t;
};

template <Interpolation mode, class Acc>
VISOPS_FN AxisStart<Acc> augment_axis_start(const SegmentAxis<Acc>& axis, Acc at) {
  const Acc limit = static_cast<Acc>(1073741824.0);
  const Acc sane = at > -limit ? (at < limit ? at : limit) : -limit;  // NaN becomes -limit
  const Acc from = mode == Interpolation::kNearest ? sane + static_cast<Acc>(0.5) : sane;
  const Acc whole = floor(from);
  return {axis.origin + static_cast<int64_t>(whole) + first_tap(mode),
          mode == Interpolation::kNearest ? static_cast<Acc>(0) : from - whole};
}

// The index in the image of a tap that lies at `tap`, or -1.
template <Interpolation mode>
VISOPS_FN int32_t augment_tap_index(const AxisWindow& window, Padding padding, bool soft_edge,
                                    int64_t tap) {
  // A soft edge is blended by cover; taps beyond it repeat the border.
  const bool repeat = soft_edge && padding == Padding::kConstant && mode == Interpolation::kBicubic;
  const int64_t inside = pad_index(repeat ? Padding::kReplicate : padding, tap - window.first,
                                   window.last - window.first + 1);
  return inside < 0 ? -1 : static_cast<int32_t>(window.first + inside);
}

// The taps of one axis without antialias.
template <Interpolation mode, class Acc>
VISOPS_FN AxisTaps<mode, Acc> augment_axis_taps(const SegmentAxis<Acc>& axis,
                                                const AxisWindow& window, Padding padding,
                                                bool soft_edge, Acc at) {
  AxisTaps<mode, Acc> taps;
  if constexpr (mode == Interpolation::kBilinear) {
    if (padding == Padding::kConstant || padding == Padding::kReplicate) {
      const Acc low = axis.first, high = axis.last;
      const Acc clamped = at > low ? (at < high ? at : high) : low;
      Acc left = floor(clamped);
      // The second tap exists unless the window is one pixel wide.
      if (left > high - static_cast<Acc>(1)) left = high - static_cast<Acc>(1);
      if (left < low) left = low;
      taps.t = clamped - left;
      tap_weights<mode>(taps.t, taps.weight);
      // Far from the origin floats round, so integers keep the taps inside.
      int64_t first = axis.origin + static_cast<int64_t>(left);
      if (first > window.last) first = window.last;
      if (first < window.first) first = window.first;
      taps.index[0] = static_cast<int32_t>(first);
      taps.index[1] = static_cast<int32_t>(first < window.last ? first + 1 : window.last);
      return taps;
    }
  }
  const AxisStart<Acc> start = augment_axis_start<mode>(axis, at);
  taps.t = start.t;
  tap_weights<mode>(taps.t, taps.weight);
  for (int i = 0; i < tap_count(mode); ++i) {
    taps.index[i] = augment_tap_index<mode>(window, padding, soft_edge, start.first + i);
  }
  return taps;
}

// Whether constant padding blends by cover (otherwise by taps that are fill).
VISOPS_FN bool blends_edge(const AugmentParams& p, const AugmentSample& s) {
  return p.padding == Padding::kConstant &&
         (s.mode == Interpolation::kBilinear || (s.mode != Interpolation::kNearest && s.soft_edge));
}

// filter_pixel() or integer_pixel().
template <Interpolation mode, class T, class Acc>
VISOPS_FN Acc any_filter_pixel(const AugmentParams& p, const AugmentSample& s, const T* plane,
                               const SegmentAxes<Acc>& axes, const FilterTaps<Acc>& x,
                               const FilterTaps<Acc>& y) {
  if constexpr (std::is_same<T, uint8_t>::value) {
    if (s.integers) {
      Acc value[1];
      integer_pixels<mode, 1>(s, axes, plane, 1, x, y, value);
      return value[0];
    }
  }
  return filter_pixel<T, mode>(plane, s, axes, p.padding, x, y);
}

// The sampled values of `count` channels from `first` on, before colour. `mode` is the sample's
// own.
template <class T, Interpolation mode, class Acc>
VISOPS_FN void sample_augmented(const AugmentParams& p, const AugmentSample& s,
                                const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                                int64_t first, int64_t count, Acc* value) {
  const T* image = static_cast<const T*>(s.image.data);
  Acc out = static_cast<Acc>(!point.valid || s.is_fill ? 1 : 0);
  if (point.valid && blends_edge(p, s)) {
    out = static_cast<Acc>(1) - edge_cover(axes.x, point.x) * edge_cover(axes.y, point.y);
  }
  if (s.is_fill || !(out < static_cast<Acc>(1))) {
    for (int64_t c = 0; c < count; ++c) {
      value[c] = static_cast<Acc>(p.fill[value_index(p, first + c)]);
    }
    return;
  }
  if constexpr (mode != Interpolation::kNearest) {
    if (s.antialias) {
      const FilterTaps<Acc> x = filter_taps<mode>(axes.x, p.padding, point.x);
      const FilterTaps<Acc> y = filter_taps<mode>(axes.y, p.padding, point.y);
      for (int64_t c = 0; c < count; ++c) {
        const T* plane = image + (first + c) * s.image.channel_stride;
        const Acc v = any_filter_pixel<mode>(p, s, plane, axes, x, y);
        value[c] = blend_fill(v, static_cast<Acc>(p.fill[value_index(p, first + c)]), out);
      }
      return;
    }
  }
  constexpr Interpolation kTaps = tap_mode(mode);
  PixelTaps<kTaps, Acc> taps;
  taps.x = augment_axis_taps<kTaps>(axes.x, s.x, p.padding, s.soft_edge, point.x);
  taps.y = augment_axis_taps<kTaps>(axes.y, s.y, p.padding, s.soft_edge, point.y);
  const bool outside = taps.outside();
  const Strides stride = {0, s.image.channel_stride, s.image.row_stride, s.image.column_stride};
  for (int64_t c = 0; c < count; ++c) {
    const Acc fill = static_cast<Acc>(p.fill[value_index(p, first + c)]);
    const T* plane = image + (first + c) * s.image.channel_stride;
    if (outside) {
      value[c] = fill;
    } else if constexpr (mode == Interpolation::kNearest) {
      value[c] = load_tap(plane, stride, taps, 0, 0);
    } else {
      value[c] = blend_fill(sample_pixel(plane, stride, taps, fill), fill, out);
    }
  }
}

// The colour steps of one pixel, in place. color_steps > 0.
template <class Acc>
VISOPS_FN void color_pixel(const AugmentParams& p, const ColorPlan<Acc>& plan, Acc* value) {
  const int channels = static_cast<int>(p.channels);
  for (int64_t k = 0; k < p.color_steps; ++k) {
    Acc next[kMaxColorChannels];
    for (int c = 0; c < channels; ++c) {
      Acc v = plan.step[k][c][0] * value[0];
      for (int j = 1; j < channels; ++j) v = v + plan.step[k][c][j] * value[j];
      v = v + plan.step[k][c][channels];
      next[c] = p.clamp ? clamp_unit(v) : v;
    }
    for (int c = 0; c < channels; ++c) value[c] = next[c];
  }
}

// The rest for one channel: the clamp if there are no colour steps, then scale and offset.
template <class Acc>
VISOPS_FN Acc finish_value(const AugmentParams& p, Acc input_scale, Acc scale, Acc offset,
                           Acc value) {
  Acc v = value;
  if (p.color_steps == 0) {
    v = v * input_scale;
    if (p.clamp) v = clamp_unit(v);
  }
  return v * scale + offset;
}

template <class Acc>
VISOPS_FN Acc finish_value(const AugmentParams& p, int64_t channel, Acc value) {
  const int64_t i = value_index(p, channel);
  return finish_value(p, static_cast<Acc>(p.input_scale), static_cast<Acc>(p.scale[i]),
                      static_cast<Acc>(p.offset[i]), value);
}

VISOPS_FN bool is_erased(const AugmentParams& p, int64_t sample, int64_t x, int64_t y) {
  for (int64_t i = 0; i < p.erase_count; ++i) {
    const int64_t* r = p.erase + (sample * p.erase_count + i) * 4;
    if (x >= r[0] && x < r[2] && y >= r[1] && y < r[3]) return true;
  }
  return false;
}

template <class Acc>
VISOPS_FN void store_output(DType dtype, void* output, int64_t index, Acc value) {
  const float single = static_cast<float>(value);
  switch (dtype) {
    case DType::kUInt8: return store_element(static_cast<uint8_t*>(output) + index, single);
    case DType::kFloat16: return store_element(static_cast<Half*>(output) + index, single);
    case DType::kBFloat16: return store_element(static_cast<BFloat16*>(output) + index, single);
    case DType::kFloat64:
      return store_element(static_cast<double*>(output) + index, static_cast<double>(value));
    default: return store_element(static_cast<float*>(output) + index, single);
  }
}

}  // namespace visops
