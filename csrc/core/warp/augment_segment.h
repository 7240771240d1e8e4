// The geometry of the augmentation that all kernels share: where an output pixel lies in the
// source.
//
// NOTE [ Augment coordinates ]
// As in NOTE [ Affine coordinates ] (core/warp/affine.h), rows are cut into segments of 128 pixels;
// the source of a segment's centre is computed in float64 and split into integer and fraction, and
// only the offset from there is float32 (float64 for float64 images). Under a perspective map
//
//     u(x) = (m0 x + m1 y + m2) / (m6 x + m7 y + m8)
//
// take u and w at the centre, d = x - centre and t = d / (1 + (m6 / w) d); then
// u(x) = u + ((m0 - u m6) / w) t exactly, and one division per pixel serves both coordinates. An
// affine map has m6 = 0 and t = d. Where w changes too much within the segment (near the horizon),
// every pixel's coordinates are computed in float64 from scratch.
//
// NOTE [ Window and edge ]
// A sample's window is the part of its image that exists: all of it, or the rectangle given. Under
// constant padding a bilinear sample is taken at the coordinate clamped to the window and blended
// with `fill` by how much of the pixel the window covers:
//
//     cover(x) = clamp(min(x - low, high - x) / s + 1/2, 0, 1),    out = 1 - cover(x) cover(y)
//     value    = v + out (fill - v)
//
// low and high are the window's edges (-1/2 and n - 1/2), s is the width of the edge. With s = 1
// this is, tap by tap, the border of warp_affine and OpenCV. If a window is given or `antialias` is
// set, s is the footprint of an output pixel instead: an enlarged or shrunk image then ends where
// the resized image would, without a dark rim.
//
// NOTE [ Footprint ]
// The row norms r of the Jacobian d source / d destination are the widths of an output pixel along
// the axes of the source. `antialias` samples with a separable filter of those widths, at least 1
// and at most the window's; for axis-aligned maps, the filter of F.interpolate(antialias=True).
#pragma once

#include "core/warp/augment.h"

