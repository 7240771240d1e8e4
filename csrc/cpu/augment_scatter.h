// Hands the gradient of a segment's samples to the taps they were taken from.
//
// Pixels go in raster order and a pixel's taps row by row, so every element of the image gradient
// receives its terms in one order, whichever rows of it a task owns.
#pragma once

#include "cpu/augment_gradient_lanes.h"

namespace visops {
namespace {

// Bilinear lanes that are tapped; `Channels` of them, or `count` where it is 0.
template <int Channels, bool all_rows, class Acc>
void scatter_tapped(const GradientTask<Acc>& task, int begin, int end, Acc* first, int count,
                    const GradientPlanes<Acc>& planes) {
  const Strides& stride = task.b.grad_image_stride;
  const int64_t row = stride.row, column = stride.column, channel = stride.channel;
  const int channels = Channels > 0 ? Channels : count;
  const Acc one = static_cast<Acc>(1);
  for (int i = begin; i < end; ++i) {
    const Acc wx = planes.wx[i], wy = planes.wy[i];
    const Acc left = one - wx, above = one - wy;
    const Acc w00 = above * left, w01 = above * wx, w10 = wy * left, w11 = wy * wx;
    Acc* to = first + planes.to[i];
    const int64_t top = planes.top[i];
    const bool upper = all_rows || (top >= task.rows.begin && top < task.rows.end);
    const bool lower = all_rows || (top + 1 >= task.rows.begin && top + 1 < task.rows.end);
    if (upper) {
      for (int c = 0; c < channels; ++c) {
        const Acc d = planes.e[c][i];
        to[c * channel] += w00 * d;
        to[c * channel + column] += w01 * d;
      }
    }
    if (lower) {
      for (int c = 0; c < channels; ++c) {
        const Acc d = planes.e[c][i];
        to[c * channel + row] += w10 * d;
        to[c * channel + row + column] += w11 * d;
      }
    }
  }
}

// One pixel of any mode without a filter; `to` is the first channel's plane.
template <Interpolation mode, class Acc>
void scatter_pixel(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int lane, Acc* to,
                   int count, const GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.s;
  const Strides& stride = task.b.grad_image_stride;
  const auto x =
      augment_axis_taps<mode>(at.axes.x, s.x, task.p.padding, s.soft_edge, planes.x[lane]);
  const auto y =
      augment_axis_taps<mode>(at.axes.y, s.y, task.p.padding, s.soft_edge, planes.y[lane]);
  for (int i = 0; i < tap_count(mode); ++i) {
    const int64_t r = y.index[i];
    if (r < task.rows.begin || r >= task.rows.end) continue;
    for (int j = 0; j < tap_count(mode); ++j) {
      if (x.index[j] < 0) continue;
      const Acc weight = y.weight[i] * x.weight[j];
      Acc* tap = to + r * stride.row + x.index[j] * stride.column;
      for (int c = 0; c < count; ++c) tap[c * stride.channel] += weight * planes.e[c][lane];
    }
  }
}

constexpr int kKnownTaps = 256;  // of a filter, whose weights are computed once for all rows

template <Interpolation mode, class Acc>
void scatter_filtered(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int lane,
                      Acc* to, int count, const GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.s;
  const Padding padding = task.p.padding;
  const Strides& stride = task.b.grad_image_stride;
  const FilterTaps<Acc> x = filter_taps<mode>(at.axes.x, padding, planes.x[lane]);
  const FilterTaps<Acc> y = filter_taps<mode>(at.axes.y, padding, planes.y[lane]);
  Acc known_weight[kKnownTaps];
  int64_t known_offset[kKnownTaps];
  const auto weight_at = [&](int32_t j) { return filter_tap<mode>(x, x.first + j) * x.norm; };
  const auto offset_at = [&](int32_t j) {
    return filter_index(at.axes.x, s.x, padding, x.first + j) * stride.column;
  };
  for (int32_t j = 0; j < x.count && j < kKnownTaps; ++j) {
    known_weight[j] = weight_at(j);
    known_offset[j] = offset_at(j);
  }
  for (int32_t i = 0; i < y.count; ++i) {
    const int64_t r = filter_index(at.axes.y, s.y, padding, y.first + i);
    if (r < task.rows.begin || r >= task.rows.end) continue;
    const Acc by_row = filter_tap<mode>(y, y.first + i) * y.norm;
    if (by_row == static_cast<Acc>(0)) continue;
    for (int32_t j = 0; j < x.count; ++j) {
      const Acc by_column = j < kKnownTaps ? known_weight[j] : weight_at(j);
      if (by_column == static_cast<Acc>(0)) continue;
      const Acc weight = by_row * by_column;
      Acc* tap = to + r * stride.row + (j < kKnownTaps ? known_offset[j] : offset_at(j));
      for (int c = 0; c < count; ++c) tap[c * stride.channel] += weight * planes.e[c][lane];
    }
  }
}

// Plane `e` of `count` channels from `first` on. `mode` is the forward's.
template <Interpolation mode, class Acc>
void scatter_planes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int64_t first,
                    int count, const GradientPlanes<Acc>& planes) {
  if (task.s.is_fill) return;
  Acc* to = task.grad_image + first * task.b.grad_image_stride.channel;
  int begin = at.begin, end = at.end;
  const auto fill = [&](int i) { return !(planes.out[i] < static_cast<Acc>(1)); };
  if (at.edged) {
    while (begin < end && fill(begin)) ++begin;
    while (begin < end && fill(end - 1)) --end;
  }
  if (at.tapped && !task.copies) {
    if (!task.all_rows) return scatter_tapped<0, false>(task, begin, end, to, count, planes);
    if (count == 3) return scatter_tapped<3, true>(task, begin, end, to, count, planes);
    return scatter_tapped<0, true>(task, begin, end, to, count, planes);
  }
  for (int i = begin; i < end; ++i) {
    if (at.edged && fill(i)) continue;
    if (task.copies || mode == Interpolation::kNearest) {
      scatter_pixel<Interpolation::kNearest>(task, at, i, to, count, planes);
    } else if constexpr (mode != Interpolation::kNearest) {
      if (task.s.antialias) {
        scatter_filtered<mode>(task, at, i, to, count, planes);
      } else {
        scatter_pixel<mode>(task, at, i, to, count, planes);
      }
    }
  }
}

}  // namespace
}  // namespace visops
