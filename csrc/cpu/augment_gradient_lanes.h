// A segment of an output row as its gradient needs it: places, edges, taps, samples and slopes.
//
// NOTE [ Gradient lanes ]
// Everything is done for the 128 pixels of a segment before the next thing is: plain loops over
// planes, which compilers turn into vectors. Only sampling and scattering go pixel by pixel.
// Bilinear taps that lie in the window, as they do at the clamped coordinate of NOTE [ Window and
// edge ], are offsets and weights; other modes, paddings that fold, filters, the horizon and images
// of 2^30 elements go through core/augment_group.h, which gives the same bits.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/augment_gradient.h"
#include "cpu/affine_rows.h"
#include "cpu/simd.h"

namespace visops {
namespace {

constexpr int kLanes = kSegment + kMaxWidth;

template <class Acc>
using Plane = Acc[kLanes];

// What a task has in hand: one sample, and what is wanted of it.
template <class Acc>
struct GradientTask {
  const AugmentBackwardParams& b;
  const AugmentParams& p;
  int64_t sample;
  AugmentSample s;      // as it was sampled
  AugmentSample slope;  // as its derivatives see it
  ColorPlan<Acc> plan;
  SegmentAxes<Acc> axes;  // of an affine map, to be placed
  bool copies;            // s.mode is not p.mode
  bool small;             // 32-bit offsets reach all of the image and of its gradient
  Span rows;              // of the image gradient, that the task owns
  bool all_rows;
  Acc* grad_image;  // of the sample; or null

  GradientTask(const AugmentBackwardParams& params, int64_t at, Span owned)
      : b(params),
        p(params.forward),
        sample(at),
        s(augment_sample(p, at, augment_image(p, at))),
        slope(slope_sample(p, s)),
        copies(s.mode != p.mode),
        rows(owned),
        all_rows(owned.begin == 0 && owned.end == s.image.height),
        grad_image(static_cast<Acc*>(params.grad_image)) {
    load_color_plan(p, sample, &plan);
    set_axis_widths(slope, s.x, s.map.width_x, &axes.x);
    set_axis_widths(slope, s.y, s.map.width_y, &axes.y);
    const Strides& to = b.grad_image_stride;
    if (grad_image != nullptr) grad_image += sample * to.batch;
    small = elements(s.image.row_stride, s.image.column_stride) < 1073741824.0 &&
            elements(to.row, to.column) < 1073741824.0;
  }

 private:
  double elements(int64_t row, int64_t column) const {
    return static_cast<double>(s.image.height) * fabs(static_cast<double>(row)) +
           static_cast<double>(s.image.width) * fabs(static_cast<double>(column));
  }
};

// Planes of a segment and, from `value` on, of a group of channels.
template <class Acc>
struct GradientPlanes {
  alignas(64) Plane<Acc> x, y;  // places, from the segment's origin
  alignas(64) Plane<Acc> out, edge_x, edge_y;
  alignas(64) Plane<Acc> wx, wy;
  alignas(64) Plane<int32_t> from, to;   // elements to the first tap: in the image, its gradient
  alignas(64) Plane<int32_t> top;        // row of the first tap
  alignas(64) Plane<Acc> gx, gy, fills;  // sums over channels
  alignas(64) Plane<Acc> value[kPixelGroup], dx[kPixelGroup], dy[kPixelGroup];
  alignas(64) Plane<Acc> blended[kPixelGroup];
  alignas(64) Plane<Acc> e[kPixelGroup];
  alignas(64) Plane<Acc> unclamped[kMaxColorSteps][kPixelGroup];  // results of colour steps
};

template <class Acc>
struct GradientSegment {
  AugmentSegment<Acc> segment;
  SegmentAxes<Acc> axes;
  int64_t x0, y;
  int begin, end;  // lanes
  bool edged;   // some pixel meets the window's edge or has no source: planes out, edge_x, edge_y
  bool tapped;  // planes wx, wy, from, to and top are set

