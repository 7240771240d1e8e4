// Patches cut out of images and pasted back: what a valid problem is, and where samples lie.
//
// NOTE [ Crop coordinates ]
// The sides of a box and its patch are parallel, so a sample's position along an axis depends on
// that axis alone. The grid that samples are taken for is the patch's pixels, or the image's when
// pasting. Its place j lies on the other one at
//
//     u(j) = (origin + ((j + 0.5) - shift) step) - 0.5,      tap = floor(u),      t = u - tap
//
// where pixel centres are integers and a box's coordinates refer to pixels' corners. This is
// computed in float64, once for each column and row; t is then rounded to the type that pixels are
// computed in. Taps and blends are those of core/images/pixel.h. If u is an integer for all j along
// both axes, every interpolation is a copy, exact for infinities and NaN too.
//
// NOTE [ Transposed samples ]
// The gradient of what was sampled is a sum over boxes by index, within a box over the rows i of
// its grid by index, and within a row over its columns j:
//
//     grad[y, x] += wy_i(y) * (sum over j of  wx_j(x) * incoming[i, j])
//
// A row or column with two taps on one index (through padding) counts once for each, in tap order.
//
// NOTE [ Crops that are not valid ]
// A box is valid if its batch index is in range, its coordinates are finite in float32, and its
// sides are not negative. On the CPU fronts check all boxes. CUDA kernels treat invalid ones as
// boxes of no image: their patches are `fill`, nothing is pasted, and there is no gradient.
#pragma once

#include "core/box.h"
#include "core/dispatch/kernel_stub.h"
#include "core/images/pixel.h"
#include "core/span.h"

namespace visops {

// Along one axis; see NOTE [ Crop coordinates ]. A box begins at `origin`, or at place `shift`.
struct GridAxis {
  double origin, shift, step;  // step >= 0
};

// What kernels need to know of a box, computed once.
struct CropMap {
  int64_t image;  // -1: not valid
  GridAxis x, y;
  bool integral;
  Span columns, rows;     // of the grid: 0 to the patch's size; pixels in the box for pasting
  Span reach_x, reach_y;  // where their taps lie: on the image; on the patch for pasting
  double x1, y1, x2, y2;
};

// [count, 5] batch index, x1, y1, x2, y2; strides in elements.
struct CropBoxes {
  const void* data;
  DType dtype;
  int64_t count, box_stride, coordinate_stride;
};

struct RoiCropParams {
  const void* images;  // [batch, channels, height, width]
  Strides image_stride;
  int64_t batch, channels, height, width;
  void* patches;  // [count, channels, patch_height, patch_width]; backward: the incoming gradient
  Strides patch_stride;
  int64_t patch_height, patch_width;
  CropBoxes boxes;
  CropMap* maps;  // [count] scratch
  DType dtype;
  Interpolation mode;
  Padding padding;
  double fill[kMaxFill];  // per channel; if fill_count is 1, fill[0] is for all of them
  int64_t fill_count;

  // Gradient of images only; `images` is not read.
  void* grad_images;  // [batch, channels, height, width]; float32, or float64 for float64
  Strides grad_image_stride;

