// Rows of bytes that only move, under an affine map and constant padding: most masks.
//
// NOTE [ Copied rows ]
// Coordinates are monotonic along a segment, so the lanes whose taps lie in the window are one run.
// Most segments lie in the window as a whole, which their two ends tell; the others are searched
// from where float64 puts the run's ends. So no lane is clamped or tested, and the products of step
// and lane, which are the same in every segment, are computed once.
#pragma once

#include "cpu/warp/augment_copies.h"
#include "cpu/warp/augment_read_ahead.h"

namespace visops {
namespace {

// Whether copy_rows() can make a sample: floats and 32-bit offsets hold every lane of a segment
// that reaches the window.
inline bool copies_lane_runs(const LaneImage& image) {
  const AugmentSample& s = image.s;
  const double most = 2097152.0;  // 2^21
  const double reach_x = fabs(s.map.m[0]) * kSegment, reach_y = fabs(s.map.m[3]) * kSegment;
  return image.p.padding == Padding::kConstant && !s.is_fill && !s.map.perspective && image.fits &&
         fits_taps(s.map.m, image.row_bytes, image.column_bytes) && reach_x < most &&
         reach_y < most && s.image.width < most && s.image.height < most;
}

// One axis of the source, lane by lane of a segment.
struct CopiedAxis {
  alignas(64) float distance[kPaddedSegment];  // from the segment's centre
  int64_t first, last;                         // taps in the window

  CopiedAxis(double step, const AxisWindow& window) : first(window.first), last(window.last) {
    for (int i = 0; i < kPaddedSegment; ++i) {
      distance[i] = static_cast<float>(step) * from_centre<float>(i);
    }
  }

  // From the integer part of the centre, whose fraction is given.
  VISOPS_ALWAYS_INLINE int32_t tap(float fraction, int64_t lane) const {
    return static_cast<int32_t>(floor_of((distance[lane] + fraction) + 0.5f));
  }
  VISOPS_ALWAYS_INLINE bool holds(int64_t integer, float fraction, int64_t lane) const {
    const int64_t at = integer + tap(fraction, lane);
    return at >= first && at <= last;
  }
};

struct CopiedAxes {
  CopiedAxis x, y;

  VISOPS_ALWAYS_INLINE bool holds(const SegmentOrigin<float>& centre, int64_t lane) const {
    return x.holds(centre.x, centre.fx, lane) && y.holds(centre.y, centre.fy, lane);
  }
};

// The lanes whose taps lie in the window.
VISOPS_ALWAYS_INLINE Span lanes_inside(const AugmentSample& s, const CopiedAxes& axes,
                                       const SegmentOrigin<float>& centre,
                                       const CopiedSegment& at) {
  const int64_t last = at.count - 1;
  if (axes.holds(centre, 0) && axes.holds(centre, last)) return {0, at.count};
  const double* m = s.map.m;
  const double x = static_cast<double>(at.x0), y = static_cast<double>(at.y);
  Span lanes = intersect(
      columns_maybe_within(m[0], m[0] * x + (m[1] * y + m[2]), static_cast<double>(s.x.first) - 0.5,
                           static_cast<double>(s.x.last) + 0.5, at.count),
      columns_maybe_within(m[3], m[3] * x + (m[4] * y + m[5]), static_cast<double>(s.y.first) - 0.5,
                           static_cast<double>(s.y.last) + 0.5, at.count));
  while (lanes.begin < lanes.end && !axes.holds(centre, lanes.begin)) ++lanes.begin;
  while (lanes.begin < lanes.end && !axes.holds(centre, lanes.end - 1)) --lanes.end;
  return lanes;
}

// Sets the offsets of `lanes`, in whole vectors.
VISOPS_ALWAYS_INLINE void set_offsets(const LaneImage& image, const CopiedAxes& axes,
                                      const SegmentOrigin<float>& centre, Span lanes,
                                      int32_t* VISOPS_RESTRICT offset) {
  if (lanes.begin == lanes.end) return;
  const int32_t row_bytes = image.row_bytes, column_bytes = image.column_bytes;
  const int32_t origin =
      static_cast<int32_t>(centre.y) * row_bytes + static_cast<int32_t>(centre.x) * column_bytes;
  const float fx = centre.fx, fy = centre.fy;
  const int begin = static_cast<int>(lanes.begin) & -kMaxWidth;
  const int end = whole_vectors(static_cast<int>(lanes.end) + kMaxWidth - 1);
  for (int i = begin; i < end; ++i) {
    offset[i] = axes.y.tap(fy, i) * row_bytes + axes.x.tap(fx, i) * column_bytes + origin;
  }
}

inline void copy_rows(const LaneImage& image, int64_t sample, int64_t first, int64_t last,
                      Span strip) {
  const AugmentSample& s = image.s;
  const CopiedAxes axes = {{s.map.m[0], s.x}, {s.map.m[3], s.y}};
  SegmentOrigin<float> centre[kBlockRows];
  Span inside[kBlockRows];
  alignas(64) int32_t offset[kBlockRows][kPaddedSegment];
  const auto copy_block = [&](int64_t x0, int64_t y0, int count, int rows) {
    const auto at = [&](int row) -> CopiedSegment { return {sample, x0, y0 + row, count}; };
    for (int row = 0; row < rows; ++row) {
      centre[row] = segment_origin<float>(s.map.m, x0, y0 + row);
    }
    for (int row = 0; row < rows; ++row) {
      inside[row] = lanes_inside(s, axes, centre[row], at(row));
      set_offsets(image, axes, centre[row], inside[row], offset[row]);
    }
    for (int row = 0; row < rows; ++row) {
      copy_segment(image, at(row), inside[row], offset[row]);
    }
  };
  for_each_block(image.p, s, strip, {first, last}, copy_block);
}

}  // namespace
}  // namespace visops
