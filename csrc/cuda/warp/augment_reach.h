// Which output pixels can have a tap on a given source pixel: the search of the augmentation's
// gather kernel.
//
// NOTE [ Search of the augmentation's image gradient ]
// As in NOTE [ Search of the image gradient ] (cuda/warp/affine_reach.h), a source index stands for
// its own position and for those that padding folds onto it. An output pixel has a tap on a
// position if its coordinate lies in a rectangle about it. The output rows and columns that may map
// into a rectangle are intervals, and the search walks their union in raster order. Candidates are
// tested with the coordinate arithmetic itself: an extra one costs only time.
//
// What differs: taps reach as far as the filter. Where coordinates are clamped to the window, its
// outermost pixels stand for all that lies beyond, until pixels there are all fill. And maps may be
// perspective: if w > 0 throughout the output, u >= low means (m0 - low m6) x + ... >= 0, one
// division per bound and row as before, and the rectangle's corners bound the rows. If w changes
// its sign within the output (the horizon), all output pixels are tested.
#pragma once

#include "core/warp/augment_gradient.h"
#include "cuda/warp/affine_reach.h"

namespace visops {
namespace {

// One axis of the source.
struct AxisReach {
  double least, most;  // coordinates of all output pixels
  double slack;        // how far computed coordinates may lie from exact ones
  double taps;         // how far a pixel's taps lie from its coordinate
  double beyond;       // how far beyond the window pixels are not all fill
  bool opens;          // the ends of the window stand for what lies beyond them
  double inside;       // as do pixels up to this far from the ends
};

struct ReachMap {
  double m[9], inverse[9];  // scaled so that w > 0
  bool tame;                // w keeps its sign and no coordinate saturates
  bool invertible;          // accurately enough to rely on
  AxisReach x, y;
};

// u = (a x + b y + c) / w at the corners of the output and of its segments' centres.
__device__ inline void axis_extent(const double* row, const double* last, const double right,
                                   const double bottom, AxisReach* axis, double* least_w) {
  axis->least = INFINITY;
  axis->most = -INFINITY;
  for (int i = 0; i < 4; ++i) {
    const double x = i & 1 ? right : 0.0, y = i & 2 ? bottom : 0.0;
    const double w = last[0] * x + last[1] * y + last[2];
    const double u = (row[0] * x + row[1] * y + row[2]) / w;
    if (!(u >= axis->least)) axis->least = u;  // NaN stays
    if (!(u <= axis->most)) axis->most = u;
    if (!(w >= *least_w)) *least_w = w;
  }
}

// The rest of an axis; `width` is at least any segment's footprint.
__device__ inline void set_axis_reach(const AugmentParams& p, const AugmentSample& s,
                                      const AxisWindow& window, double step, double width,
                                      AxisReach* axis) {
  axis->slack = 1e-4 + 2.5e-4 * step + 2.5e-7 * static_cast<double>(window.last + 4);
  const double n = static_cast<double>(window.last - window.first + 1);
  const double filter = fmax(fmin(width, n), 1.0);
  axis->taps = s.mode == Interpolation::kNearest    ? 0.5
               : s.mode == Interpolation::kBilinear ? 1.0
                                                    : 2.0;
  if (s.antialias) axis->taps = axis->taps * filter * (1.0 + 1e-6);
  axis->beyond = INFINITY;
  if (p.padding == Padding::kConstant) {
    axis->beyond = 0.5 * (s.soft_edge ? fmax(width, 1e-6) : 1.0) * (1.0 + 1e-6);
  }
  // Whether taps fold onto the ends, or coordinates are clamped to them.
  const bool replicate = p.padding == Padding::kReplicate;
  axis->opens = replicate || blends_edge(p, s);
  axis->inside = 0.0;
  if (!replicate && s.antialias) axis->inside = axis->taps + 1.0;
  if (!s.antialias && s.mode == Interpolation::kBilinear) axis->inside = 1.0;
}

// Sets everything. The sample is not is_fill.
__device__ inline void make_reach(const AugmentParams& p, const AugmentSample& s, ReachMap* r) {
  const double bottom = static_cast<double>(p.output_height - 1);
  const int64_t last_segment = (p.output_width - 1) / kSegment * kSegment;
  const double right = fmax(static_cast<double>(p.output_width - 1),
                            static_cast<double>(last_segment + kSegment / 2));
  const double* given = s.map.m;
  const double sign =
      given[6] * right * 0.5 + given[7] * bottom * 0.5 + given[8] < 0.0 ? -1.0 : 1.0;
  for (int i = 0; i < 9; ++i) r->m[i] = sign * given[i];
  const double* m = r->m;
  double least_w = INFINITY;
  axis_extent(m, m + 6, right, bottom, &r->x, &least_w);
  axis_extent(m + 3, m + 6, right, bottom, &r->y, &least_w);
  const double limit = 1073741824.0;
  r->tame = least_w > 0.0 && r->x.least > -limit && r->x.most < limit && r->y.least > -limit &&
            r->y.most < limit;
  double step_x = 0.0, step_y = 0.0, width_x = 0.0, width_y = 0.0;
  if (r->tame) {
    const double u = fmax(fabs(r->x.least), fabs(r->x.most));
    const double v = fmax(fabs(r->y.least), fabs(r->y.most));
    step_x = (fabs(m[0]) + u * fabs(m[6])) / least_w;
    step_y = (fabs(m[3]) + v * fabs(m[6])) / least_w;
    width_x = step_x + (fabs(m[1]) + u * fabs(m[7])) / least_w;
    width_y = step_y + (fabs(m[4]) + v * fabs(m[7])) / least_w;
  }
  if (!s.map.perspective) {
    width_x = s.map.width_x;
    width_y = s.map.width_y;
  }
  set_axis_reach(p, s, s.x, step_x, width_x, &r->x);
  set_axis_reach(p, s, s.y, step_y, width_y, &r->y);
  // Not every matrix that can be inverted has an inverse with ten good digits.
  const double c0 = m[4] * m[8] - m[5] * m[7], c1 = m[5] * m[6] - m[3] * m[8];
  const double c2 = m[3] * m[7] - m[4] * m[6];
  const double det = m[0] * c0 + m[1] * c1 + m[2] * c2;
  const double size = fabs(m[0]) * (fabs(m[4] * m[8]) + fabs(m[5] * m[7])) +
                      fabs(m[1]) * (fabs(m[5] * m[6]) + fabs(m[3] * m[8])) +
                      fabs(m[2]) * (fabs(m[3] * m[7]) + fabs(m[4] * m[6]));
  r->invertible = r->tame && fabs(det) > 1e-6 * size && invert_homography(m, r->inverse);
}

// The rectangles' sides along one axis, for one source index.
class SourceSide {
 public:
  __device__ SourceSide(const AxisReach& axis, const AxisWindow& window, int64_t index)
      : axis_(axis) {
    const double from_first = static_cast<double>(index - window.first);
    const double from_last = static_cast<double>(window.last - index);
    low_ = axis.opens && from_first <= axis.inside ? window.low - axis.beyond : INFINITY;
    high_ = axis.opens && from_last <= axis.inside ? window.high + axis.beyond : -INFINITY;
  }

