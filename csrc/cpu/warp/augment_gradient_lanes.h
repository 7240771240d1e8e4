// A segment of an output row for its gradient: places, edges and taps.
//
// NOTE [ Gradient lanes ]
// Every step runs over all 128 pixels of a segment before the next one: plain loops over planes,
// which compilers vectorise. Only sampling and scattering go pixel by pixel. Bilinear taps that lie
// in the window, as they do at the clamped coordinate of NOTE [ Window and edge ], are offsets and
// weights. Other modes, paddings that fold, filters, the horizon and images of 1 GiB go through
// core/warp/augment_group.h, which gives the same bits.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/warp/augment_gradient.h"
#include "cpu/simd/floats.h"
#include "cpu/warp/affine_rows.h"

namespace visops {
namespace {

template <class Acc>
using Plane = Acc[kPaddedSegment];

template <class Acc>
struct GradientTask;
template <class Acc>
struct GradientPlanes;
template <class Acc>
struct GradientSegment;

// How segments are sampled, for one image dtype and interpolation. Calls go through pointers, one
// per segment and group of channels, so that the rest is compiled once per accumulation type.
template <class Acc>
struct GradientSampler {
  // Planes `value` and, for `slopes`, dx and dy of `count` channels.
  void (*sample)(const GradientTask<Acc>& task, GradientSegment<Acc>& at, int64_t first, int count,
                 bool slopes, GradientPlanes<Acc>& planes);
  // Planes `blended` where the forward copied elements.
  void (*copy)(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int64_t first,
               int count, GradientPlanes<Acc>& planes);
};

// A task: one sample, and the gradients wanted of it.
template <class Acc>
struct GradientTask {
  const AugmentBackwardParams& b;
  const AugmentParams& p;
  int64_t sample;
  AugmentSample s;      // as it was sampled
  AugmentSample slope;  // as it is differentiated
  ColorPlan<Acc> plan;
  SegmentAxes<Acc> axes;  // of an affine map, to be placed per segment
  bool copies;            // s.mode is not p.mode
  bool small;             // 32-bit byte offsets reach all of the image and of its gradient
  Span rows;              // of the image gradient, owned by the task
  bool all_rows;
  Acc* grad_image;  // of the sample; or null
  GradientSampler<Acc> sampler;

  GradientTask(const AugmentBackwardParams& params, int64_t at, Span owned,
               const GradientSampler<Acc>& how)
      : b(params),
        p(params.forward),
        sample(at),
        s(augment_sample(p, at, augment_image(p, at))),
        slope(slope_sample(p, s)),
        copies(s.mode != p.mode),
        rows(owned),
        all_rows(owned.begin == 0 && owned.end == s.image.height),
        grad_image(static_cast<Acc*>(params.grad_image)),
        sampler(how) {
    load_color_plan(p, sample, &plan);
    set_axis_widths(slope, s.x, s.map.width_x, &axes.x);
    set_axis_widths(slope, s.y, s.map.width_y, &axes.y);
    const Strides& to = b.grad_image_stride;
    if (grad_image != nullptr) grad_image += sample * to.batch;
    small =
        bytes(element_size(p.dtype), s.image.row_stride, s.image.column_stride) < 1073741824.0 &&
        bytes(int64_t{sizeof(Acc)}, to.row, to.column) < 1073741824.0;
  }

 private:
  double bytes(int64_t size, int64_t row, int64_t column) const {
    return (static_cast<double>(s.image.height) * fabs(static_cast<double>(row)) +
            static_cast<double>(s.image.width) * fabs(static_cast<double>(column))) *
           static_cast<double>(size);
  }
};

// Planes of a segment; from `value` on, of a group of channels.
template <class Acc>
struct GradientPlanes {
  alignas(64) Plane<Acc> x, y;  // places, from the segment's origin
  alignas(64) Plane<Acc> out, edge_x, edge_y;
  alignas(64) Plane<Acc> wx, wy;
  alignas(64) Plane<int32_t> from, to;  // bytes to the first tap: in the image, and in its gradient
  alignas(64) Plane<int32_t> top;       // row of the first tap
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
  bool edged;      // a pixel meets the window's edge or has no source: out, edge_x, edge_y are set
  bool tapped;     // planes wx, wy, from, to and top are set, for bilinear taps
  bool nearest;    // planes to and top are set, for copies; `to` is negative beyond the window

