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
// Sines and cosines are computed in float64 (core/elementary.h), then rounded.
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
  axis.bins = bins;
  axis.grid = sampling_ratio > 0 ? sampling_ratio : static_cast<int64_t>(ceil(axis.bin));
  axis.extent = extent;
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
struct RotatedReach {
  double top, bottom, left, right;
};

template <class Acc>
VISOPS_FN RotatedReach reach_of(const RotatedRoi<Acc>& roi, double top, double bottom, double left,
                                double right) {
  const double s = static_cast<double>(roi.sine), c = static_cast<double>(roi.cosine);
  const double y = 0.5 * (top + bottom) - static_cast<double>(roi.center_y);
  const double x = 0.5 * (left + right) - static_cast<double>(roi.center_x);
  const double half_height = 0.5 * (bottom - top), half_width = 0.5 * (right - left);
  const double lengths = fabs(y) + fabs(x) + half_height + half_width -
                         2.0 * static_cast<double>(roi.y.start + roi.x.start);
  const double margin = 0.5 + 1e-5 * lengths;
  const double reach_y = fabs(c) * half_height + fabs(s) * half_width + margin;
  const double reach_x = fabs(c) * half_width + fabs(s) * half_height + margin;
  const double at_y = c * y + s * x, at_x = c * x - s * y;
  return {at_y - reach_y, at_y + reach_y, at_x - reach_x, at_x + reach_x};
}

template <class Acc>
VISOPS_FN RotatedReach reach_of_map(const RotatedRoi<Acc>& roi) {
  return reach_of(roi, -1.0, static_cast<double>(roi.y.extent), -1.0,
                  static_cast<double>(roi.x.extent));
}

// A bin's samples that may lie between `low` and `high`.
template <class Acc>
VISOPS_FN SampleRange samples_near(const RoiAxis<Acc>& axis, int64_t bin, double low, double high) {
  const double step = static_cast<double>(axis.bin) / static_cast<double>(axis.grid);
  if (!(step > 0.0)) return {0, axis.grid};  // all samples coincide
  const double start = static_cast<double>(axis.start) + static_cast<double>(bin) * axis.bin;
  const double first = floor((low - start) / step - 1.0), last = ceil((high - start) / step + 1.0);
  const auto grid = static_cast<double>(axis.grid);
  SampleRange range;
  range.first = first > 0.0 ? static_cast<int64_t>(first < grid ? first : grid) : 0;
  range.last = last < grid ? static_cast<int64_t>(last > 0.0 ? last : 0.0) : axis.grid;
  return range;
}

template <class Acc>
struct RotatedSample {
  bool on_map;
  RoiTaps<Acc> y, x;

  // Its four pixels: (low, low), (low, high), (high, low), (high, high) of (y, x).
  VISOPS_DEVICE int64_t row(int i) const { return i < 2 ? y.low : y.high; }
  VISOPS_DEVICE int64_t column(int i) const { return i % 2 == 0 ? x.low : x.high; }
  VISOPS_DEVICE VISOPS_ALWAYS_INLINE Acc weight(int i) const {
    return (i < 2 ? y.low_weight : y.high_weight) * (i % 2 == 0 ? x.low_weight : x.high_weight);
  }
};

template <class Acc>
VISOPS_FN RotatedSample<Acc> rotated_sample(const RotatedRoi<Acc>& roi, int64_t bin_y,
                                            int64_t bin_x, int64_t row, int64_t column) {
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

// On the CPU, over boxes.
extern KernelStub<RoiAlignRotatedParams> roi_align_rotated_stub;
// On the CPU, over images' blocks of channels (core/roi/channel_blocks.h).
extern KernelStub<RoiAlignRotatedParams> roi_align_rotated_backward_stub;

// Throws for the first box that is not valid; boxes are in host memory.
void check_rotated_rois(const char* op, const char* name, const RoiAlignRotatedParams& p);

}  // namespace visops
