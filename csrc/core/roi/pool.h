// roi_pool: the largest element of each bin, and which one it is. Boxes are valid as in RoIAlign
// without `aligned`.
//
// NOTE [ RoI pooling ]
// Girshick's Fast R-CNN (ICCV 2015), with torchvision's rounding: corners are rounded to the
// nearest pixel, halves away from zero, and both are inside. A bin goes from the floor of its first
// fraction of a pixel to the ceiling of its last, so bins may share pixels. Among equal elements
// the first by row, then by column, is taken; NaN is larger than everything. Each pixel of a map's
// gradient is a sum over boxes by index, and within a box over bins by index.
#pragma once

#include "core/roi/align.h"
#include "core/roi/gradient.h"

namespace visops {

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

struct RoiPoolParams {
  RoiAlignParams align;  // of one map, of less than 2^31 pixels; strides of `index` too
  // [count, channels, bins_y, bins_x] the pixel of each element, row * width + column; -1 for a bin
  // without pixels.
  int32_t* index;
};

// A region along one axis, in whole pixels of the map.
template <class Acc>
struct PoolAxis {
  int64_t start, extent;
  Acc bin;
};

struct PixelRange {
  int64_t first, last;  // first <= pixel < last
};

template <class Acc>
struct PoolRegion {
  bool valid;
  int64_t image;
  PoolAxis<Acc> y, x;
};

template <class Acc>
VISOPS_FN int64_t nearest_pixel(Acc at) {
  const Acc most = static_cast<Acc>(int64_t{1} << 40);  // beyond any map
  const Acc pixel = static_cast<Acc>(round(at));
  return static_cast<int64_t>(pixel < -most ? -most : (pixel > most ? most : pixel));
}

template <class Acc>
VISOPS_FN PoolAxis<Acc> pool_axis(Acc begin, Acc end, int64_t bins, int64_t extent) {
  PoolAxis<Acc> axis;
  axis.start = nearest_pixel(begin);
  axis.extent = extent;
  const int64_t size = nearest_pixel(end) - axis.start + 1;
  axis.bin = static_cast<Acc>(size < 1 ? 1 : size) / static_cast<Acc>(bins);
  return axis;
}

template <class Acc>
VISOPS_FN PixelRange pixels_of(const PoolAxis<Acc>& axis, int64_t bin) {
  const auto clamped = [&axis](int64_t pixel) {
    return pixel < 0 ? 0 : (pixel > axis.extent ? axis.extent : pixel);
  };
  const Acc first = static_cast<Acc>(bin) * axis.bin, last = static_cast<Acc>(bin + 1) * axis.bin;
  return {clamped(axis.start + static_cast<int64_t>(floor(first))),
          clamped(axis.start + static_cast<int64_t>(ceil(last)))};
}

// Box k on the map; its numbers are meaningless unless it is valid.
template <class Acc>
VISOPS_FN PoolRegion<Acc> load_pool_region(const RoiAlignParams& p, int64_t k) {
  PoolRegion<Acc> region = {};
  const Roi<Acc> roi = load_roi<Acc>(p, k);
  if (!roi.valid) return region;
  region.valid = true;
  region.image = roi.image;
  const RoiMap& map = p.maps[0];
  const int64_t corners = k * p.boxes.box_stride + p.boxes.coordinate_stride;
  const Acc scale = static_cast<Acc>(map.scale);
  Acc corner[4];
  load_coordinates<4>(p.boxes.data, p.boxes.dtype, corners, p.boxes.coordinate_stride, corner);
  region.x = pool_axis(corner[0] * scale, corner[2] * scale, p.bins_x, map.width);
  region.y = pool_axis(corner[1] * scale, corner[3] * scale, p.bins_y, map.height);
  return region;
}

// Whether an index, which callers may have made up, is a pixel of the map.
VISOPS_FN bool is_pixel(const RoiMap& map, int32_t index) {
  return static_cast<uint32_t>(index) < static_cast<uint32_t>(map.height * map.width);
}

// On the CPU, over boxes.
inline KernelStub<RoiPoolParams> roi_pool_stub{"roi_pool"};
inline KernelStub<RoiPoolParams> roi_pool_at_stub{"roi_pool_at"};
inline KernelStub<RoiPoolParams> roi_pool_backward_stub{"roi_pool_backward"};

// ps_roi_align: every bin pools from a channel of its own. A problem is RoiAlignParams with one
// map, aligned. `channels` counts the channels of the bins; the map has one of each for every bin:
//
//     bins[k, c, bin_y, bin_x] = mean over the bin's samples of
//                                map[image, (c * bins_y + bin_y) * bins_x + bin_x]
//
// Samples and sums: NOTE [ RoIAlign samples ] in core/roi/geometry.h. Each pixel of the map's
// gradient is the sum over boxes by index of w(c) * (w(r) * grad[k, c, bin_y, bin_x]).
//
// Li et al., "Light-Head R-CNN" (2017), after Dai et al., "R-FCN" (NeurIPS 2016).

VISOPS_FN int64_t ps_channel(const RoiAlignParams& p, int64_t channel, int64_t bin_y,
                             int64_t bin_x) {
  return (channel * p.bins_y + bin_y) * p.bins_x + bin_x;
}

inline KernelStub<RoiAlignParams> ps_roi_align_stub{"ps_roi_align"};
inline KernelStub<RoiAlignParams> ps_roi_align_backward_stub{"ps_roi_align_backward"};

}  // namespace visops
