// One pixel of the augmentation in plain scalar code: sampling, colour, output.
//
// NOTE [ One augmented pixel ]
// The arithmetic that every backend must reproduce bit for bit: CUDA runs it as it stands, the CPU
// where no vector path fits. In this order, without contraction:
//
//   sample   the taps of NOTE [ One pixel ] (core/pixel.h) at the clamped coordinate, then
//            blended with fill (NOTE [ Window and edge ], core/warp/augment_segment.h)
//   filter   antialias: v_j = sum_i wy_i p_ij, value = sum_j wx_j v_j, taps in ascending order,
//            weights f(distance x filter_scale), divided by their sum over existing taps; or in
//            integers, NOTE [ Integer filter ] (core/warp/augment_integers.h)
//   colour   per step v'_c = ((a_c0 v_0 + a_c1 v_1) + ...) + a_cC, then clamp
//   output   v scale + offset, erased where a rectangle covers the pixel, rounded when stored
#pragma once

#include <type_traits>

#include "core/warp/affine_pixel.h"
#include "core/warp/augment_color.h"
#include "core/warp/augment_integers.h"
#include "core/warp/augment_segment.h"

namespace visops {

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
