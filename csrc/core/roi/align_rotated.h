// RoIAlign of rotated boxes: what fronts and kernels share.
//
// NOTE [ Rotated RoIAlign ]
// The arithmetic is that of detectron2's CPU code, operation by operation. A bin's grid of samples
// lies in the box's frame, whose origin is the box's centre. Sample (y, x) of that frame is at
//
//     (y cos a - x sin a + centre_y,  y sin a + x cos a + centre_x)
//
// on the map, so a positive angle turns counter-clockwise as seen in an image. Its value is
// interpolated bilinearly, and 0 more than a pixel outside the map. A bin is the sum of its
// samples, row by row of its grid, divided by their number. Each pixel of a map's gradient is a sum
// over boxes by index, bins by index, samples row by row, and a sample's four pixels in the order
// of RotatedSample.
//
// Samples that can't reach the map cost nothing: the map's rectangle is turned into the box's frame
// to find those that may. Its margin exceeds any rounding of the samples' positions as long as no
// length exceeds kMostRotatedPixels; boxes beyond that are not valid.
//
// Sines and cosines are computed in float64 (core/numbers/elementary.h), then rounded.
#pragma once

#include "core/roi/align.h"

namespace visops {

// Beyond this, float32 can't tell half pixels apart.
constexpr double kMostRotatedPixels = 16777216.0;

struct RoiAlignRotatedParams {
  RoiAlignParams align;  // of one map; boxes are [count, 6] batch index, x, y, width, height, angle
  bool clockwise, degrees;
};

template <class Acc>
struct RotatedRoi {
  bool valid;
  int64_t image;
  RoiAxis<Acc> y, x;  // in the box's frame; `extent` is the map's
  Acc center_y, center_x, sine, cosine, samples;
};

template <class Acc>
VISOPS_FN RoiAxis<Acc> rotated_axis(Acc size, bool aligned, int64_t bins, int64_t sampling_ratio,
                                    int64_t extent) {
  RoiAxis<Acc> axis;
  if (!aligned && size < static_cast<Acc>(1)) size = static_cast<Acc>(1);
  axis.start = -size / static_cast<Acc>(2);
  axis.bin = size / static_cast<Acc>(bins);
  axis.bins = static_cast<int32_t>(bins);
  axis.extent = static_cast<int32_t>(extent);
  axis.grid =
      sampling_ratio > 0 ? static_cast<uint32_t>(sampling_ratio) : samples_of_length(axis.bin);
  return axis;
}

// Box k on the map; its numbers are meaningless unless it is valid.
template <class Acc>
VISOPS_FN RotatedRoi<Acc> load_rotated_roi(const RoiAlignRotatedParams& rotated, int64_t k) {
  const RoiAlignParams& p = rotated.align;
  const RoiBoxes& b = p.boxes;
  const RoiMap& map = p.maps[0];
  const int64_t first = k * b.box_stride;
  RotatedRoi<Acc> roi = {};
  const double image = load_coordinate<double>(b.data, b.dtype, first);
  if (!(image >= 0.0 && image < static_cast<double>(p.images) && image == floor(image))) return roi;
  roi.image = static_cast<int64_t>(image);
  Acc on_map[4];
  for (int i = 0; i < 4; ++i) {
    on_map[i] = load_coordinate<Acc>(b.data, b.dtype, first + (i + 1) * b.coordinate_stride) *
                static_cast<Acc>(map.scale);
    if (!(fabs(on_map[i]) <= static_cast<Acc>(kMostRotatedPixels))) return roi;
  }
  const bool is_negative = on_map[2] < static_cast<Acc>(0) || on_map[3] < static_cast<Acc>(0);
  if (p.aligned && is_negative) return roi;
  double angle = load_coordinate<double>(b.data, b.dtype, first + 5 * b.coordinate_stride);
  if (rotated.degrees) angle = angle * 3.141592653589793 / 180.0;
  const SinCos turn = sin_cos(rotated.clockwise ? -angle : angle);
  if (turn.sine != turn.sine) return roi;
  roi.sine = static_cast<Acc>(turn.sine);
  roi.cosine = static_cast<Acc>(turn.cosine);
  const Acc offset = p.aligned ? static_cast<Acc>(0.5) : static_cast<Acc>(0);
  roi.center_x = on_map[0] - offset;
  roi.center_y = on_map[1] - offset;
  roi.x = rotated_axis(on_map[2], p.aligned, p.bins_x, p.sampling_ratio, map.width);
  roi.y = rotated_axis(on_map[3], p.aligned, p.bins_y, p.sampling_ratio, map.height);
  const Acc samples = static_cast<Acc>(roi.y.grid) * static_cast<Acc>(roi.x.grid);
  roi.samples = samples < static_cast<Acc>(1) ? static_cast<Acc>(1) : samples;
  roi.valid = true;
  return roi;
}

// The part of the box's frame whose samples may fall within a rectangle of the map.
template <class Real>
struct RotatedReach {
  Real top, bottom, left, right;
};

// Real may be float32 where samples are: the margin is some 160 roundings of all lengths, of which
// samples and reach take about 20.
template <class Real, class Acc>
VISOPS_FN RotatedReach<Real> reach_of(const RotatedRoi<Acc>& roi, Real top, Real bottom, Real left,
                                      Real right) {
  const Real half = static_cast<Real>(0.5);
  const Real s = static_cast<Real>(roi.sine), c = static_cast<Real>(roi.cosine);
  const Real y = half * (top + bottom) - static_cast<Real>(roi.center_y);
  const Real x = half * (left + right) - static_cast<Real>(roi.center_x);
  const Real half_height = half * (bottom - top), half_width = half * (right - left);
  const Real lengths = static_cast<Real>(fabs(y)) + static_cast<Real>(fabs(x)) + half_height +
                       half_width -
                       static_cast<Real>(2) * static_cast<Real>(roi.y.start + roi.x.start);
  const Real margin = half + static_cast<Real>(1e-5) * lengths;
  const Real sine = static_cast<Real>(fabs(s)), cosine = static_cast<Real>(fabs(c));
  const Real reach_y = cosine * half_height + sine * half_width + margin;
  const Real reach_x = cosine * half_width + sine * half_height + margin;
  const Real at_y = c * y + s * x, at_x = c * x - s * y;
  return {at_y - reach_y, at_y + reach_y, at_x - reach_x, at_x + reach_x};
}

template <class Real, class Acc>
VISOPS_FN RotatedReach<Real> reach_of_map(const RotatedRoi<Acc>& roi) {
  const Real before = static_cast<Real>(-1);
  return reach_of(roi, before, static_cast<Real>(roi.y.extent), before,
                  static_cast<Real>(roi.x.extent));
}

// The pixels of the map that samples may touch; meaningless if there are none.
struct RotatedBounds {
  bool has_pixels;
  int32_t first_row, last_row, first_column, last_column;
};

VISOPS_FN bool bound_pixels(double center, double reach, int64_t extent, int32_t* first,
                            int32_t* last) {
  const double most = static_cast<double>(extent - 1);
  const double low = floor(center - reach), high = floor(center + reach) + 1.0;
  *first = static_cast<int32_t>(low < 0.0 ? 0.0 : low < most ? low : most);
  *last = static_cast<int32_t>(high < 0.0 ? 0.0 : high < most ? high : most);
  return high >= 0.0 && low <= static_cast<double>(extent);
}

template <class Acc>
VISOPS_FN RotatedBounds bounds_on_map(const RotatedRoi<Acc>& roi) {
  const double s = fabs(static_cast<double>(roi.sine)), c = fabs(static_cast<double>(roi.cosine));
  const double y = static_cast<double>(roi.center_y), x = static_cast<double>(roi.center_x);
  const double half_height = -static_cast<double>(roi.y.start);
  const double half_width = -static_cast<double>(roi.x.start);
  const double margin = 0.5 + 1e-5 * (fabs(y) + fabs(x) + 2.0 * (half_height + half_width));
  RotatedBounds bounds = {};
  const bool on_rows = bound_pixels(y, c * half_height + s * half_width + margin, roi.y.extent,
                                    &bounds.first_row, &bounds.last_row);
  const bool on_columns = bound_pixels(x, c * half_width + s * half_height + margin, roi.x.extent,
                                       &bounds.first_column, &bounds.last_column);
  bounds.has_pixels = roi.valid && on_rows && on_columns;
  return bounds;
}

// A bin's samples that may lie between `low` and `high`.
template <class Real, class Acc>
VISOPS_FN SampleRange samples_near(const RoiAxis<Acc>& axis, int32_t bin, Real low, Real high) {
  const Real zero = static_cast<Real>(0), one = static_cast<Real>(1);
  const auto grid = static_cast<Real>(axis.grid);
  const Real step = static_cast<Real>(axis.bin) / grid;
  if (!(step > zero)) return {0, axis.grid};  // all samples coincide
  const Real start = static_cast<Real>(axis.start) + static_cast<Real>(bin) * axis.bin;
  const Real first = static_cast<Real>(floor((low - start) / step - one));
  const Real last = static_cast<Real>(ceil((high - start) / step + one));
  SampleRange range;
  range.first = first > zero ? static_cast<uint32_t>(first < grid ? first : grid) : 0;
  range.last = last < grid ? static_cast<uint32_t>(last > zero ? last : zero) : axis.grid;
  return range;
}

template <class Acc>
struct RotatedSample {
  bool on_map;
  RoiTaps<Acc> y, x;

