// Up to four channels of one augmented pixel at a time, in plain scalar code.
//
// The arithmetic is that of NOTE [ One augmented pixel ] (core/warp/augment_pixel.h), arranged so
// that a GPU keeps the channels in registers, which can't be indexed at run time: loops over
// channels have a fixed end and break early. The taps' weights, and their derivatives where they
// are wanted, are computed once for all channels.
#pragma once

#include "core/warp/augment_pixel.h"

namespace visops {

constexpr int kPixelGroup = 4;
static_assert(kPixelGroup == kMaxColorChannels, "colour needs all channels at once");

VISOPS_FN int group_size(const AugmentParams& p, int64_t first) {
  const int64_t left = p.channels - first;
  return left < kPixelGroup ? static_cast<int>(left) : kPixelGroup;
}

template <class Acc>
struct PixelGroup {
  Acc value[kPixelGroup];                // sampled, before it is blended with fill
  Acc dx[kPixelGroup], dy[kPixelGroup];  // its derivatives, where they are wanted
};

// d filter_weight / d distance; the left-hand one where there are two: a tap's distance shrinks as
// the coordinate grows, and the taps are those of the interval open on the left.
template <Interpolation mode, class Acc>
VISOPS_HOT_FN Acc filter_derivative(Acc distance) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const bool before = distance <= zero;
  const Acc d = before ? -distance : distance;
  Acc slope;
  if constexpr (mode == Interpolation::kBilinear) {
    slope = d < one || (d == one && !before) ? static_cast<Acc>(-1) : zero;
  } else if constexpr (mode == Interpolation::kLanczos) {
    slope = lanczos_derivative(d);
  } else {
    const Acc inner = (static_cast<Acc>(4.5) * d - static_cast<Acc>(5)) * d;
    const Acc outer = (static_cast<Acc>(-1.5) * d + static_cast<Acc>(5)) * d - static_cast<Acc>(4);
    slope = d < one ? inner : (d < static_cast<Acc>(2) ? outer : zero);
  }
  return before ? -slope : slope;
}

// d (filter_tap) / d at, before it is divided by the taps' sum.
template <Interpolation mode, class Acc>
VISOPS_HOT_FN Acc filter_tap_slope(const FilterTaps<Acc>& taps, int32_t k) {
  const Acc distance = (static_cast<Acc>(k) - taps.at) * taps.scale;
  return -(taps.scale * filter_derivative<mode>(distance));
}

template <Interpolation mode, class Acc>
VISOPS_FN Acc filter_slope_sum(const FilterTaps<Acc>& taps) {
  Acc sum = static_cast<Acc>(0);
  for (int32_t i = 0; i < taps.count; ++i) {
    sum = sum + filter_tap_slope<mode>(taps, taps.first + i);
  }
  return sum;
}

// A tap's weight w = f / sum f, and dw / d at = (f' - w sum f') / sum f.
template <class Acc>
struct FilterWeight {
  Acc weight, slope;
};

template <Interpolation mode, bool slopes, class Acc>
VISOPS_HOT_FN FilterWeight<Acc> filter_weight_at(const FilterTaps<Acc>& taps, Acc slope_sum,
                                                 int32_t i) {
  FilterWeight<Acc> w;
  w.weight = filter_tap<mode>(taps, taps.first + i) * taps.norm;
  w.slope = static_cast<Acc>(0);
  if constexpr (slopes) {
    w.slope = (filter_tap_slope<mode>(taps, taps.first + i) - w.weight * slope_sum) * taps.norm;
  }
  return w;
}

// filter_pixel() for a group, a PixelGroup or the like. `image` is the plane of its first channel.
template <class T, Interpolation mode, bool slopes, class Acc, class Group>
VISOPS_FN void filter_group(const AugmentParams& p, const AugmentSample& s,
                            const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                            const T* image, int count, Group* group) {
  const Acc zero = static_cast<Acc>(0);
  const FilterTaps<Acc> x = filter_taps<mode>(axes.x, p.padding, point.x);
  const FilterTaps<Acc> y = filter_taps<mode>(axes.y, p.padding, point.y);
  const Acc sum_x = slopes ? filter_slope_sum<mode>(x) : zero;
  const Acc sum_y = slopes ? filter_slope_sum<mode>(y) : zero;
  for (int c = 0; c < kPixelGroup; ++c) {
    group->value[c] = zero;
    if constexpr (slopes) group->dx[c] = group->dy[c] = zero;
  }
  for (int32_t j = 0; j < x.count; ++j) {
    const T* column =
        image + filter_index(axes.x, s.x, p.padding, x.first + j) * s.image.column_stride;
    Acc v[kPixelGroup] = {}, dv[kPixelGroup] = {};
    for (int32_t i = 0; i < y.count; ++i) {
      const T* at = column + filter_index(axes.y, s.y, p.padding, y.first + i) * s.image.row_stride;
      const FilterWeight<Acc> w = filter_weight_at<mode, slopes>(y, sum_y, i);
      for (int c = 0; c < kPixelGroup; ++c) {
        if (c >= count) break;
        const T element = load_readonly(at + c * s.image.channel_stride);
        const Acc e = static_cast<Acc>(load_element(&element));
        v[c] = v[c] + w.weight * e;
        if constexpr (slopes) dv[c] = dv[c] + w.slope * e;
      }
    }
    const FilterWeight<Acc> w = filter_weight_at<mode, slopes>(x, sum_x, j);
    for (int c = 0; c < kPixelGroup; ++c) {
      group->value[c] = group->value[c] + w.weight * v[c];
      if constexpr (slopes) {
        group->dx[c] = group->dx[c] + w.slope * v[c];
        group->dy[c] = group->dy[c] + w.weight * dv[c];
      }
    }
  }
}