  LanePoint<Acc> point(const AugmentMap& map, int lane) const {
    return segment.direct ? lane_point_direct<Acc>(map, x0 + lane, y) : lane_point(segment, lane);
  }
};

template <class Acc>
void place_lanes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at,
                 GradientPlanes<Acc>& planes) {
  const AugmentSegment<Acc> s = at.segment;
  const int begin = at.begin, end = at.end;
  if (s.direct) {
    for (int i = begin; i < end; ++i) {
      const LanePoint<Acc> point = at.point(task.s.map, i);
      planes.x[i] = point.x;
      planes.y[i] = point.y;
    }
  } else if (task.s.map.perspective) {
    for (int i = begin; i < end; ++i) {
      const Acc d = from_centre<Acc>(i);
      const Acc t = d / (static_cast<Acc>(1) + s.bend * d);
      planes.x[i] = s.step_x * t + s.fx;
      planes.y[i] = s.step_y * t + s.fy;
    }
  } else {
    for (int i = begin; i < end; ++i) {
      const Acc d = from_centre<Acc>(i);
      planes.x[i] = s.step_x * d + s.fx;
      planes.y[i] = s.step_y * d + s.fy;
    }
  }
}

// Sets `edged` and its planes.
template <class Acc>
void meet_edges(const GradientTask<Acc>& task, GradientSegment<Acc>& at,
                GradientPlanes<Acc>& planes) {
  const Acc zero = static_cast<Acc>(0);
  const SegmentAxes<Acc> axes = at.axes;
  const int begin = at.begin, end = at.end;
  const bool blends = !task.s.is_fill && blends_edge(task.p, task.slope);
  at.edged = blends || task.s.is_fill || at.segment.direct;
  if (blends && !task.s.map.perspective) {
    // Cover is concave along a row: where both ends are wholly inside, so is what lies between.
    const auto inside = [&](int i) {
      const PixelEdge<Acc> edge = pixel_edge(axes, planes.x[i], planes.y[i]);
      return edge.out == zero && edge.x == zero && edge.y == zero;
    };
    at.edged = !(inside(begin) && inside(end - 1));
  }
  if (!at.edged) return;
  for (int i = begin; i < end; ++i) {
    PixelEdge<Acc> edge = {static_cast<Acc>(task.s.is_fill ? 1 : 0), zero, zero};
    if (blends) edge = pixel_edge(axes, planes.x[i], planes.y[i]);
    planes.out[i] = edge.out;
    planes.edge_x[i] = edge.x;
    planes.edge_y[i] = edge.y;
  }
  if (!at.segment.direct) return;
  for (int i = begin; i < end; ++i) {
    if (at.point(task.s.map, i).valid) continue;
    planes.out[i] = static_cast<Acc>(1);
    planes.edge_x[i] = planes.edge_y[i] = zero;
  }
}

VISOPS_ALWAYS_INLINE double floor_of(double v) { return std::floor(v); }

// Sets `tapped` and its planes where bilinear taps are two by two neighbours in the window.
template <class Acc>
void tap_lanes(const GradientTask<Acc>& task, GradientSegment<Acc>& at,
               GradientPlanes<Acc>& planes) {
  const AugmentParams& p = task.p;
  const SegmentAxis<Acc> ax = at.axes.x, ay = at.axes.y;
  const auto fits = [](const SegmentAxis<Acc>& axis) {
    const Acc exact = static_cast<Acc>(8388608.0);  // 2^23: integers and halves are floats
    return axis.first > -exact && exact > axis.last && axis.last > axis.first;
  };
  at.tapped = p.mode == Interpolation::kBilinear && !task.slope.antialias && !at.segment.direct &&
              task.small && !task.s.is_fill && fits(ax) && fits(ay);
  if (!at.tapped) return;
  const int begin = at.begin, end = at.end;
  if (p.padding != Padding::kConstant && p.padding != Padding::kReplicate) {
    const auto inside = [](const SegmentAxis<Acc>& axis, Acc v) {
      return v >= axis.first && v < axis.last;
    };
    at.tapped = inside(ax, planes.x[begin]) && inside(ax, planes.x[end - 1]) &&
                inside(ay, planes.y[begin]) && inside(ay, planes.y[end - 1]);
    if (!at.tapped) return;
  }
  const Acc one = static_cast<Acc>(1);
  const auto row = static_cast<int32_t>(task.s.image.row_stride);
  const auto column = static_cast<int32_t>(task.s.image.column_stride);
  const auto to_row = static_cast<int32_t>(task.b.grad_image_stride.row);
  const auto to_column = static_cast<int32_t>(task.b.grad_image_stride.column);
  const auto x0 = static_cast<int32_t>(at.segment.x), y0 = static_cast<int32_t>(at.segment.y);
  for (int i = begin; i < end; ++i) {
    const Acc px = planes.x[i], py = planes.y[i];
    const Acc x = px > ax.first ? (px < ax.last ? px : ax.last) : ax.first;
    const Acc y = py > ay.first ? (py < ay.last ? py : ay.last) : ay.first;
    const Acc floor_x = floor_of(x), floor_y = floor_of(y);
    const Acc left = floor_x > ax.last - one ? ax.last - one : floor_x;
    const Acc top = floor_y > ay.last - one ? ay.last - one : floor_y;
    planes.wx[i] = x - left;
    planes.wy[i] = y - top;
    const int32_t r = static_cast<int32_t>(top) + y0, c = static_cast<int32_t>(left) + x0;
    planes.top[i] = r;
    planes.from[i] = r * row + c * column;
    planes.to[i] = r * to_row + c * to_column;
  }
}

// Elements of any type as the accumulation type. Vectors may read and write kMaxWidth lanes more.
template <class T, class Acc>
VISOPS_ALWAYS_INLINE void convert_lanes(const T* from, int begin, int end, Acc* to) {
  if constexpr (std::is_same<Acc, double>::value) {
    for (int i = begin; i < end; ++i) to[i] = static_cast<double>(load_element(from + i));
  } else {
    for (int i = begin; i < end; i += Floats::kWidth) load_floats(from + i).store(to + i);
  }
}

// One channel of tapped lanes: value and, where they are wanted, derivatives.
template <class T, class Acc>
void sample_tapped(const T* plane, int64_t row, int64_t column, const GradientSegment<Acc>& at,
                   bool slopes, const GradientPlanes<Acc>& planes, Acc* VISOPS_RESTRICT value,
                   Acc* VISOPS_RESTRICT dx, Acc* VISOPS_RESTRICT dy) {
  alignas(64) Plane<T> raw[4];
  alignas(64) Plane<Acc> tap[4];
  const int begin = at.begin, end = at.end;
  for (int i = begin; i < end; ++i) {
    const T* first = plane + planes.from[i];
    raw[0][i] = first[0];
    raw[1][i] = first[column];
    raw[2][i] = first[row];
    raw[3][i] = first[row + column];
  }
  for (int k = 0; k < 4; ++k) convert_lanes(raw[k], begin, end, tap[k]);
  const Acc* wx = planes.wx;
  const Acc* wy = planes.wy;
  if (slopes) {
    for (int i = begin; i < end; ++i) {
      const Acc left = tap[2][i] - tap[0][i], right = tap[3][i] - tap[1][i];
      const Acc t0 = tap[0][i] + wy[i] * left, t1 = tap[1][i] + wy[i] * right;
      value[i] = t0 + wx[i] * (t1 - t0);
      dx[i] = t1 - t0;
      dy[i] = left + wx[i] * (right - left);
    }
  } else {
    for (int i = begin; i < end; ++i) {
      const Acc t0 = tap[0][i] + wy[i] * (tap[2][i] - tap[0][i]);
      const Acc t1 = tap[1][i] + wy[i] * (tap[3][i] - tap[1][i]);
      value[i] = t0 + wx[i] * (t1 - t0);
    }
  }
}

// The lanes that are not tapped, one after another. `first` is a lane's first channel.
template <class T, Interpolation mode, bool slopes, class Acc>
void sample_lanes(const GradientTask<Acc>& task, GradientSegment<Acc>& at, int64_t first, int count,
                  GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.slope;
  const T* image = static_cast<const T*>(s.image.data) + first * s.image.channel_stride;
  for (int i = at.begin; i < at.end; ++i) {
    PixelGroup<Acc> group;
    const bool inside =
        !(at.edged && !(planes.out[i] < static_cast<Acc>(1))) &&
        sample_group<T, mode, slopes>(task.p, s, at.axes, {planes.x[i], planes.y[i], true}, image,
                                      first, count, &group);
    if (!inside) {
      if (!at.edged) {
        for (int k = at.begin; k < at.end; ++k) {
          planes.out[k] = planes.edge_x[k] = planes.edge_y[k] = static_cast<Acc>(0);
        }
        at.edged = true;
      }
      planes.out[i] = static_cast<Acc>(1);
    }
    for (int c = 0; c < count; ++c) {
      planes.value[c][i] =
          inside ? group.value[c] : static_cast<Acc>(task.p.fill[value_index(task.p, first + c)]);
      if constexpr (slopes) {
        planes.dx[c][i] = inside ? group.dx[c] : static_cast<Acc>(0);
        planes.dy[c][i] = inside ? group.dy[c] : static_cast<Acc>(0);
      }
    }
  }
}

// Planes `value` and, for `slopes`, dx and dy of `count` channels. `mode` is that of the forward.
template <class T, Interpolation mode, class Acc>
void sample_planes(const GradientTask<Acc>& task, GradientSegment<Acc>& at, int64_t first,
                   int count, bool slopes, GradientPlanes<Acc>& planes) {
  if (at.tapped) {
    const AugmentImage& image = task.s.image;
    for (int c = 0; c < count; ++c) {
      const T* plane = static_cast<const T*>(image.data) + (first + c) * image.channel_stride;
      sample_tapped(plane, image.row_stride, image.column_stride, at, slopes, planes,
                    planes.value[c], planes.dx[c], planes.dy[c]);
    }
  } else if (slopes) {
    sample_lanes<T, mode, true>(task, at, first, count, planes);
  } else {
    sample_lanes<T, mode, false>(task, at, first, count, planes);
  }
}

// Planes `blended`: what colour was applied to.
template <class T, class Acc>
void blend_planes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int64_t first,
                  int count, GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.s;
  const int begin = at.begin, end = at.end;
  const T* image = static_cast<const T*>(s.image.data) + first * s.image.channel_stride;
  for (int c = 0; c < count; ++c) {
    const Acc fill = static_cast<Acc>(task.p.fill[value_index(task.p, first + c)]);
    Acc* blended = planes.blended[c];
    if (!at.edged) {
      for (int i = begin; i < end; ++i) blended[i] = planes.value[c][i];
    } else {
      for (int i = begin; i < end; ++i) {
        blended[i] = blend_fill(planes.value[c][i], fill, planes.out[i]);
      }
    }
  }
  if (!task.copies || s.is_fill) return;
  for (int i = begin; i < end; ++i) {
    PixelGroup<Acc> group;
    const bool inside = sample_group<T, Interpolation::kNearest, false>(
        task.p, s, at.axes, {planes.x[i], planes.y[i], true}, image, first, count, &group);
    for (int c = 0; c < count; ++c) {
      planes.blended[c][i] =
          inside ? group.value[c] : static_cast<Acc>(task.p.fill[value_index(task.p, first + c)]);
    }
  }
}

}  // namespace
}  // namespace visops