  // Its four pixels: (low, low), (low, high), (high, low), (high, high) of (y, x).
  VISOPS_DEVICE int32_t row(int i) const { return i < 2 ? y.low : y.high; }
  VISOPS_DEVICE int32_t column(int i) const { return i % 2 == 0 ? x.low : x.high; }
  VISOPS_DEVICE VISOPS_ALWAYS_INLINE Acc weight(int i) const {
    return (i < 2 ? y.low_weight : y.high_weight) * (i % 2 == 0 ? x.low_weight : x.high_weight);
  }
};

template <class Acc>
VISOPS_FN RotatedSample<Acc> rotated_sample(const RotatedRoi<Acc>& roi, int32_t bin_y,
                                            int32_t bin_x, uint32_t row, uint32_t column) {
  const Acc y = sample_at(roi.y, bin_y, row), x = sample_at(roi.x, bin_x, column);
  const Acc at_y = y * roi.cosine - x * roi.sine + roi.center_y;
  const Acc at_x = y * roi.sine + x * roi.cosine + roi.center_x;
  RotatedSample<Acc> sample = {};
  sample.on_map = is_on_map(at_y, roi.y.extent) && is_on_map(at_x, roi.x.extent);
  if (!sample.on_map) return sample;
  sample.y = roi_taps(at_y, roi.y.extent);
  sample.x = roi_taps(at_x, roi.x.extent);
  return sample;
}

extern KernelStub<RoiAlignRotatedParams> roi_align_rotated_stub;
extern KernelStub<RoiAlignRotatedParams> roi_align_rotated_backward_stub;

// Throws for the first box that is not valid; boxes are in host memory.
void check_rotated_rois(const char* op, const char* name, const RoiAlignRotatedParams& p);

}  // namespace visops