// Samples `count` channels without antialias; `image` is the plane of the first one. False if the
// pixel has no taps: it is fill. `mode` is the sample's own, the sample is not is_fill, and the
// point is valid. fill_of(c) is the fill of the c-th of these channels.
template <class T, Interpolation mode, bool slopes, class Acc, class FillOf, class Group>
VISOPS_FN bool tap_group(const AugmentParams& p, const AugmentSample& s,
                         const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point, const T* image,
                         int count, const FillOf& fill_of, Group* group) {
  PixelTaps<mode, Acc> taps;
  taps.x = augment_axis_taps<mode>(axes.x, s.x, p.padding, s.soft_edge, point.x);
  taps.y = augment_axis_taps<mode>(axes.y, s.y, p.padding, s.soft_edge, point.y);
  if (taps.outside()) return false;
  const Strides stride = {0, s.image.channel_stride, s.image.row_stride, s.image.column_stride};
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    const T* plane = image + c * stride.channel;
    if constexpr (mode == Interpolation::kNearest) {
      group->value[c] = load_tap(plane, stride, taps, 0, 0);
    } else {
      const Acc fill = fill_of(c);
      group->value[c] = sample_pixel(plane, stride, taps, fill);
      if constexpr (slopes) {
        const PixelGradient<Acc> d = differentiate_pixel(plane, stride, taps, fill);
        group->dx[c] = d.x;
        group->dy[c] = d.y;
      }
    }
  }
  return true;
}

// tap_group(), or filter_group() where the sample has antialias.
template <class T, Interpolation mode, bool slopes, class Acc>
VISOPS_FN bool sample_group(const AugmentParams& p, const AugmentSample& s,
                            const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                            const T* image, int64_t first, int count, PixelGroup<Acc>* group) {
  if constexpr (mode != Interpolation::kNearest) {
    if (s.antialias) {
      if constexpr (std::is_same<T, uint8_t>::value && !slopes) {
        if (s.integers) {
          const FilterTaps<Acc> x = filter_taps<mode>(axes.x, p.padding, point.x);
          const FilterTaps<Acc> y = filter_taps<mode>(axes.y, p.padding, point.y);
          integer_pixels<mode, kPixelGroup>(s, axes, image, count, x, y, group->value);
          return true;
        }
      }
      filter_group<T, mode, slopes>(p, s, axes, point, image, count, group);
      return true;
    }
  }
  const auto fill_of = [&](int c) { return static_cast<Acc>(p.fill[value_index(p, first + c)]); };
  return tap_group<T, tap_mode(mode), slopes>(p, s, axes, point, image, count, fill_of, group);
}

// One colour step, before the clamp.
template <class Acc>
VISOPS_FN void color_step(const ColorPlan<Acc>& plan, int64_t step, int channels,
                          const Acc value[kPixelGroup], Acc next[kPixelGroup]) {
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= channels) break;
    const Acc* row = plan.step[step][c];
    Acc v = row[0] * value[0];
    for (int j = 1; j < kPixelGroup; ++j) {
      if (j >= channels) break;
      v = v + row[j] * value[j];
    }
    next[c] = v + row[channels];
  }
}

// color_pixel() for a group: all `channels` of p.
template <class Acc>
VISOPS_FN void color_group(const AugmentParams& p, const ColorPlan<Acc>& plan, int64_t steps,
                           int channels, Acc value[kPixelGroup]) {
  for (int64_t k = 0; k < steps; ++k) {
    Acc next[kPixelGroup];
    color_step(plan, k, channels, value, next);
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= channels) break;
      value[c] = p.clamp ? clamp_unit(next[c]) : next[c];
    }
  }
}

}  // namespace visops
