// One sample of a crop in plain scalar code: the arithmetic that every backend must reproduce bit
// for bit (NOTE [ One pixel ] in core/images/pixel.h).
#pragma once

#include "core/images/pixel.h"
#include "core/roi/crops.h"

namespace visops {

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
