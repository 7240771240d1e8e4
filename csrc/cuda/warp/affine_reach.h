// Which output pixels can have a tap on a given source pixel: the search of the gather kernel.
//
// NOTE [ Search of the image gradient ]
// A source index stands for more than its own position: padding folds positions beyond the border
// onto it (AxisPositions). An output pixel has a tap on a position if its coordinate lies in an
// interval of 1, 2 or 4 pixels about it. In output rows and columns these are intervals too, found
// by the inverse map and by division, and widened generously. The search walks their union in
// raster order, each pixel once. The caller tests every candidate with the coordinate arithmetic
// itself, so an extra candidate costs only time.
//
// Cost per source pixel: its candidates, about taps^2 / |det| for each pair of positions, and one
// step per row that they are in. Three cases cost more.
//   - Replicate: the border's pixels stand for all that lies beyond. A corner visits all output
//     pixels that map beyond it.
//   - A singular or nearly singular map: all rows are searched; columns are still found.
//   - Coordinates beyond 2^30, where the arithmetic saturates, and images so much smaller than the
//     output that they repeat very often: all output pixels are tested.
#pragma once

#include "core/warp/affine_pixel.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// What the search needs to know about a sample.
struct SampleMap {
  AffineMap map;
  double row_step_x, row_step_y;  // output row = row_step_x (sx - m2) + row_step_y (sy - m5)
  bool invertible;                // that is accurate enough to rely on
  bool tame;                      // no coordinate of the output saturates
};

__device__ inline SampleMap sample_map(const AffineParams& p, int64_t sample) {
  SampleMap s;
  s.map = affine_map(p, sample);
  const double* m = s.map.m;
  const double width = static_cast<double>(p.output_width);
  const double height = static_cast<double>(p.output_height);
  const double limit = 1073741824.0;
  s.tame = fabs(m[0]) * width + fabs(m[1]) * height + fabs(m[2]) < limit &&
           fabs(m[3]) * width + fabs(m[4]) * height + fabs(m[5]) < limit;
  const double ad = m[0] * m[4], bc = m[1] * m[3];
  const double det = ad - bc;
  s.row_step_x = -m[3] / det;
  s.row_step_y = m[0] / det;
  s.invertible =
      fabs(det) > 1e-6 * (fabs(ad) + fabs(bc)) && fabs(s.row_step_x) + fabs(s.row_step_y) < 1e15;
  return s;
}

struct Interval {
  double low, high;
};

VISOPS_FN int64_t floor_divide(int64_t a, int64_t b) {  // b > 0
  const int64_t q = a / b;
  return q - (a % b < 0);
}

// The positions in a range that padding maps to one index of an axis: one or two arithmetic
// progressions.
class AxisPositions {
 public:
  // Positions in [first, last]; a few more do no harm. 0 <= index < n.
  __device__ AxisPositions(Padding padding, int64_t index, int64_t n, int64_t first, int64_t last)
      : period_(0),
        families_(1),
        count_(1),
        opens_low_(padding == Padding::kReplicate && index == 0),
        opens_high_(padding == Padding::kReplicate && index == n - 1) {
    start_[0] = start_[1] = index;
    if (padding == Padding::kConstant || padding == Padding::kReplicate) return;
    int64_t mirrored = index;
    period_ = n;
    if (padding == Padding::kReflect) {
      period_ = n > 1 ? 2 * (n - 1) : 1;
      mirrored = -index;
    } else if (padding == Padding::kSymmetric) {
      period_ = 2 * n;
      mirrored = -1 - index;
    }
    families_ = (index - mirrored) % period_ == 0 ? 1 : 2;
    start_[0] = first_from(first, index);
    start_[1] = first_from(first, mirrored);
    const int64_t least = start_[0] < start_[1] ? start_[0] : start_[1];
    count_ = least > last ? 0 : families_ * ((last - least) / period_ + 1);
  }

  __device__ int64_t count() const { return count_; }

  // The coordinates that have a tap on position i.
  template <Interpolation mode>
  __device__ Interval reach(int64_t i) const {
    const int64_t position = (families_ == 2 && (i & 1) ? start_[1] : start_[0]) +
                             (families_ == 2 ? i >> 1 : i) * period_;
    const double at = static_cast<double>(position);
    Interval interval;
    if constexpr (mode == Interpolation::kNearest) {
      interval = {at - 0.5, at + 0.5};
    } else {
      constexpr int kHalf = tap_count(mode) / 2;
      interval = {at - kHalf, at + kHalf};
    }
    if (opens_low_) interval.low = -INFINITY;
    if (opens_high_) interval.high = INFINITY;
    return interval;
  }

