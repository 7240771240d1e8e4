// RoIAlign: a problem as fronts and kernels see it. A single map is a pyramid of one level.
//
// Samples and sums: NOTE [ RoIAlign samples ] in core/roi/geometry.h. Each pixel of a map's
// gradient is a sum over boxes by index, and within a box over columns of bins by index:
//
//     grad_map[r, c] += w(c) * (sum over rows of bins of  w(r) * grad[bin_y, bin_x])
//
// NOTE [ Boxes that are not valid ]
// A box is valid if its batch index is in range, its coordinates on its map are finite, and, where
// `aligned` is true or a level is chosen, its sides are not negative. On the CPU fronts check all
// boxes. CUDA kernels skip invalid ones: their bins are zeros, and they have no gradient.
#pragma once

#include <string>

#include "core/box.h"
#include "core/dispatch/kernel_stub.h"
#include "core/numbers/elementary.h"
#include "core/roi/geometry.h"

namespace visops {

constexpr int kMostRoiLevels = 8;

// A level's features [images, channels, height, width], or their gradient. Strides in elements.
struct RoiMap {
  void* data;  // const in the forward
  int64_t height, width;
  int64_t image_stride, channel_stride, row_stride, column_stride;
  double scale;  // pixels of this level per unit of the boxes
};

// [count, 5] batch index, x1, y1, x2, y2
struct RoiBoxes {
  const void* data;
  DType dtype;
  int64_t count, box_stride, coordinate_stride;
};

enum class RoiLevelRule : int { kTorchvision, kDetectron2 };

// How a box's level is chosen. The number of a level is log2 of how many of the boxes' units one of
// its pixels spans; if the pyramid lacks a number, the next finer level is taken.
struct RoiLevels {
  RoiLevelRule rule;
  double canonical_scale;
  int64_t canonical_level;
  int64_t number[kMostRoiLevels];  // rising
};

struct RoiAlignParams {
  RoiMap maps[kMostRoiLevels];
  int64_t levels, images, channels;
  RoiLevels level_rule;
  RoiBoxes boxes;
  int64_t bins_y, bins_x, sampling_ratio;
  bool aligned;
  DType dtype;  // of maps and bins; float64 is computed in float64, all others in float32

  // Forward: the result. Backward: its gradient.
  void* bins;  // [count, channels, bins_y, bins_x]
  int64_t roi_stride, channel_stride, bin_row_stride, bin_column_stride;

  // Maxima only: the number of the sample in its bin's grid; -1: none.
  int64_t* index;  // [count, channels, bins_y, bins_x]
  int64_t index_roi_stride, index_channel_stride, index_row_stride, index_column_stride;