  // The coordinates of output pixels with a tap at `position`, within those that exist.
  __device__ Interval at(double position) const {
    Interval side = {fmin(position - axis_.taps, low_), fmax(position + axis_.taps, high_)};
    side.low = fmax(side.low, axis_.least) - axis_.slack;
    side.high = fmin(side.high, axis_.most) + axis_.slack;
    return side;
  }

 private:
  const AxisReach& axis_;
  double low_, high_;
};

// One position per index: paddings that don't fold.
template <bool folds>
class SourcePositions {
 public:
  __device__ SourcePositions(const AugmentParams&, const AxisReach& axis, const AxisWindow& window,
                             bool, int64_t index)
      : side_(SourceSide(axis, window, index).at(static_cast<double>(index))) {}

  __device__ static constexpr int64_t count() { return 1; }
  __device__ Interval side(int64_t) const { return side_; }

 private:
  Interval side_;
};

template <>
class SourcePositions<true> {
 public:
  __device__ SourcePositions(const AugmentParams& p, const AxisReach& axis,
                             const AxisWindow& window, bool tame, int64_t index)
      : side_(axis, window, index),
        first_(static_cast<double>(window.first)),
        positions_(
            p.padding, index - window.first, window.last - window.first + 1,
            tame ? static_cast<int64_t>(floor(axis.least - axis.taps)) - 2 - window.first : 0,
            tame ? static_cast<int64_t>(ceil(axis.most + axis.taps)) + 2 - window.first : -1) {}

  __device__ int64_t count() const { return positions_.count(); }
  __device__ Interval side(int64_t i) const {
    return side_.at(positions_.template reach<Interpolation::kNearest>(i).low + 0.5 + first_);
  }

