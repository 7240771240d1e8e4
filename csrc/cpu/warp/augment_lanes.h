// The pixels of a segment of an output row, as offsets into the image and weights.
//
// NOTE [ Augment lanes ]
// Coordinates are monotonic along a segment, so its two ends tell what lies between: with both
// wholly inside the window no pixel blends with fill, with both beyond the same edge all are fill.
// Bilinear sampling under constant and replicate padding clamps the coordinate itself to the window
// (NOTE [ Window and edge ]), so every lane's taps lie inside and no pixel needs a path of its own.
// What lanes can't hold (images of 1 GiB or more, windows one pixel wide, the horizon, paddings
// that fold) goes through core/warp/augment_pixel.h, which gives the same bits.
#pragma once

#include <cmath>

#include "core/warp/augment_pixel.h"
#include "cpu/warp/affine_rows.h"

namespace visops {
namespace {

constexpr int kGroup = 4;  // channels sampled at a time

// Sampled values of up to kGroup channels.
struct Planes {
  alignas(64) float v[kGroup][kPaddedSegment];
};

struct SegmentAt {
  const AugmentParams& p;
  const AugmentSample& s;
  const AugmentSegment<float>& segment;
  const SegmentAxes<float>& axes;
  int64_t sample, x0, y;
  int count;   // pixels
  int padded;  // rounded up to whole vectors
};

// Tells compilers that a loop over lanes has no remainder.
VISOPS_ALWAYS_INLINE int whole_vectors(int padded) { return padded & -kMaxWidth; }

struct AugmentLanes {
  alignas(64) float x[kPaddedSegment];  // source, from the segment's origin
  alignas(64) float y[kPaddedSegment];
  alignas(64) float wx[kPaddedSegment];
  alignas(64) float wy[kPaddedSegment];
  alignas(64) float out[kPaddedSegment];  // the part that is fill
  alignas(
      64) int32_t offset[kPaddedSegment];  // bytes from the image's first element to the first tap
  bool blended;                            // whether `out` is set, and not all 0
  int begin, end;                          // lanes that are not all fill
};

VISOPS_ALWAYS_INLINE void lane_points(const SegmentAt& at, AugmentLanes& lanes) {
  const float fx = at.segment.fx, fy = at.segment.fy;
  const float step_x = at.segment.step_x, step_y = at.segment.step_y, bend = at.segment.bend;
  const int padded = whole_vectors(at.padded);
  if (at.s.map.perspective) {
    for (int i = 0; i < padded; ++i) {
      const float d = from_centre<float>(i);
      const float t = d / (1.0f + bend * d);
      lanes.x[i] = step_x * t + fx;
      lanes.y[i] = step_y * t + fy;
    }
  } else {
    for (int i = 0; i < padded; ++i) {
      const float d = from_centre<float>(i);
      lanes.x[i] = step_x * d + fx;
      lanes.y[i] = step_y * d + fy;
    }
  }
}

VISOPS_ALWAYS_INLINE float cover_of(const SegmentAt& at, const LanePoint<float>& point) {
  return edge_cover(at.axes.x, point.x) * edge_cover(at.axes.y, point.y);
}

// Whether every lane is certainly fill: both ends lie beyond the same edge.
VISOPS_ALWAYS_INLINE bool all_fill(const SegmentAxis<float>& axis, float first, float last) {
  if (edge_cover(axis, first) > 0.0f || edge_cover(axis, last) > 0.0f) return false;
  return (first < axis.low) == (last < axis.low);
}

// Sets `blended`, `begin` and `end`; if a lane is blended, also `x`, `y` and `out`.
VISOPS_ALWAYS_INLINE void blend_lanes(const SegmentAt& at, AugmentLanes& lanes) {
  lanes.begin = 0;
  lanes.end = at.count;
  lanes.blended = false;
  if (!blends_edge(at.p, at.s)) return;
  const LanePoint<float> first = lane_point(at.segment, 0);
  const LanePoint<float> last = lane_point(at.segment, at.count - 1);
  lanes.blended = !(cover_of(at, first) == 1.0f && cover_of(at, last) == 1.0f);
  if (!lanes.blended) return;
  if (all_fill(at.axes.x, first.x, last.x) || all_fill(at.axes.y, first.y, last.y)) {
    lanes.end = 0;
    return;
  }
  lane_points(at, lanes);
  const SegmentAxis<float> ax = at.axes.x, ay = at.axes.y;
  const int padded = whole_vectors(at.padded);
  for (int i = 0; i < padded; ++i) {
    lanes.out[i] = 1.0f - edge_cover(ax, lanes.x[i]) * edge_cover(ay, lanes.y[i]);
  }
  while (lanes.begin < lanes.end && !(lanes.out[lanes.begin] < 1.0f)) ++lanes.begin;
  while (lanes.begin < lanes.end && !(lanes.out[lanes.end - 1] < 1.0f)) --lanes.end;
}

// Blends sampled values with fill.
VISOPS_ALWAYS_INLINE void blend_planes(const SegmentAt& at, const AugmentLanes& lanes,
                                       int64_t first, int64_t channels, Planes& planes) {
  if (!lanes.blended) return;
  const int padded = whole_vectors(at.padded);
  for (int64_t c = 0; c < channels; ++c) {
    const float fill = static_cast<float>(at.p.fill[value_index(at.p, first + c)]);
    float* v = planes.v[c];
    for (int i = 0; i < padded; ++i) v[i] = blend_fill(v[i], fill, lanes.out[i]);
  }
}

// Whether floats and 32-bit offsets can hold a segment's taps.
VISOPS_ALWAYS_INLINE bool fits_lanes(const SegmentAt& at) {
  const SegmentAxis<float>&x = at.axes.x, &y = at.axes.y;
  constexpr float kExact = 8388608.0f;  // 2^23
  return x.first > -kExact && x.last < kExact && y.first > -kExact && y.last < kExact &&
         x.last > x.first && y.last > y.first && !at.segment.direct;
}

template <bool perspective>
VISOPS_ALWAYS_INLINE void clamped_taps(const SegmentAt& at, int32_t row_bytes, int32_t column_bytes,
                                       AugmentLanes& lanes) {
  const float fx = at.segment.fx, fy = at.segment.fy;
  const float step_x = at.segment.step_x, step_y = at.segment.step_y, bend = at.segment.bend;
  const float x_low = at.axes.x.first, x_high = at.axes.x.last, x_most = x_high - 1.0f;
  const float y_low = at.axes.y.first, y_high = at.axes.y.last, y_most = y_high - 1.0f;
  const int32_t origin = static_cast<int32_t>(at.segment.y) * row_bytes +
                         static_cast<int32_t>(at.segment.x) * column_bytes;
  const int padded = whole_vectors(at.padded);
  for (int i = 0; i < padded; ++i) {
    const float d = from_centre<float>(i);
    const float t = perspective ? d / (1.0f + bend * d) : d;
    const float px = step_x * t + fx, py = step_y * t + fy;
    const float x = px > x_low ? (px < x_high ? px : x_high) : x_low;
    const float y = py > y_low ? (py < y_high ? py : y_high) : y_low;
    const float floor_x = floor_of(x), floor_y = floor_of(y);
    const float left = floor_x > x_most ? x_most : floor_x;
    const float top = floor_y > y_most ? y_most : floor_y;
    lanes.wx[i] = x - left;
    lanes.wy[i] = y - top;
    lanes.offset[i] =
        static_cast<int32_t>(top) * row_bytes + static_cast<int32_t>(left) * column_bytes + origin;
  }
}

// Bilinear taps at the clamped coordinate.
VISOPS_ALWAYS_INLINE void bilinear_taps(const SegmentAt& at, int32_t row_bytes,
                                        int32_t column_bytes, AugmentLanes& lanes) {
  if (at.s.map.perspective) {
    clamped_taps<true>(at, row_bytes, column_bytes, lanes);
  } else {
    clamped_taps<false>(at, row_bytes, column_bytes, lanes);
  }
}

template <bool perspective, bool inside>
VISOPS_ALWAYS_INLINE void nearest_offsets(const SegmentAt& at, int32_t row_bytes,
                                          int32_t column_bytes, AugmentLanes& lanes) {
  const float fx = at.segment.fx, fy = at.segment.fy;
  const float step_x = at.segment.step_x, step_y = at.segment.step_y, bend = at.segment.bend;
  const float x_low = at.axes.x.first, x_high = at.axes.x.last;
  const float y_low = at.axes.y.first, y_high = at.axes.y.last;
  const int32_t origin = static_cast<int32_t>(at.segment.y) * row_bytes +
                         static_cast<int32_t>(at.segment.x) * column_bytes;
  const int padded = whole_vectors(at.padded);
  for (int i = 0; i < padded; ++i) {
    const float d = from_centre<float>(i);
    const float t = perspective ? d / (1.0f + bend * d) : d;
    const float left = floor_of((step_x * t + fx) + 0.5f);
    const float top = floor_of((step_y * t + fy) + 0.5f);
    float x = left, y = top;
    if (!inside) {
      x = left > x_low ? (left < x_high ? left : x_high) : x_low;
      y = top > y_low ? (top < y_high ? top : y_high) : y_low;
      lanes.out[i] = x == left && y == top ? 0.0f : 1.0f;
    }
    lanes.offset[i] =
        static_cast<int32_t>(y) * row_bytes + static_cast<int32_t>(x) * column_bytes + origin;
  }
  for (int i = at.count; inside && i < padded; ++i) lanes.offset[i] = lanes.offset[at.count - 1];
}

// -1 where the nearest tap lies before the window, 1 where it lies behind, else 0.
VISOPS_ALWAYS_INLINE int side_of_window(const SegmentAxis<float>& axis, float at) {
  const float tap = floor_of(at + 0.5f);
  return tap >= axis.first ? (tap <= axis.last ? 0 : 1) : -1;
}

// The nearest taps; where `blended`, `out` is 1 for lanes that are fill and else 0.
VISOPS_ALWAYS_INLINE void nearest_taps(const SegmentAt& at, int32_t row_bytes, int32_t column_bytes,
                                       AugmentLanes& lanes) {
  lanes.begin = 0;
  lanes.end = at.count;
  lanes.blended = at.p.padding == Padding::kConstant;
  if (at.s.map.perspective) {
    return nearest_offsets<true, false>(at, row_bytes, column_bytes, lanes);
  }
  // Without a division, rounding keeps the order, and what both ends say holds between them.
  const LanePoint<float> first = lane_point(at.segment, 0);
  const LanePoint<float> last = lane_point(at.segment, at.count - 1);
  const int x0 = side_of_window(at.axes.x, first.x), x1 = side_of_window(at.axes.x, last.x);
  const int y0 = side_of_window(at.axes.y, first.y), y1 = side_of_window(at.axes.y, last.y);
  if (lanes.blended && ((x0 != 0 && x0 == x1) || (y0 != 0 && y0 == y1))) {
    lanes.end = 0;
    return;
  }
  if (x0 == 0 && x1 == 0 && y0 == 0 && y1 == 0) {
    lanes.blended = false;
    nearest_offsets<false, true>(at, row_bytes, column_bytes, lanes);
  } else {
    nearest_offsets<false, false>(at, row_bytes, column_bytes, lanes);
  }
}

// `count` taps from floor(coordinate) + first on. False unless every lane has all of them in the
// window.
VISOPS_ALWAYS_INLINE bool inner_taps(const SegmentAt& at, int first, int count, int32_t row_bytes,
                                     int32_t column_bytes, AugmentLanes& lanes) {
  const auto fits = [first, count](const SegmentAxis<float>& axis, float v) {
    const float from = floor_of(v) + static_cast<float>(first);
    return from >= axis.first && from + static_cast<float>(count - 1) <= axis.last;
  };
  lane_points(at, lanes);
  const int last = at.count - 1;
  if (!fits(at.axes.x, lanes.x[0]) || !fits(at.axes.x, lanes.x[last])) return false;
  if (!fits(at.axes.y, lanes.y[0]) || !fits(at.axes.y, lanes.y[last])) return false;
  const int32_t x0 = static_cast<int32_t>(at.segment.x) + first;
  const int32_t y0 = static_cast<int32_t>(at.segment.y) + first;
  const int padded = whole_vectors(at.padded);
  for (int i = 0; i < padded; ++i) {
    const float left = floor_of(lanes.x[i]), top = floor_of(lanes.y[i]);
    lanes.wx[i] = lanes.x[i] - left;
    lanes.wy[i] = lanes.y[i] - top;
    lanes.offset[i] = (static_cast<int32_t>(top) + y0) * row_bytes +
                      (static_cast<int32_t>(left) + x0) * column_bytes;
  }
  for (int i = at.count; i < at.padded; ++i) lanes.offset[i] = lanes.offset[last];
  return true;
}

VISOPS_ALWAYS_INLINE int32_t highest_offset(const AugmentLanes& lanes, int begin, int end) {
  int32_t highest = lanes.offset[begin];
  begin &= -kMaxWidth;
  end = whole_vectors(end);
  for (int i = begin; i < end; ++i) {
    highest = lanes.offset[i] > highest ? lanes.offset[i] : highest;
  }
  return highest;
}

}  // namespace
}  // namespace visops
