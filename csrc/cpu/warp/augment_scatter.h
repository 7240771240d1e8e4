// Hands the gradient of a segment's samples to the taps that they came from.
//
// Pixels go in raster order and a pixel's taps row by row, so every element of the image gradient
// receives its terms in one order, whichever rows a task owns.
#pragma once

#include "cpu/warp/augment_gradient_filter.h"
#include "cpu/warp/augment_gradient_lanes.h"

namespace visops {
namespace {

// Tapped bilinear lanes, with `Channels` channels, or `count` if that is 0.
template <int Channels, bool all_rows, class Acc>
void scatter_tapped(const GradientTask<Acc>& task, int begin, int end, char* first, int count,
                    const GradientPlanes<Acc>& planes) {
  const Strides& stride = task.b.grad_image_stride;
  const int64_t row = stride.row, column = stride.column, channel = stride.channel;
  const int channels = Channels > 0 ? Channels : count;
  const Acc one = static_cast<Acc>(1);
  for (int i = begin; i < end; ++i) {
    const Acc wx = planes.wx[i], wy = planes.wy[i];
    const Acc left = one - wx, above = one - wy;
    const Acc w00 = above * left, w01 = above * wx, w10 = wy * left, w11 = wy * wx;
    Acc* to = reinterpret_cast<Acc*>(first + planes.to[i]);
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

// Copies, in the planes of `nearest`.
template <class Acc>
void scatter_nearest(const GradientTask<Acc>& task, int begin, int end, char* first, int count,
                     const GradientPlanes<Acc>& planes) {
  const int64_t channel = task.b.grad_image_stride.channel;
  for (int i = begin; i < end; ++i) {
    const int64_t row = planes.top[i];
    if (planes.to[i] < 0 || row < task.rows.begin || row >= task.rows.end) continue;
    Acc* to = reinterpret_cast<Acc*>(first + planes.to[i]);
    for (int c = 0; c < count; ++c) to[c * channel] += planes.e[c][i];
  }
}

// One pixel without a filter, in any mode; `to` is the first channel's plane.
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

// Four columns at a time. Returns how many are done: the rest, and all doubles, go one by one.
VISOPS_ALWAYS_INLINE int scatter_quads(const float* weight, float by_row, float d, int columns,
                                       float* to) {
  int j = 0;
  for (; j + Quad::kWidth <= columns; j += Quad::kWidth) {
    const Quad w = Quad(by_row) * Quad::load(weight + j);
    (Quad::load(to + j) + w * Quad(d)).store(to + j);
  }
  return j;
}
VISOPS_ALWAYS_INLINE int scatter_quads(const double*, double, double, int, double*) { return 0; }

// A filter with known taps; `x` and `y` hold offsets in the image gradient.
template <class Acc>
void scatter_known(const GradientTask<Acc>& task, const KnownTaps<Acc>& x, const KnownTaps<Acc>& y,
                   int lane, Acc* to, int count, const GradientPlanes<Acc>& planes) {
  const Strides& stride = task.b.grad_image_stride;
  const Acc zero = static_cast<Acc>(0);
  // A weight of zero hands on nothing, not even NaN or infinity.
  int begin = 0, end = x.count;
  while (begin < end && x.weight[begin] == zero) ++begin;
  while (begin < end && x.weight[end - 1] == zero) --end;
  bool whole = x.adjacent && stride.column == 1;
  for (int j = begin; j < end; ++j) whole = whole && x.weight[j] != zero;
  for (int i = 0; i < y.count; ++i) {
    const Acc by_row = y.weight[i];
    const int64_t offset = y.offset[i];
    if (by_row == zero || offset < task.rows.begin * stride.row ||
        offset >= task.rows.end * stride.row) {
      continue;
    }
    for (int c = 0; c < count; ++c) {
      Acc* row = to + offset + c * stride.channel;
      const Acc d = planes.e[c][lane];
      int j = begin;
      if (whole) {
        j += scatter_quads(x.weight + begin, by_row, d, end - begin, row + x.offset[begin]);
      }
      for (; j < end; ++j) {
        if (x.weight[j] != zero) row[x.offset[j]] += (by_row * x.weight[j]) * d;
      }
    }
  }
}

template <Interpolation mode, class Acc>
void scatter_filtered(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int lane,
                      Acc* to, int count, const GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.s;
  const Padding padding = task.p.padding;
  const Strides& stride = task.b.grad_image_stride;
  const SegmentAxes<Acc>& axes = at.axes;
  KnownTaps<Acc> known_x, known_y;
  if (know_taps<mode, false>(axes.x, s.x, padding, planes.x[lane], stride.column, known_x) &&
      know_taps<mode, false>(axes.y, s.y, padding, planes.y[lane], stride.row, known_y)) {
    return scatter_known(task, known_x, known_y, lane, to, count, planes);
  }
  const FilterTaps<Acc> x = filter_taps<mode>(axes.x, padding, planes.x[lane]);
  const FilterTaps<Acc> y = filter_taps<mode>(axes.y, padding, planes.y[lane]);
  for (int32_t i = 0; i < y.count; ++i) {
    const int64_t r = filter_index(axes.y, s.y, padding, y.first + i);
    const Acc by_row = filter_tap<mode>(y, y.first + i) * y.norm;
    if (by_row == static_cast<Acc>(0) || r < task.rows.begin || r >= task.rows.end) continue;
    for (int32_t j = 0; j < x.count; ++j) {
      const Acc by_column = filter_tap<mode>(x, x.first + j) * x.norm;
      if (by_column == static_cast<Acc>(0)) continue;
      Acc* tap =
          to + r * stride.row + filter_index(axes.x, s.x, padding, x.first + j) * stride.column;
      for (int c = 0; c < count; ++c) {
        tap[c * stride.channel] += (by_row * by_column) * planes.e[c][lane];
      }
    }
  }
}

// Lanes one by one; `mode` is the sample's own.
template <Interpolation mode, class Acc>
void scatter_lanes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int begin,
                   int end, Acc* to, int count, const GradientPlanes<Acc>& planes) {
  for (int i = begin; i < end; ++i) {
    if (at.edged && !(planes.out[i] < static_cast<Acc>(1))) continue;  // fill
    if constexpr (mode != Interpolation::kNearest) {
      if (task.s.antialias) {
        scatter_filtered<mode>(task, at, i, to, count, planes);
        continue;
      }
    }
    scatter_pixel<tap_mode(mode)>(task, at, i, to, count, planes);
  }
}

// Plane `e` of `count` channels from `first` on.
template <class Acc>
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
  char* bytes = reinterpret_cast<char*>(to);
  if (at.nearest) return scatter_nearest(task, begin, end, bytes, count, planes);
  if (at.tapped && !task.copies) {
    if (!task.all_rows) return scatter_tapped<0, false>(task, begin, end, bytes, count, planes);
    if (count == 3) return scatter_tapped<3, true>(task, begin, end, bytes, count, planes);
    return scatter_tapped<0, true>(task, begin, end, bytes, count, planes);
  }
  switch (task.s.mode) {
    case Interpolation::kNearest:
      return scatter_lanes<Interpolation::kNearest>(task, at, begin, end, to, count, planes);
    case Interpolation::kBilinear:
      return scatter_lanes<Interpolation::kBilinear>(task, at, begin, end, to, count, planes);
    case Interpolation::kBicubic:
      return scatter_lanes<Interpolation::kBicubic>(task, at, begin, end, to, count, planes);
    case Interpolation::kLanczos:
      return scatter_lanes<Interpolation::kLanczos>(task, at, begin, end, to, count, planes);
  }
}

}  // namespace
}  // namespace visops
