// RoIAlign with the largest sample of each bin.
//
// NOTE [ RoIAlign maxima ]
// A sample (NOTE [ RoIAlign samples ] in core/roi/geometry.h) is interpolated along x, then along
// y: sample_value(). Among equal samples the first one counts, row by row; NaN is above everything
// else, so the first NaN counts. Samples off the map are 0 and come after those on it: that 0
// counts if it is above the largest of them, or if there are none. `index` is the number of the
// sample, iy * (grid along x) + ix, or -1 if it is the 0 off the map or the grid is empty.
//
// Gradients go to that sample alone. Each of its pixels on the map gets weight * grad, where weight
// is the product of the sample's weights for that row and that column (tap_weight); pixels of
// weight 0 get nothing. A pixel's sum starts from 0 and goes over boxes by index, within a box over
// bins by index. The boxes' gradient: NOTE [ Gradient of the boxes ] in core/roi/gradient.h,
// add_slopes().
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

// Whether a sample replaces the best one so far, which came earlier.
template <class Acc>
VISOPS_HOT_FN bool is_above(Acc value, Acc best) {
  return !(value <= best) && best == best;
}

// Samples of a bin: numbers are below this.
template <class Acc>
VISOPS_FN int64_t samples_of_bin(const Roi<Acc>& roi) {
  return int64_t{roi.y.grid} * int64_t{roi.x.grid};
}

// A sample that was taken; is_on_map is false if there was none, or only the 0 off the map.
template <class Acc>
struct TakenSample {
  bool is_on_map;
  uint32_t row, column;  // within the bin's grid
  RoiTaps<Acc> y, x;
};

// Sample `index` of bin [bin_y, bin_x]; any number is safe.
template <class Acc>
VISOPS_FN TakenSample<Acc> taken_sample(const Roi<Acc>& roi, int32_t bin_y, int32_t bin_x,
                                        int64_t index) {
  TakenSample<Acc> s = {};
  if (index < 0 || index >= samples_of_bin(roi)) return s;
  s.row = static_cast<uint32_t>(index / roi.x.grid);
  s.column = static_cast<uint32_t>(index) - s.row * roi.x.grid;
  const Acc y = sample_at(roi.y, bin_y, s.row), x = sample_at(roi.x, bin_x, s.column);
  s.is_on_map = is_on_map(y, roi.y.extent) && is_on_map(x, roi.x.extent);
  if (!s.is_on_map) return s;
  s.y = roi_taps(y, roi.y.extent);
  s.x = roi_taps(x, roi.x.extent);
  return s;
}

// The sample's weight of a pixel along one axis.
template <class Acc>
VISOPS_FN Acc tap_weight(const RoiTaps<Acc>& taps, int32_t pixel) {
  if (pixel == taps.low) return taps.low_weight;  // 1 at the far border, where `high` is the same
  return pixel == taps.high ? taps.high_weight : static_cast<Acc>(0);
}

// How a sample changes with its position, given the pixels of sample_value().
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

// Adds a sample's share to its box's gradient. along_*: slopes times the bin's gradient; part_*:
// its part_of_box(). The sums are those of store_box_gradient().
template <class Acc>
VISOPS_HOT_FN void add_slopes(Acc along_y, Acc along_x, Acc part_y, Acc part_x, Acc* x1, Acc* y1,
                              Acc* x2, Acc* y2) {
  *x1 += along_x * (static_cast<Acc>(1) - part_x);
  *y1 += along_y * (static_cast<Acc>(1) - part_y);
  *x2 += along_x * part_x;
  *y2 += along_y * part_y;
}

}  // namespace visops
