// How maps that only shift and flip cut an output row into runs of an image row.
//
// NOTE [ Straight runs ]
// Pixels that lie side by side in the output lie side by side in the image, forwards or backwards,
// as far as the window goes. Beyond it, padding folds the image, repeats its rim, or fills. So an
// output row is a few runs, and they are the same in all rows.
#pragma once

#include "core/warp/augment_pixel.h"
#include "cpu/warp/copied_pixels.h"

namespace visops {
namespace {

// Output (x, y) is pixel (column + x_step x, row + y_step y) of the image; the steps are 1 or -1.
struct StraightMap {
  int64_t x_step, y_step, column, row;

  int64_t source_x(int64_t x) const { return column + x_step * x; }
  int64_t source_y(int64_t y) const { return row + y_step * y; }

  // The columns of an output row of `count` pixels that lie in the window.
  Span columns_within(const AxisWindow& window, int64_t count) const {
    const int64_t first = x_step > 0 ? window.first - column : column - window.last;
    return intersect({0, count}, {first, first + (window.last - window.first) + 1});
  }
};

inline bool has_straight_map(const AugmentSample& s) {
  const double* m = s.map.m;
  return s.mode == Interpolation::kNearest && !s.is_fill && run_of(s.map.integral, m) != 0 &&
         m[1] == 0.0 && fabs(m[4]) == 1.0;
}

inline StraightMap straight_map(const AugmentSample& s) {
  const double* m = s.map.m;
  return {run_of(s.map.integral, m), static_cast<int64_t>(m[4]), static_cast<int64_t>(m[2]),
          static_cast<int64_t>(m[5])};
}

// The image's column (row) that stands for `at`, or -1 for fill.
inline int64_t padded_source(const AxisWindow& window, Padding padding, int64_t at) {
  return augment_tap_index<Interpolation::kNearest>(window, padding, false, at);
}

// Columns [begin, end) of the output: `source`, `source + step` and so on of the image.
struct PixelRun {
  int64_t begin, end;
  int64_t source;  // -1: they are fill
  int64_t step;    // 1 or -1; 0: one pixel, repeated

  bool is_fill() const { return source < 0; }
};

constexpr int kMostRuns = 16;

class StraightRuns {
 public:
  // The runs of a row; many() where there are more than are kept.
  StraightRuns(const AugmentParams& p, const AugmentSample& s) {
    const StraightMap map = straight_map(s);
    Span within = map.columns_within(s.x, p.output_width);
    if (within.begin >= within.end) within = {p.output_width, p.output_width};
    const auto add_beyond = [&](Span columns) {
      if (p.padding == Padding::kConstant) return add({columns.begin, columns.end, -1, 0});
      for (int64_t x = columns.begin; x < columns.end && !many_; ++x) {
        add_pixel(x, padded_source(s.x, p.padding, map.source_x(x)));
      }
    };
    add_beyond({0, within.begin});
    add({within.begin, within.end, map.source_x(within.begin), map.x_step});
    add_beyond({within.end, p.output_width});
  }

  bool many() const { return many_; }
  const PixelRun* begin() const { return runs_; }
  const PixelRun* end() const { return runs_ + count_; }

 private:
  void add(const PixelRun& run) {
    if (run.begin >= run.end) return;
    if (count_ == kMostRuns) {
      many_ = true;
    } else {
      runs_[count_++] = run;
    }
  }

  // A pixel of the image: it goes on the last run where it can.
  void add_pixel(int64_t x, int64_t source) {
    if (count_ > 0) {
      PixelRun& last = runs_[count_ - 1];
      const int64_t length = x - last.begin;
      const int64_t step = length == 1 ? source - last.source : last.step;
      if (step >= -1 && step <= 1 && source == last.source + step * length) {
        last.step = step;
        last.end = x + 1;
        return;
      }
    }
    add({x, x + 1, source, 1});
  }

  PixelRun runs_[kMostRuns];
  int count_ = 0;
  bool many_ = false;
};

}  // namespace
}  // namespace visops