  LanePoint<Acc> point(const AugmentMap& map, int lane) const {
    return segment.direct ? lane_point_direct<Acc>(map, x0 + lane, y) : lane_point(segment, lane);
  }
};

template <class Acc>
void position_lanes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at,
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
    // Cover is concave along a row: if both ends are wholly inside, so is everything between.
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

// Whether 32-bit offsets and floats can hold the lanes' taps.
template <class Acc>
bool fits_lanes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at) {
  const auto fits = [](const SegmentAxis<Acc>& axis) {
    const Acc exact = static_cast<Acc>(8388608.0);  // 2^23: integers and halves are floats
    return axis.first > -exact && exact > axis.last;
  };
  return task.small && !task.s.is_fill && !at.segment.direct && fits(at.axes.x) && fits(at.axes.y);
}

template <class Acc>
bool ends_within(const GradientSegment<Acc>& at, const GradientPlanes<Acc>& planes, Acc low,
                 Acc high) {
  const auto within = [low, high](const SegmentAxis<Acc>& axis, Acc v) {
    return v >= axis.first + low && axis.last + high > v;
  };
  const int last = at.end - 1;
  return within(at.axes.x, planes.x[at.begin]) && within(at.axes.x, planes.x[last]) &&
         within(at.axes.y, planes.y[at.begin]) && within(at.axes.y, planes.y[last]);
}

// Sets `tapped` and its planes if the bilinear taps are two by two neighbours in the window. Lanes
// beyond the end, up to a whole vector, repeat the last one.
template <class Acc>
void tap_lanes(const GradientTask<Acc>& task, GradientSegment<Acc>& at,
               GradientPlanes<Acc>& planes) {
  const AugmentParams& p = task.p;
  const SegmentAxis<Acc> ax = at.axes.x, ay = at.axes.y;
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const bool clamps = p.padding == Padding::kConstant || p.padding == Padding::kReplicate;
  at.tapped = p.mode == Interpolation::kBilinear && !task.slope.antialias && fits_lanes(task, at) &&
              ax.last > ax.first && ay.last > ay.first &&
              (clamps || ends_within(at, planes, zero, zero));
  if (!at.tapped) return;
  const int begin = at.begin, end = at.end;
  constexpr auto kTo = int64_t{sizeof(Acc)};
  const int64_t size = element_size(p.dtype);
  const auto row = static_cast<int32_t>(task.s.image.row_stride * size);
  const auto column = static_cast<int32_t>(task.s.image.column_stride * size);
  const auto to_row = static_cast<int32_t>(task.b.grad_image_stride.row * kTo);
  const auto to_column = static_cast<int32_t>(task.b.grad_image_stride.column * kTo);
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
  for (int i = end; i < ((end + kMaxWidth - 1) & -kMaxWidth); ++i) {
    planes.from[i] = planes.from[end - 1];
  }
}

// Sets `nearest` and its planes, once nothing needs those of `tapped` any more.
template <class Acc>
void near_lanes(const GradientTask<Acc>& task, GradientSegment<Acc>& at,
                GradientPlanes<Acc>& planes) {
  const AugmentParams& p = task.p;
  const SegmentAxis<Acc> ax = at.axes.x, ay = at.axes.y;
  const Acc half = static_cast<Acc>(0.5), one = static_cast<Acc>(1);
  const bool replicate = p.padding == Padding::kReplicate;
  at.nearest =
      task.s.mode == Interpolation::kNearest && fits_lanes(task, at) &&
      (p.padding == Padding::kConstant || replicate || ends_within(at, planes, -half, half));
  if (!at.nearest) return;
  constexpr auto kTo = int64_t{sizeof(Acc)};
  const auto to_row = static_cast<int32_t>(task.b.grad_image_stride.row * kTo);
  const auto to_column = static_cast<int32_t>(task.b.grad_image_stride.column * kTo);
  const auto x0 = static_cast<int32_t>(at.segment.x), y0 = static_cast<int32_t>(at.segment.y);
  const int begin = at.begin, end = at.end;
  for (int i = begin; i < end; ++i) {
    const Acc px = planes.x[i] + half, py = planes.y[i] + half;
    const bool within =
        px >= ax.first && px < ax.last + one && py >= ay.first && py < ay.last + one;
    const Acc x = px > ax.first ? (px < ax.last ? px : ax.last) : ax.first;
    const Acc y = py > ay.first ? (py < ay.last ? py : ay.last) : ay.first;
    const int32_t r = static_cast<int32_t>(floor_of(y)) + y0;
    const int32_t c = static_cast<int32_t>(floor_of(x)) + x0;
    planes.top[i] = r;
    planes.to[i] = within || replicate ? r * to_row + c * to_column : -1;
  }
}

}  // namespace
}  // namespace visops