  // Gradient of boxes only.
  double* row_sums;  // [count, patch_height, 3] scratch: sums of gx, gx (j + 0.5) / width, gy
  void* grad_boxes;  // [count, 5] contiguous, of the boxes' dtype
};

// A CropMap costs about what so many elements do; see kGrain.
constexpr int64_t kMapCost = 64;

// Fills `maps`.
extern KernelStub<RoiCropParams> roi_crop_maps_stub;
extern KernelStub<RoiCropParams> roi_crops_stub;
extern KernelStub<RoiCropParams> roi_crops_backward_images_stub;
extern KernelStub<RoiCropParams> roi_crops_backward_boxes_stub;

// All but the boxes' numbers.
void check_roi_crops(const char* op, const RoiCropParams& p);
// Boxes in host memory: throws for the first that is not valid.
void check_crop_boxes(const char* op, const CropBoxes& boxes, int64_t batch);

VISOPS_FN double grid_position(const GridAxis& axis, int64_t j) {
  return (axis.origin + ((static_cast<double>(j) + 0.5) - axis.shift) * axis.step) - 0.5;
}

// Tap and weight of place j. Nearest rounds half up and has no weight.
template <Interpolation mode, class Acc>
VISOPS_FN AxisSample<Acc> grid_sample(const GridAxis& axis, int64_t j) {
  const double u = grid_position(axis, j);
  AxisSample<Acc> sample;
  split_coordinate(mode == Interpolation::kNearest ? u + 0.5 : u, &sample.tap, &sample.weight);
  if (mode == Interpolation::kNearest) sample.weight = static_cast<Acc>(0);
  return sample;
}

VISOPS_FN bool is_integral(const GridAxis& axis) {
  const double first = grid_position(axis, 0), limit = 1073741824.0;
  return fabs(first) < limit && axis.step < limit && first == floor(first) &&
         axis.step == floor(axis.step);
}

// A span of [0, size) that holds all taps of the samples `grid` along an axis.
VISOPS_FN Span grid_reach(const GridAxis& axis, Span grid, Padding padding, int64_t size) {
  Span reach = {0, 0};
  if (grid.begin >= grid.end || size == 0) return reach;
  const double low = grid_position(axis, grid.begin) - 3.0;
  const double high = grid_position(axis, grid.end - 1) + 3.0, last = static_cast<double>(size);
  const bool folds = low < 0.0 || high > last - 1.0;
  if (folds && padding != Padding::kConstant && padding != Padding::kReplicate) return {0, size};
  reach = make_span(floor(low), ceil(high), size);
  if (padding == Padding::kReplicate && reach.begin >= reach.end) {
    if (high < 0.0) return {0, 1};
    return {size - 1, size};
  }
  return reach;
}

// A span of `grid` that holds all places with a tap on `index`.
template <Interpolation mode>
VISOPS_FN Span grid_positions(const GridAxis& axis, Span grid, Padding padding, int64_t size,
                              int64_t index) {
  const double u0 = grid_position(axis, grid.begin), u1 = grid_position(axis, grid.end - 1);
  const bool folds = u0 < 2.0 || u1 > static_cast<double>(size) - 3.0;
  const bool replicates = padding == Padding::kReplicate;
  const bool is_flat = axis.step < 1e-6;  // its inverse would magnify the rounding of `origin`
  if (is_flat || (folds && !replicates && padding != Padding::kConstant)) return grid;
  const double at = static_cast<double>(index), reach = tap_count(mode) / 2 + 1.0;
  const bool from_start = replicates && index == 0, to_end = replicates && index == size - 1;
  const double inverse = 1.0 / axis.step;
  const double from = 0.5 - axis.origin, to = axis.shift - 0.5;
  const double first = floor((at - reach + from) * inverse + to) - 1.0;
  const double last = ceil((at + reach + from) * inverse + to) + 1.0;
  Span positions =
      make_span(from_start ? -1.0 : first, to_end ? static_cast<double>(grid.end) : last, grid.end);
  if (positions.begin < grid.begin) positions.begin = grid.begin;
  if (positions.end < positions.begin) positions.end = positions.begin;
  return positions;
}

VISOPS_FN bool is_single(double v) {
  const float single = static_cast<float>(v);
  return single - single == 0.0f;
}

// Loads the image and corners of box k; false if it is not valid.
VISOPS_FN bool load_crop_box(const CropBoxes& b, int64_t batch, int64_t k, CropMap* map) {
  double number[5];
  for (int i = 0; i < 5; ++i) {
    number[i] =
        load_coordinate<double>(b.data, b.dtype, k * b.box_stride + i * b.coordinate_stride);
  }
  map->image = -1;
  map->x1 = number[1];
  map->y1 = number[2];
  map->x2 = number[3];
  map->y2 = number[4];
  const bool is_image =
      number[0] >= 0.0 && number[0] < static_cast<double>(batch) && number[0] == floor(number[0]);
  const bool is_box = is_single(map->x1) && is_single(map->y1) && is_single(map->x2) &&
                      is_single(map->y2) && map->x2 >= map->x1 && map->y2 >= map->y1;
  if (is_image && is_box) map->image = static_cast<int64_t>(number[0]);
  return map->image >= 0;
}

VISOPS_FN CropMap crop_map(const RoiCropParams& p, int64_t k) {
  CropMap map = {};
  if (!load_crop_box(p.boxes, p.batch, k, &map)) return map;
  map.x = {map.x1, 0.0, (map.x2 - map.x1) / static_cast<double>(p.patch_width)};
  map.y = {map.y1, 0.0, (map.y2 - map.y1) / static_cast<double>(p.patch_height)};
  map.integral = is_integral(map.x) && is_integral(map.y);
  map.columns = {0, p.patch_width};
  map.rows = {0, p.patch_height};
  map.reach_x = grid_reach(map.x, map.columns, p.padding, p.width);
  map.reach_y = grid_reach(map.y, map.rows, p.padding, p.height);
  return map;
}

VISOPS_FN double crop_fill(const RoiCropParams& p, int64_t channel) {
  return p.fill[p.fill_count == 1 ? 0 : channel];
}

VISOPS_FN bool overlap(Span a, Span b) { return a.begin < b.end && b.begin < a.end; }

VISOPS_FN bool contains(Span span, int64_t i) { return i >= span.begin && i < span.end; }

// One sample of a crop in plain scalar code: the arithmetic that every backend must reproduce bit
// for bit (NOTE [ One pixel ] in core/images/pixel.h).

template <Interpolation mode, class Acc>
VISOPS_FN AxisTaps<mode, Acc> grid_taps(const GridAxis& axis, int64_t position, Padding padding,
                                        int64_t size) {
  return axis_taps<mode>(grid_sample<mode, Acc>(axis, position), padding, size);
}

// The taps of place (i, j) of the grid on [height, width].
template <Interpolation mode, class Acc>
VISOPS_FN PixelTaps<mode, Acc> crop_taps(const CropMap& map, Padding padding, int64_t height,
                                         int64_t width, int64_t i, int64_t j) {
  PixelTaps<mode, Acc> taps;
  taps.y = grid_taps<mode, Acc>(map.y, i, padding, height);
  taps.x = grid_taps<mode, Acc>(map.x, j, padding, width);
  return taps;
}

// The value of one channel; the pixel must not be outside().
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc taken(const T* plane, const Strides& stride, const PixelTaps<mode, Acc>& taps,
                    Acc fill) {
  if constexpr (mode == Interpolation::kNearest) {
    return load_tap(plane, stride, taps, 0, 0);
  } else {
    return sample_pixel(plane, stride, taps, fill);
  }
}

// How far along a side of its box place j lies, in (0, 1).
VISOPS_FN double patch_fraction(int64_t j, int64_t size) {
  return (static_cast<double>(j) + 0.5) / static_cast<double>(size);
}

// How a pixel changes with its position in the image, times `grad`, the incoming gradient's row;
// summed over channels. The pixel must not be outside().
template <class T, Interpolation mode, class Acc>
VISOPS_FN PixelGradient<Acc> crop_gradient(const RoiCropParams& p, const PixelTaps<mode, Acc>& taps,
                                           const T* image, const T* grad, int64_t j) {
  PixelGradient<Acc> sum = {0, 0};
  for (int64_t c = 0; c < p.channels; ++c) {
    const T element = load_readonly(grad + c * p.patch_stride.channel + j * p.patch_stride.column);
    const Acc g = load_element(&element);
    const auto d = differentiate_pixel(image + c * p.image_stride.channel, p.image_stride, taps,
                                       static_cast<Acc>(crop_fill(p, c)));
    sum.x = sum.x + g * d.x;
    sum.y = sum.y + g * d.y;
  }
  return sum;
}

constexpr int kCropSums = 3;  // of a row: gx, gx times its fraction, gy

// Stores a box's gradient, given its sums of gx, gx times its fraction, gy, gy times its fraction.
VISOPS_FN void store_box_gradient(const RoiCropParams& p, int64_t k, double gx, double gx_at,
                                  double gy, double gy_at) {
  const double gradient[5] = {0.0, gx - gx_at, gy - gy_at, gx_at, gy_at};
  for (int i = 0; i < 5; ++i) store_rounded(p.grad_boxes, p.boxes.dtype, k * 5 + i, gradient[i]);
}

}  // namespace visops
