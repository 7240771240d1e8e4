// RoIAlign that takes the largest sample of a bin.
//
// NOTE [ RoIAlign maxima ]
// A sample (NOTE [ RoIAlign samples ] in core/roi/geometry.h) is interpolated along x, then along
// y: sample_value(). Of equal samples the first in a bin's order counts, row by row; NaN is above
// all else, so that the first NaN counts. A sample off the map is 0: after those on it, such a 0
// counts where it is above the largest of them, or where there are none. `index` has the number of
// the sample, iy * (grid along x) + ix, or -1 where it is the 0 off the map or the grid is empty.
//
// Gradients go to that sample alone. To the map: each of its pixels gets weight * grad, where
// weight is the product of the sample's weight of that row and that column (tap_weight); pixels of
// weight 0 get nothing. A pixel's sum starts from 0 and goes over boxes by index, within a box over
// bins by index. To the boxes: NOTE [ Gradient of the boxes ] in core/roi/gradient.h, add_slopes().
#pragma once

#include "core/roi/gradient.h"

namespace visops {

// From pixels [low row][low column], [low][high], [high][low], [high][high]. V: Acc, or a vector.
template <class V, class Acc>
VISOPS_HOT_FN V sample_value(const RoiTaps<Acc>& y, const RoiTaps<Acc>& x, const V& a, const V& b,
                             const V& c, const V& d) {
  return V(y.low_weight) * (V(x.low_weight) * a + V(x.high_weight) * b) +
         V(y.high_weight) * (V(x.low_weight) * c + V(x.high_weight) * d);
}

// Whether a sample counts before the best so far, which came earlier.
template <class Acc>
VISOPS_HOT_FN bool is_above(Acc value, Acc best) {
  return !(value <= best) && best == best;
}

// A sample that was taken. Not on the map: no sample, or none that is there.
template <class Acc>
struct TakenSample {
  bool is_on_map;
  int64_t row, column;  // within the bin's grid
  RoiTaps<Acc> y, x;
};

// Of bin [bin_y, bin_x], by number; any number is safe.
template <class Acc>
VISOPS_FN TakenSample<Acc> taken_sample(const Roi<Acc>& roi, int64_t bin_y, int64_t bin_x,
                                        int64_t index) {
  TakenSample<Acc> s = {};
  if (index < 0 || roi.x.grid <= 0) return s;
  s.row = index / roi.x.grid;
  s.column = index - s.row * roi.x.grid;
  if (s.row >= roi.y.grid) return s;
  const Acc y = sample_at(roi.y, bin_y, s.row), x = sample_at(roi.x, bin_x, s.column);
  s.is_on_map = is_on_map(y, roi.y.extent) && is_on_map(x, roi.x.extent);
  if (!s.is_on_map) return s;
  s.y = roi_taps(y, roi.y.extent);
  s.x = roi_taps(x, roi.x.extent);
  return s;
}

// The sample's weight of a pixel along one axis.
template <class Acc>
VISOPS_FN Acc tap_weight(const RoiTaps<Acc>& taps, int64_t pixel) {
  if (pixel == taps.low) return taps.low_weight;  // at the far border it is 1, and `high` the same
  return pixel == taps.high ? taps.high_weight : static_cast<Acc>(0);
}

// How a sample changes with its place, from the pixels of sample_value().
template <class Acc>
VISOPS_HOT_FN Acc slope_along_y(const RoiTaps<Acc>& y, const RoiTaps<Acc>& x, Acc a, Acc b, Acc c,
                                Acc d) {
  const Acc low = x.low_weight * a + x.high_weight * b;
  const Acc high = x.low_weight * c + x.high_weight * d;
  return y.moves ? high - low : static_cast<Acc>(0);
}
template <class Acc>
VISOPS_HOT_FN Acc slope_along_x(const RoiTaps<Acc>& y, const RoiTaps<Acc>& x, Acc a, Acc b, Acc c,
                                Acc d) {
  const Acc slope = y.low_weight * (b - a) + y.high_weight * (d - c);
  return x.moves ? slope : static_cast<Acc>(0);
}

// A sample's part of its box's gradient. along_*: slopes times the bin's gradient; part_*: its
// part_of_box(). Sums as in store_box_gradient().
template <class Acc>
VISOPS_HOT_FN void add_slopes(Acc along_y, Acc along_x, Acc part_y, Acc part_x, Acc* x1, Acc* y1,
                              Acc* x2, Acc* y2) {
  *x1 += along_x * (static_cast<Acc>(1) - part_x);
  *y1 += along_y * (static_cast<Acc>(1) - part_y);
  *x2 += along_x * part_x;
  *y2 += along_y * part_y;
}

}  // namespace visops