namespace visops {

// The map of one sample: from the given matrix to destination -> source.

// Destination -> source, integer pixel centres, homogeneous: m[8] is 1 for an affine map.
struct AugmentMap {
  double m[9];
  bool valid;  // finite and, if it had to be inverted, not singular
  bool perspective;
  bool integral;            // all coordinates are integers
  double width_x, width_y;  // footprint of an affine map; 1 for perspective
};

// p = inverse(m). False if m's determinant is within the rounding error of computing it.
VISOPS_FN bool invert_homography(const double m[9], double p[9]) {
  const double c0 = m[4] * m[8] - m[5] * m[7];
  const double c1 = m[5] * m[6] - m[3] * m[8];
  const double c2 = m[3] * m[7] - m[4] * m[6];
  const double det = m[0] * c0 + (m[1] * c1 + m[2] * c2);
  const double size = fabs(m[0]) * (fabs(m[4] * m[8]) + fabs(m[5] * m[7])) +
                      (fabs(m[1]) * (fabs(m[5] * m[6]) + fabs(m[3] * m[8])) +
                       fabs(m[2]) * (fabs(m[3] * m[7]) + fabs(m[4] * m[6])));
  if (!(fabs(det) > 8.881784197001252e-16 * size) || !is_finite(1.0 / det)) return false;  // 2^-50
  p[0] = c0 / det;
  p[1] = (m[2] * m[7] - m[1] * m[8]) / det;
  p[2] = (m[1] * m[5] - m[2] * m[4]) / det;
  p[3] = c1 / det;
  p[4] = (m[0] * m[8] - m[2] * m[6]) / det;
  p[5] = (m[2] * m[3] - m[0] * m[5]) / det;
  p[6] = c2 / det;
  p[7] = (m[1] * m[6] - m[0] * m[7]) / det;
  p[8] = (m[0] * m[4] - m[1] * m[3]) / det;
  return true;
}

// The given matrix, in nine elements.
VISOPS_FN void load_matrix(const AugmentParams& p, int64_t sample, double given[9]) {
  given[6] = given[7] = 0.0;
  given[8] = 1.0;
  for (int i = 0; i < 9; ++i) {  // of constant length, so that GPUs keep it in registers
    if (i < 3 * p.matrix_rows) given[i] = load_matrix_element(p.matrix, sample, i / 3, i % 3);
  }
}

// What keeps a kernel from using the given matrix; the fronts' message depends on it.
enum class MatrixFault { kNone, kNotFinite, kSingular };

VISOPS_FN MatrixFault matrix_fault(const double given[9], bool inverse_map) {
  for (int i = 0; i < 9; ++i) {
    if (!is_finite(given[i])) return MatrixFault::kNotFinite;
  }
  const bool affine = given[6] == 0.0 && given[7] == 0.0;
  if (affine && !is_finite(1.0 / given[8])) return MatrixFault::kSingular;
  if (inverse_map) return MatrixFault::kNone;
  double inverse[9];
  const bool regular = affine ? !is_singular(given) : invert_homography(given, inverse);
  return regular ? MatrixFault::kNone : MatrixFault::kSingular;
}

// From the given matrix, which is overwritten.
VISOPS_FN AugmentMap map_of_matrix(const AugmentParams& p, double given[9]) {
  AugmentMap map;
  map.valid = matrix_fault(given, p.inverse_map) == MatrixFault::kNone;
  map.perspective = !(given[6] == 0.0 && given[7] == 0.0);
  map.integral = false;
  map.width_x = map.width_y = 1.0;
  for (int i = 0; i < 9; ++i) map.m[i] = 0.0;
  if (!map.valid) return map;
  double* m = map.m;
  if (!map.perspective) {
    for (int i = 0; i < 6; ++i) given[i] /= given[8];
    if (p.inverse_map) {
      for (int i = 0; i < 6; ++i) m[i] = given[i];
    } else {
      invert_affine(given, m);
    }
    m[8] = 1.0;
    if (p.half_pixel) {
      m[2] += 0.5 * (m[0] + m[1]) - 0.5;
      m[5] += 0.5 * (m[3] + m[4]) - 0.5;
    }
    map.integral = true;
    for (int i = 0; i < 6; ++i) {
      map.integral = map.integral && fabs(m[i]) < 1073741824.0 && m[i] == floor(m[i]);
    }
    map.width_x = sqrt(m[0] * m[0] + m[1] * m[1]);
    map.width_y = sqrt(m[3] * m[3] + m[4] * m[4]);
  } else {
    if (p.inverse_map) {
      for (int i = 0; i < 9; ++i) m[i] = given[i];
    } else {
      invert_homography(given, m);
    }
    if (p.half_pixel) {
      for (int i = 0; i < 9; i += 3) m[i + 2] += 0.5 * (m[i] + m[i + 1]);
      for (int i = 0; i < 3; ++i) {
        m[i] -= 0.5 * m[6 + i];
        m[3 + i] -= 0.5 * m[6 + i];
      }
    }
  }
  for (int i = 0; i < 9; ++i) map.valid = map.valid && is_finite(m[i]);
  return map;
}

VISOPS_FN AugmentMap augment_map(const AugmentParams& p, int64_t sample) {
  double given[9];
  load_matrix(p, sample, given);
  return map_of_matrix(p, given);
}

// The window along one axis.
struct AxisWindow {
  int64_t first, last;  // taps that exist; none if last < first
  double low, high;     // edges, in integer-centre coordinates
};

VISOPS_FN AxisWindow axis_window(double low, double high, int64_t n) {
  AxisWindow w;
  const double size = static_cast<double>(n);
  // A NaN stays, and then there is nothing: on a GPU, no one has looked at the numbers.
  const double from = low < 0.0 ? 0.0 : low, to = high > size ? size : high;
  const bool some = from < to;
  w.first = some ? static_cast<int64_t>(floor(from)) : 0;
  w.last = some ? static_cast<int64_t>(ceil(to)) - 1 : -1;
  w.low = some ? from - 0.5 : 0.0;
  w.high = some ? to - 0.5 : 0.0;
  return w;
}

// What a kernel knows about a sample before it looks at a row.
struct AugmentSample {
  AugmentImage image;
  AugmentMap map;
  AxisWindow x, y;
  Interpolation mode;  // also nearest where every coordinate is an integer: exact copies
  bool antialias;      // off for affine maps where it makes no difference
  bool integers;       // antialias in integers
  bool soft_edge;      // the edge is one output pixel wide
  bool is_fill;        // nothing to sample: the map is invalid or the window empty
};

constexpr int32_t kMostIntegerTaps = 64;  // along an axis

// How far the filter of antialias reaches, in its widths.
VISOPS_FN constexpr double filter_reach(Interpolation mode) {
  return mode == Interpolation::kLanczos ? 3.0 : mode == Interpolation::kBicubic ? 2.0 : 1.0;
}

// Whether a sample with antialias is filtered in integers (NOTE [ Integer filter ],
// core/warp/augment_pixel.h).
VISOPS_FN bool filters_integers(const AugmentParams& p, const AugmentMap& map) {
  const double most = kMostIntegerTaps / (2.0 * filter_reach(p.mode));
  return p.integers && p.padding == Padding::kConstant && !map.perspective && map.m[1] == 0.0 &&
         map.m[3] == 0.0 && map.width_x <= most && map.width_y <= most;
}

VISOPS_FN AugmentSample sample_of_map(const AugmentParams& p, int64_t sample,
                                      const AugmentImage& image, const AugmentMap& map) {
  AugmentSample s;
  s.image = image;
  s.map = map;
  if (p.window != nullptr) {
    const double* w = p.window + 4 * sample;
    s.x = axis_window(w[0], w[2], image.width);
    s.y = axis_window(w[1], w[3], image.height);
  } else {
    s.x = axis_window(0.0, static_cast<double>(image.width), image.width);
    s.y = axis_window(0.0, static_cast<double>(image.height), image.height);
  }
  // With antialias, bicubic has another kernel (a = -1/2), even where it enlarges; and Lanczos has
  // only that.
  const bool shrinks = s.map.width_x > 1.0 || s.map.width_y > 1.0;
  const bool always = s.map.perspective || p.mode != Interpolation::kBilinear;
  const bool copies = s.map.integral && p.window == nullptr && !(p.antialias && shrinks);
  s.mode = copies ? Interpolation::kNearest : p.mode;
  s.antialias = p.antialias && !copies && (shrinks || always);
  s.integers = s.antialias && filters_integers(p, s.map);
  s.soft_edge = p.antialias || p.window != nullptr;
  s.is_fill = !s.map.valid || s.x.last < s.x.first || s.y.last < s.y.first;
  return s;
}

VISOPS_FN AugmentSample augment_sample(const AugmentParams& p, int64_t sample,
                                       const AugmentImage& image) {
  return sample_of_map(p, sample, image, augment_map(p, sample));
}

// With antialias, samples are computed in one of these ways.
enum class SampleKind { kPlain, kIntegers, kUpright, kRotated };

VISOPS_FN SampleKind kind_of(const AugmentSample& s) {
  if (!s.antialias || s.is_fill) return SampleKind::kPlain;
  if (s.integers) return SampleKind::kIntegers;  // upright as well
  const bool upright = !s.map.perspective && s.map.m[1] == 0.0 && s.map.m[3] == 0.0;
  return upright ? SampleKind::kUpright : SampleKind::kRotated;
}

// The bit of AugmentParams::kinds.
VISOPS_FN int64_t bit_of(SampleKind kind) { return int64_t{1} << static_cast<int>(kind); }

// Whether there may be samples of a kind.
VISOPS_FN bool may_have(const AugmentParams& p, SampleKind kind) {
  if (!p.antialias) return kind == SampleKind::kPlain;
  return p.kinds == 0 || (p.kinds & bit_of(kind)) != 0;
}

// A row's segment: how its lanes map to the source.
template <class Coord>
struct AugmentSegment {
  int64_t x, y;             // integer part of the centre's source
  Coord fx, fy;             // its fraction
  Coord step_x, step_y;     // per column, at the centre
  Coord bend;               // relative change of w per column; 0 for an affine map
  double width_x, width_y;  // footprint
  bool direct;              // near the horizon: each lane's coordinates from scratch
};

template <class Coord>
VISOPS_FN AugmentSegment<Coord> augment_segment(const AugmentMap& map, int64_t x0, int64_t y) {
  AugmentSegment<Coord> s;
  const double* m = map.m;
  const double dx = static_cast<double>(x0 + kSegment / 2), dy = static_cast<double>(y);
  double u = m[0] * dx + (m[1] * dy + m[2]), v = m[3] * dx + (m[4] * dy + m[5]);
  s.step_x = static_cast<Coord>(m[0]);
  s.step_y = static_cast<Coord>(m[3]);
  s.bend = static_cast<Coord>(0);
  s.width_x = map.width_x;
  s.width_y = map.width_y;
  s.direct = false;
  if (map.perspective) {
    const double w = m[6] * dx + (m[7] * dy + m[8]);
    u /= w;
    v /= w;
    const double bend = m[6] / w;
    const double limit = 1073741824.0;
    s.direct = !(fabs(bend) * (kSegment / 2) < 0.5 && fabs(u) < limit && fabs(v) < limit);
    if (s.direct) {
      u = v = 0.0;
    } else {
      const double xx = (m[0] - u * m[6]) / w, xy = (m[1] - u * m[7]) / w;
      const double yx = (m[3] - v * m[6]) / w, yy = (m[4] - v * m[7]) / w;
      s.step_x = static_cast<Coord>(xx);
      s.step_y = static_cast<Coord>(yx);
      s.bend = static_cast<Coord>(bend);
      s.width_x = sqrt(xx * xx + xy * xy);
      s.width_y = sqrt(yx * yx + yy * yy);
    }
  }
  split_coordinate(u, &s.x, &s.fx);
  split_coordinate(v, &s.y, &s.fy);
  return s;
}

// Where a lane lies in the source, relative to the segment's integer origin.
template <class Coord>
struct LanePoint {
  Coord x, y;
  bool valid;  // false: there is no such point (w = 0), and the pixel is fill
};

template <class Coord>
VISOPS_HOT_FN LanePoint<Coord> lane_point(const AugmentSegment<Coord>& s, int lane) {
  const Coord d = from_centre<Coord>(lane);
  const Coord t = d / (static_cast<Coord>(1) + s.bend * d);
  return {s.step_x * t + s.fx, s.step_y * t + s.fy, true};
}

// The same for a `direct` segment; x is the pixel's column.
template <class Coord>
VISOPS_FN LanePoint<Coord> lane_point_direct(const AugmentMap& map, int64_t x, int64_t y) {
  const double* m = map.m;
  const double dx = static_cast<double>(x), dy = static_cast<double>(y);
  const double w = m[6] * dx + (m[7] * dy + m[8]);
  const double u = (m[0] * dx + (m[1] * dy + m[2])) / w;
  const double v = (m[3] * dx + (m[4] * dy + m[5])) / w;
  const double limit = 1073741824.0;
  LanePoint<Coord> point = {static_cast<Coord>(0), static_cast<Coord>(0), false};
  if (fabs(u) < limit && fabs(v) < limit)
    point = {static_cast<Coord>(u), static_cast<Coord>(v), true};
  return point;
}

// One axis of a segment: the window relative to the segment's origin, and the widths.
template <class Coord>
struct SegmentAxis {
  int64_t origin;
  Coord first, last;   // taps
  Coord low, high;     // edges
  Coord edge_scale;    // 1 / width of the edge
  Coord radius;        // of the filter; antialias only
  Coord filter_scale;  // 1 / its width
};

// Saturates a distance from a segment's origin: where it matters, it is small.
VISOPS_FN double near_origin(double distance) {
  const double limit = 1073741824.0;
  return distance > -limit ? (distance < limit ? distance : limit) : -limit;
}

// The widths of an axis: the same for all segments of an affine map.
template <class Coord>
VISOPS_FN void set_axis_widths(const AugmentSample& s, const AxisWindow& window, double width,
                               SegmentAxis<Coord>* axis) {
  const double edge = s.soft_edge ? (width > 1e-6 ? width : 1e-6) : 1.0;
  axis->edge_scale = static_cast<Coord>(1.0 / edge);
  double most = static_cast<double>(window.last - window.first + 1);
  if (most > 16777216.0) most = 16777216.0;
  const double wide = width < most ? width : most;
  const double filter = wide > 1.0 ? wide : 1.0;
  axis->radius = static_cast<Coord>(filter_reach(s.mode) * filter);
  axis->filter_scale = static_cast<Coord>(1.0 / filter);
}

template <class Coord>
VISOPS_FN void position_axis(const AxisWindow& window, int64_t origin, SegmentAxis<Coord>* axis) {
  const double at = static_cast<double>(origin);
  axis->origin = origin;
  axis->first = static_cast<Coord>(near_origin(static_cast<double>(window.first) - at));
  axis->last = static_cast<Coord>(near_origin(static_cast<double>(window.last) - at));
  axis->low = static_cast<Coord>(near_origin(window.low - at));
  axis->high = static_cast<Coord>(near_origin(window.high - at));
}

template <class Coord>
struct SegmentAxes {
  SegmentAxis<Coord> x, y;
};

template <class Coord>
VISOPS_FN SegmentAxes<Coord> segment_axes(const AugmentSample& s,
                                          const AugmentSegment<Coord>& segment) {
  SegmentAxes<Coord> axes;
  set_axis_widths(s, s.x, segment.width_x, &axes.x);
  set_axis_widths(s, s.y, segment.width_y, &axes.y);
  position_axis(s.x, segment.x, &axes.x);
  position_axis(s.y, segment.y, &axes.y);
  return axes;
}

// How much of the pixel at `at` the window covers along one axis.
template <class Coord>
VISOPS_HOT_FN Coord edge_cover(const SegmentAxis<Coord>& axis, Coord at) {
  const Coord before = at - axis.low, after = axis.high - at;
  const Coord within = before < after ? before : after;
  const Coord cover = within * axis.edge_scale + static_cast<Coord>(0.5);
  const Coord positive = cover > static_cast<Coord>(0) ? cover : static_cast<Coord>(0);
  // The outermost pixels of a resized image lie half a footprint inside. Rounding alone would let
  // some fill through there, and all of an infinite one.
  const Coord whole = static_cast<Coord>(1.0 - 1.0 / 32768.0);
  return positive < whole ? positive : static_cast<Coord>(1);
}

// out = 1 - cover.
template <class Coord>
VISOPS_HOT_FN Coord blend_fill(Coord value, Coord fill, Coord out) {
  const Coord mixed = value + out * (fill - value);
  const Coord chosen = out > static_cast<Coord>(0) ? mixed : value;
  return out < static_cast<Coord>(1) ? chosen : fill;
}

}  // namespace visops
