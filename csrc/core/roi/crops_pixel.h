// One sample of a crop or of a pasted patch in plain scalar code: the arithmetic that every backend
// must reproduce bit for bit (NOTE [ One pixel ] in core/pixel.h).
#pragma once

#include "core/pixel.h"
#include "core/roi/crops.h"
#include "core/roi/paste.h"

namespace visops {

template <Interpolation mode, class Acc>
VISOPS_FN AxisTaps<mode, Acc> grid_taps(const GridAxis& axis, int64_t place, Padding padding,
                                        int64_t size) {
  return axis_taps<mode>(grid_sample<mode, Acc>(axis, place), padding, size);
}

// Of place (i, j) of the grid on [height, width].
template <Interpolation mode, class Acc>
VISOPS_FN PixelTaps<mode, Acc> crop_taps(const CropMap& map, Padding padding, int64_t height,
                                         int64_t width, int64_t i, int64_t j) {
  PixelTaps<mode, Acc> taps;
  taps.y = grid_taps<mode, Acc>(map.y, i, padding, height);
  taps.x = grid_taps<mode, Acc>(map.x, j, padding, width);
  return taps;
}

// A channel's value; the pixel must not be outside().
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc taken(const T* plane, const Strides& stride, const PixelTaps<mode, Acc>& taps,
                    Acc fill) {
  if constexpr (mode == Interpolation::kNearest) {
    const T element =
        load_readonly(plane + taps.y.index[0] * stride.row + taps.x.index[0] * stride.column);
    return static_cast<Acc>(load_element(&element));
  } else {
    return sample_pixel(plane, stride, taps, fill);
  }
}

// Where along a side of its box place j lies, in (0, 1).
VISOPS_FN double patch_fraction(int64_t j, int64_t size) {
  return (static_cast<double>(j) + 0.5) / static_cast<double>(size);
}

// A pixel's gradient by its place in the image, summed over channels; it must not be outside().
// `grad` is the incoming gradient's row.
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

constexpr int kCropSums = 3;  // of a row: of gx, gx times its fraction, gy

// From the sums of all rows: of gx, gx times its fraction, gy, gy times its fraction.
VISOPS_FN void store_box_gradient(const RoiCropParams& p, int64_t k, double gx, double gx_at,
                                  double gy, double gy_at) {
  const double gradient[5] = {0.0, gx - gx_at, gy - gy_at, gx_at, gy_at};
  for (int i = 0; i < 5; ++i) store_rounded(p.grad_boxes, p.boxes.dtype, k * 5 + i, gradient[i]);
}

// A patch, or its alpha, at pixel (y, x) of the image.
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc patch_at(const RoiPasteParams& p, const CropMap& map, const T* plane,
                       const Strides& stride, int64_t y, int64_t x) {
  constexpr auto padding = Padding::kReplicate;
  if (map.integral) {
    constexpr auto nearest = Interpolation::kNearest;
    const auto taps = crop_taps<nearest, Acc>(map, padding, p.patch_height, p.patch_width, y, x);
    return taken(plane, stride, taps, static_cast<Acc>(0));
  }
  const auto taps = crop_taps<mode, Acc>(map, padding, p.patch_height, p.patch_width, y, x);
  return taken(plane, stride, taps, static_cast<Acc>(0));
}

VISOPS_FN Strides alpha_strides(const RoiPasteParams& p) {
  return {p.patch_height * p.patch_width, 0, p.patch_width, 1};
}

template <Interpolation mode, class Acc>
VISOPS_FN Acc paste_weight(const RoiPasteParams& p, const CropMap& map, int64_t k, int64_t y,
                           int64_t x) {
  if (p.blend == PasteBlend::kReplace) return static_cast<Acc>(1);
  if (p.blend == PasteBlend::kFeather) {
    const double width = feather_width(p, map);
    const Acc wy = feather_weight<Acc>(width, map.y1, map.y2, y);
    const Acc wx = feather_weight<Acc>(width, map.x1, map.x2, x);
    return wy < wx ? wy : wx;
  }
  const Strides stride = alpha_strides(p);
  return patch_at<Acc, mode, Acc>(p, map, static_cast<const Acc*>(p.alpha) + k * stride.batch,
                                  stride, y, x);
}

// Pixel after box k has been blended with what was before.
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc pasted(const RoiPasteParams& p, const CropMap& map, int64_t k, int64_t channel,
                     int64_t y, int64_t x, Acc weight, Acc before) {
  const T* plane = static_cast<const T*>(p.patches) + k * p.patch_stride.batch +
                   channel * p.patch_stride.channel;
  const Acc sample = patch_at<T, mode, Acc>(p, map, plane, p.patch_stride, y, x);
  return p.blend == PasteBlend::kReplace ? sample : blended(weight, sample, before);
}

// Boxes in whose product NOTE [ Gradients of pasting ] another one can take part, by index.
struct PasteNeighbours {
  const int32_t* boxes;  // null: all of [0, count)
  int64_t count;

  VISOPS_DEVICE VISOPS_ALWAYS_INLINE int64_t at(int64_t i) const { return boxes ? boxes[i] : i; }
};

// factor times the product of 1 - w over the boxes after k that cover the pixel.
template <Interpolation mode, class Acc>
VISOPS_FN Acc times_later(const RoiPasteParams& p, const PasteNeighbours& neighbours, int64_t k,
                          int64_t y, int64_t x, Acc factor) {
  const int64_t image = p.maps[k].image;
  for (int64_t i = 0; i < neighbours.count; ++i) {
    const int64_t l = neighbours.at(i);
    if (l <= k || !covers(p.maps[l], image, y, x)) continue;
    factor = factor * (static_cast<Acc>(1) - paste_weight<mode, Acc>(p, p.maps[l], l, y, x));
  }
  return factor;
}

// A pixel's share of the gradient of box k's alpha.
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc alpha_gradient(const RoiPasteParams& p, const PasteNeighbours& neighbours, int64_t k,
                             int64_t y, int64_t x) {
  const CropMap& map = p.maps[k];
  const T* image = static_cast<const T*>(p.images) + map.image * p.image_stride.batch +
                   y * p.image_stride.row + x * p.image_stride.column;
  const T* grad = static_cast<const T*>(p.grad) + map.image * p.grad_stride.batch +
                  y * p.grad_stride.row + x * p.grad_stride.column;
  Acc sum = static_cast<Acc>(0);
  for (int64_t c = 0; c < p.channels; ++c) {
    Acc before = load_element(image + c * p.image_stride.channel);
    for (int64_t i = 0; i < neighbours.count; ++i) {
      const int64_t l = neighbours.at(i);
      if (l >= k) break;
      if (!covers(p.maps[l], map.image, y, x)) continue;
      const Acc weight = paste_weight<mode, Acc>(p, p.maps[l], l, y, x);
      before = pasted<T, mode, Acc>(p, p.maps[l], l, c, y, x, weight, before);
    }
    const T* plane =
        static_cast<const T*>(p.patches) + k * p.patch_stride.batch + c * p.patch_stride.channel;
    const Acc sample = patch_at<T, mode, Acc>(p, map, plane, p.patch_stride, y, x);
    sum = sum + load_element(grad + c * p.grad_stride.channel) * (sample - before);
  }
  return times_later<mode, Acc>(p, neighbours, k, y, x, static_cast<Acc>(1)) * sum;
}

}  // namespace visops