 private:
  SourceSide side_;
  double first_;
  AxisPositions positions_;
};

template <bool folds>
class SourceSearch {
 public:
  __device__ SourceSearch(const AugmentParams& p, const AugmentSample& s, const ReachMap& r,
                          int64_t x, int64_t y)
      : r_(r),
        width_(p.output_width),
        height_(p.output_height),
        xs_(p, r.x, s.x, r.tame, x),
        ys_(p, r.y, s.y, r.tame, y) {
    // Each step of a walk through all pairs looks at all of them.
    const double pairs = static_cast<double>(xs_.count()) * static_cast<double>(ys_.count());
    const double all = static_cast<double>(width_) * static_cast<double>(height_);
    exhaustive_ = !r.tame || (pairs > 1.0 && pairs * pairs * 8.0 > all);
  }

  // Whether there is a single run of rows, and of columns in each.
  static constexpr bool kOneRun = !folds;

  // The first run of rows, from row `from` on, that may have candidates; empty if none has.
  __device__ Span rows(int64_t from) const {
    if (exhaustive_) return {from, height_};
    Span run = {height_, height_};
    for (int64_t j = 0; j < ys_.count(); ++j) {
      const Interval v = ys_.side(j);
      for (int64_t i = 0; i < xs_.count(); ++i) {
        run = earlier(run, rows_of(xs_.side(i), v), from);
      }
    }
    return run;
  }

  // Likewise the columns of row y, from column `from` on.
  __device__ Span columns(int64_t y, int64_t from) const {
    if (exhaustive_) return {from, width_};
    const double row = static_cast<double>(y);
    Span run = {width_, width_};
    for (int64_t j = 0; j < ys_.count(); ++j) {
      const Span by_y = columns_of(r_.m + 3, ys_.side(j), row);
      if (by_y.end <= from || by_y.begin >= run.begin) continue;
      for (int64_t i = 0; i < xs_.count(); ++i) {
        run = earlier(run, intersect(columns_of(r_.m, xs_.side(i), row), by_y), from);
      }
    }
    return run;
  }

 private:
  __device__ static Span earlier(Span run, Span other, int64_t from) {
    if (other.begin < from) other.begin = from;
    return other.begin < other.end && other.begin < run.begin ? other : run;
  }

  // The columns x where a x + b >= 0 may hold.
  __device__ Span half_line(double a, double b) const {
    const double end = static_cast<double>(width_);
    if (a == 0.0) return make_span(0.0, b >= 0.0 ? end : -1.0, width_);
    const double at = -b / a;
    return a > 0.0 ? make_span(floor(at), end, width_) : make_span(-1.0, ceil(at), width_);
  }

  // The columns of output row y whose coordinate lies in `side`; `row` is the map's row for it.
  __device__ Span columns_of(const double* row, Interval side, double y) const {
    if (!(side.low <= side.high)) return {0, 0};
    const double* w = r_.m + 6;
    const double base = row[1] * y + row[2], base_w = w[1] * y + w[2];
    return intersect(half_line(row[0] - side.low * w[0], base - side.low * base_w),
                     half_line(side.high * w[0] - row[0], side.high * base_w - base));
  }

  __device__ Span rows_of(Interval u, Interval v) const {
    if (!(u.low <= u.high) || !(v.low <= v.high)) return {0, 0};
    if (!r_.invertible) return {0, height_};
    const double* p = r_.inverse;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < 4; ++i) {
      const double x = i & 1 ? u.high : u.low, y = i & 2 ? v.high : v.low;
      const double over = p[3] * x + p[4] * y + p[5], under = p[6] * x + p[7] * y + p[8];
      const double size = fabs(p[6] * x) + fabs(p[7] * y) + fabs(p[8]);
      if (!(under > 1e-6 * size)) return {0, height_};  // the rectangle reaches the horizon
      const double at = over / under;
      // The inverse has at least ten good digits.
      const double error =
          1e-3 + 1e-9 * (fabs(p[3] * x) + fabs(p[4] * y) + fabs(p[5]) + fabs(at) * size) / under;
      low = fmin(low, at - error);
      high = fmax(high, at + error);
    }
    return make_span(floor(low), ceil(high), height_);
  }

  const ReachMap& r_;
  int64_t width_, height_;
  SourcePositions<folds> xs_, ys_;
  bool exhaustive_;
};

}  // namespace
}  // namespace visops