  // Backward to boxes only.
  void* grad_boxes;  // [count, 5] contiguous, of grad_boxes_dtype
  DType grad_boxes_dtype;
};

template <class Acc>
struct Roi {
  bool valid;
  int32_t level;
  int64_t image;
  RoiAxis<Acc> y, x;
};

// The level of a box with this area; the finest for a box without area.
template <class Acc>
VISOPS_FN int32_t roi_level(const RoiLevels& rule, int64_t levels, Acc area) {
  const Acc size = static_cast<Acc>(sqrt(area)) / static_cast<Acc>(rule.canonical_scale);
  const bool is_detectron2 = rule.rule == RoiLevelRule::kDetectron2;
  const Acc number = is_detectron2 ? size + static_cast<Acc>(1e-8) : size;
  if (!(number > static_cast<Acc>(0))) return 0;
  Acc level = static_cast<Acc>(rule.canonical_level) + static_cast<Acc>(log2_of(number));
  if (!is_detectron2) level += static_cast<Acc>(1e-6);
  int32_t chosen = 0;
  while (chosen + 1 < levels && level >= static_cast<Acc>(rule.number[chosen + 1])) ++chosen;
  return chosen;
}

// -1 if the box has no size to choose by. Computed in the boxes' precision, as in torchvision.
template <class Acc>
VISOPS_FN int32_t level_of_corners(const RoiAlignParams& p, const double corner[4]) {
  const Acc width = static_cast<Acc>(corner[2]) - static_cast<Acc>(corner[0]);
  const Acc height = static_cast<Acc>(corner[3]) - static_cast<Acc>(corner[1]);
  const Acc zero = static_cast<Acc>(0), area = width * height;
  return width >= zero && height >= zero && area - area == zero
             ? roi_level(p.level_rule, p.levels, area)
             : -1;
}

// The level of the box whose corners begin at element `first`.
VISOPS_FN int32_t level_of_box(const RoiAlignParams& p, int64_t first) {
  if (p.levels == 1) return 0;
  double corner[4];
  load_coordinates<4>(p.boxes.data, p.boxes.dtype, first, p.boxes.coordinate_stride, corner);
  return computes_in_double(p.boxes.dtype) ? level_of_corners<double>(p, corner)
                                           : level_of_corners<float>(p, corner);
}

// Box k on its map; its numbers are meaningless unless it is valid.
template <class Acc>
VISOPS_FN Roi<Acc> load_roi(const RoiAlignParams& p, int64_t k) {
  const RoiBoxes& b = p.boxes;
  const int64_t first = k * b.box_stride, corners = first + b.coordinate_stride;
  Roi<Acc> roi = {};
  const double image = load_coordinate<double>(b.data, b.dtype, first);
  if (!(image >= 0.0 && image < static_cast<double>(p.images) && image == floor(image))) return roi;
  roi.image = static_cast<int64_t>(image);
  roi.level = level_of_box(p, corners);
  if (roi.level < 0) return roi;
  const RoiMap& map = p.maps[roi.level];
  Acc corner[4];
  load_coordinates<4>(b.data, b.dtype, corners, b.coordinate_stride, corner);
  const Acc scale = static_cast<Acc>(map.scale);
  roi.x = roi_axis(corner[0], corner[2], scale, p.aligned, p.bins_x, p.sampling_ratio, map.width);
  roi.y = roi_axis(corner[1], corner[3], scale, p.aligned, p.bins_y, p.sampling_ratio, map.height);
  roi.valid = is_valid(roi.x) && is_valid(roi.y);
  return roi;
}

// Checks everything but the boxes' numbers. `name` is the argument with the maps.
void check_roi_align(const char* op, const char* name, const RoiAlignParams& p);
// Throws for the first box that is not valid; boxes are in host memory.
void check_rois(const char* op, const char* name, const RoiAlignParams& p);
// Its parts, for other kinds of boxes: box k's `columns` numbers as text, and its batch index.
std::string roi_text(const RoiBoxes& boxes, int64_t k, int columns);
void check_roi_image(const char* op, const char* name, const RoiBoxes& boxes, int64_t k,
                     int64_t images);

// On the CPU: core/roi/schedule.h.
extern KernelStub<RoiAlignParams> roi_align_stub;
extern KernelStub<RoiAlignParams> roi_align_max_stub;
extern KernelStub<RoiAlignParams> roi_align_max_at_stub;
extern KernelStub<RoiAlignParams> roi_align_backward_input_stub;
extern KernelStub<RoiAlignParams> roi_align_backward_boxes_stub;
extern KernelStub<RoiAlignParams> roi_align_max_backward_input_stub;
extern KernelStub<RoiAlignParams> roi_align_max_backward_boxes_stub;

// Where the elements of maps, bins and indices lie.

template <class T>
VISOPS_HOT_FN T* map_pixel(const RoiMap& map, int64_t image, int64_t channel, int64_t row,
                           int64_t column) {
  return static_cast<T*>(map.data) + image * map.image_stride + channel * map.channel_stride +
         row * map.row_stride + column * map.column_stride;
}

// Where bin [bin_y, bin_x] of box k lies in `bins`, ...
VISOPS_HOT_FN int64_t bin_offset(const RoiAlignParams& p, int64_t k, int64_t channel, int64_t bin_y,
                                 int64_t bin_x) {
  return k * p.roi_stride + channel * p.channel_stride + bin_y * p.bin_row_stride +
         bin_x * p.bin_column_stride;
}
// ... and in `index`.
VISOPS_HOT_FN int64_t index_offset(const RoiAlignParams& p, int64_t k, int64_t channel,
                                   int64_t bin_y, int64_t bin_x) {
  return k * p.index_roi_stride + channel * p.index_channel_stride + bin_y * p.index_row_stride +
         bin_x * p.index_column_stride;
}

}  // namespace visops