 private:
  __device__ int64_t first_from(int64_t first, int64_t residue) const {
    return residue - floor_divide(residue - first, period_) * period_;
  }

  int64_t start_[2], period_;
  int families_;
  int64_t count_;
  bool opens_low_, opens_high_;
};

// The positions of `index` that the output's coordinates along an axis can reach; a, b, c is the
// map's row for that axis.
__device__ inline AxisPositions positions_in_reach(const AffineParams& p, bool tame, double a,
                                                   double b, double c, int64_t index, int64_t n) {
  int64_t first = 0, last = -1;
  if (tame) {
    const double right = a * static_cast<double>(p.output_width - 1);
    const double bottom = b * static_cast<double>(p.output_height - 1);
    first = static_cast<int64_t>(floor(c + fmin(right, 0.0) + fmin(bottom, 0.0))) - 3;
    last = static_cast<int64_t>(floor(c + fmax(right, 0.0) + fmax(bottom, 0.0))) + 4;
  }
  return AxisPositions(p.padding, index, n, first, last);
}

template <Interpolation mode>
class CandidateSearch {
 public:
  __device__ CandidateSearch(const AffineParams& p, const SampleMap& s, int64_t x, int64_t y)
      : s_(s),
        width_(p.output_width),
        height_(p.output_height),
        xs_(positions_in_reach(p, s.tame, s.map.m[0], s.map.m[1], s.map.m[2], x, p.width)),
        ys_(positions_in_reach(p, s.tame, s.map.m[3], s.map.m[4], s.map.m[5], y, p.height)) {
    // Each step of a walk through all pairs looks at all of them.
    const double pairs = static_cast<double>(xs_.count()) * static_cast<double>(ys_.count());
    const double all = static_cast<double>(width_) * static_cast<double>(height_);
    exhaustive_ = !s.tame || (pairs > 1.0 && pairs * pairs * 8.0 > all);
  }

  // The first run of rows, from row `from` on, that may have candidates; empty if none has.
  __device__ Span rows(int64_t from) const {
    if (exhaustive_) return {from, height_};
    Span run = {height_, height_};
    for (int64_t j = 0; j < ys_.count(); ++j) {
      for (int64_t i = 0; i < xs_.count(); ++i) run = earlier(run, rows_of_pair(i, j), from);
    }
    return run;
  }

  // Likewise the columns of row y, from column `from` on.
  __device__ Span columns(int64_t y, int64_t from) const {
    if (exhaustive_) return {from, width_};
    const double* m = s_.map.m;
    const double row = static_cast<double>(y);
    const double base_x = m[1] * row + m[2], base_y = m[4] * row + m[5];
    Span run = {width_, width_};
    for (int64_t j = 0; j < ys_.count(); ++j) {
      const Interval v = ys_.template reach<mode>(j);
      const Span by_y = columns_maybe_within(m[3], base_y, v.low, v.high, width_);
      if (by_y.end <= from || by_y.begin >= run.begin) continue;
      for (int64_t i = 0; i < xs_.count(); ++i) {
        const Interval x = xs_.template reach<mode>(i);
        const Span by_x = columns_maybe_within(m[0], base_x, x.low, x.high, width_);
        run = earlier(run, intersect(by_x, by_y), from);
      }
    }
    return run;
  }

 private:
  __device__ static Span earlier(Span run, Span other, int64_t from) {
    if (other.begin < from) other.begin = from;
    return other.begin < other.end && other.begin < run.begin ? other : run;
  }

  // factor (v - offset) for v in the interval widened by `slack`.
  __device__ static Interval times(double factor, Interval v, double offset, double slack) {
    if (factor == 0.0) return {0.0, 0.0};
    const double a = factor * (v.low - slack - offset), b = factor * (v.high + slack - offset);
    return {a < b ? a : b, a < b ? b : a};
  }

  __device__ Span rows_of_pair(int64_t i, int64_t j) const {
    if (!s_.invertible) return {0, height_};
    const double* m = s_.map.m;
    const Interval x = xs_.template reach<mode>(i), y = ys_.template reach<mode>(j);
    const Interval a = times(s_.row_step_x, x, m[2], coordinate_slack(m[0]));
    const Interval b = times(s_.row_step_y, y, m[5], coordinate_slack(m[3]));
    // The determinant has at least ten good digits.
    const double low = a.low + b.low - 1e-3 - 1e-9 * (fabs(a.low) + fabs(b.low));
    const double high = a.high + b.high + 1e-3 + 1e-9 * (fabs(a.high) + fabs(b.high));
    return make_span(floor(low), ceil(high), height_);
  }

  const SampleMap& s_;
  int64_t width_, height_;
  AxisPositions xs_, ys_;
  bool exhaustive_;
};

}  // namespace
}  // namespace visops
