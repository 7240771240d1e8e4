// Patches pasted into images: what a valid problem is, and how patches blend.
//
// NOTE [ Pasted pixels ]
// A patch covers the pixels whose centres are in its box: x1 <= x + 0.5 < x2, and likewise for y.
// There it is sampled as in NOTE [ Crop coordinates ], with its outermost pixels repeated, and
// blended:
//
//     out = w s + (1 - w) out          over boxes by index, beginning with the image
//
// w is 1 (replace: out = s), the sampled alpha, or a ramp: the distance from the pixel's centre to
// the nearest side of its box, divided by `feather`, at most 1. `feather` is capped at half the
// shorter side. Everything is computed in float32 (float64 for float64) and rounded once.
//
// NOTE [ Gradients of pasting ]
// Patch k contributes w_k s_k times the product of 1 - w_l over the later boxes l that cover the
// pixel. So its gradient is NOTE [ Transposed samples ] of g w_k prod(1 - w_l), in that order of
// factors. That of alpha is the same of prod(1 - w_l) * sum over channels of g (s_k - before_k),
// where before_k is what box k is blended with. The gradient of the images is the incoming gradient
// with patches of 0 pasted into it.
#pragma once

#include <string>

#include "core/roi/crops.h"

namespace visops {

enum class PasteBlend : int { kReplace, kFeather, kAlpha };

struct RoiPasteParams {
  const void* images;  // [batch, channels, height, width]; or the incoming gradient
  Strides image_stride;
  int64_t batch, channels, height, width;
  const void* patches;  // [count, channels, patch_height, patch_width]
  Strides patch_stride;
  int64_t patch_height, patch_width;
  const void* alpha;  // [count, patch_height, patch_width], contiguous; float32, or float64 for it
  CropBoxes boxes;
  CropMap* maps;  // [count] scratch
  DType dtype;
  Interpolation mode;
  PasteBlend blend;
  double feather;
  void* output;  // [batch, channels, height, width]
  Strides output_stride;

  // Backward only; either `grad_patches` or `grad_alpha` is null.
  const void* grad;  // of the output's shape
  Strides grad_stride;
  void* grad_patches;  // [count, channels, patch_height, patch_width]; float32, or float64
  Strides grad_patch_stride;
  void* grad_alpha;  // [count, patch_height, patch_width], contiguous; as alpha
};

// Fills `maps`.
extern KernelStub<RoiPasteParams> roi_paste_maps_stub;
extern KernelStub<RoiPasteParams> roi_paste_stub;
extern KernelStub<RoiPasteParams> roi_paste_backward_stub;

PasteBlend parse_paste_blend(const char* op, const std::string& name);
// Checks everything but the boxes' numbers.
void check_roi_paste(const char* op, const RoiPasteParams& p);

// Pixels of [0, size) whose centres lie in [low, high).
VISOPS_FN Span pixels_within(double low, double high, int64_t size) {
  const double first = ceil(low - 0.5), end = ceil(high - 0.5);
  return make_span(first, end - 1.0, size);
}

VISOPS_FN CropMap paste_map(const RoiPasteParams& p, int64_t k) {
  CropMap map = {};
  if (!load_crop_box(p.boxes, p.batch, k, &map)) return map;
  map.columns = pixels_within(map.x1, map.x2, p.width);
  map.rows = pixels_within(map.y1, map.y2, p.height);
  const bool is_empty = map.columns.begin >= map.columns.end || map.rows.begin >= map.rows.end;
  if (is_empty) {
    map.image = -1;  // covers no pixel
    return map;
  }
  const double step_x = static_cast<double>(p.patch_width) / (map.x2 - map.x1);
  const double step_y = static_cast<double>(p.patch_height) / (map.y2 - map.y1);
  map.x = {0.0, map.x1, step_x};
  map.y = {0.0, map.y1, step_y};
  map.integral = is_integral(map.x) && is_integral(map.y);
  map.reach_x = grid_reach(map.x, map.columns, Padding::kReplicate, p.patch_width);
  map.reach_y = grid_reach(map.y, map.rows, Padding::kReplicate, p.patch_height);
  return map;
}

// The distance from a side, in pixels, over which a patch's weight rises to 1.
VISOPS_FN double feather_width(const RoiPasteParams& p, const CropMap& map) {
  const double width = map.x2 - map.x1, height = map.y2 - map.y1;
  const double most = 0.5 * (width < height ? width : height);
  return p.feather < most ? p.feather : most;
}

// The weight along one axis of pixel j between low and high. A pixel has the smaller of its two.
template <class Acc>
VISOPS_FN Acc feather_weight(double width, double low, double high, int64_t j) {
  const double centre = static_cast<double>(j) + 0.5;
  const double before = centre - low, after = high - centre;
  const double weight = (before < after ? before : after) / width;
  return weight < 1.0 ? static_cast<Acc>(weight) : static_cast<Acc>(1);
}

template <class Acc>
VISOPS_FN Acc blended(Acc weight, Acc sample, Acc before) {
  return weight * sample + (static_cast<Acc>(1) - weight) * before;
}

VISOPS_FN bool covers(const CropMap& map, int64_t image, int64_t y, int64_t x) {
  return map.image == image && contains(map.rows, y) && contains(map.columns, x);
}

// One sample of a pasted patch, and its share of gradients, in plain scalar code: the arithmetic
// that every backend must reproduce bit for bit (NOTE [ Pasted pixels ], NOTE [ Gradients of
// pasting ]).

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

// Whether a pixel may be covered by both boxes.
VISOPS_FN bool are_neighbours(const CropMap& a, const CropMap& b) {
  return a.image == b.image && overlap(a.rows, b.rows) && overlap(a.columns, b.columns);
}

// The boxes that share pixels with one box, by index: those whose weights its gradient depends on.
// CUDA has a list of spans instead, with the same at() and covers().
struct PasteNeighbours {
  const CropMap* maps;
  int64_t image;
  const int32_t* boxes;  // null: all of [0, count), since a list had no room for them
  int64_t count;

  VISOPS_DEVICE VISOPS_ALWAYS_INLINE int64_t at(int64_t i) const { return boxes ? boxes[i] : i; }
  VISOPS_DEVICE VISOPS_ALWAYS_INLINE bool covers(int64_t i, int64_t y, int64_t x) const {
    return visops::covers(maps[at(i)], image, y, x);
  }
};

// How gradients learn of a box's weight and of its samples: weight(k, y, x) is paste_weight(), and
// sample(k, plane, stride, y, x) is patch_at(). CUDA has tables instead.
template <Interpolation mode, class Acc_>
struct PixelSampler {
  using Acc = Acc_;
  const RoiPasteParams& p;

  VISOPS_DEVICE VISOPS_ALWAYS_INLINE Acc weight(int64_t k, int64_t y, int64_t x) const {
    return paste_weight<mode, Acc>(p, p.maps[k], k, y, x);
  }
  template <class T>
  VISOPS_DEVICE VISOPS_ALWAYS_INLINE Acc sample(int64_t k, const T* plane, const Strides& stride,
                                                int64_t y, int64_t x) const {
    return patch_at<T, mode, Acc>(p, p.maps[k], plane, stride, y, x);
  }
};

// factor times the product of 1 - w over the boxes after k that cover the pixel.
template <class Sampler, class Neighbours, class Acc = typename Sampler::Acc>
VISOPS_FN Acc times_later(const Sampler& sampler, const Neighbours& neighbours, int64_t k,
                          int64_t y, int64_t x, Acc factor) {
  for (int64_t i = 0; i < neighbours.count; ++i) {
    const int64_t l = neighbours.at(i);
    if (l <= k || !neighbours.covers(i, y, x)) continue;
    factor = factor * (static_cast<Acc>(1) - sampler.weight(l, y, x));
  }
  return factor;
}

// What the incoming gradient of a pixel is multiplied by for that of box k's patch.
template <class Sampler, class Neighbours>
VISOPS_FN typename Sampler::Acc patch_share(const Sampler& sampler, const Neighbours& neighbours,
                                            int64_t k, int64_t y, int64_t x) {
  return times_later(sampler, neighbours, k, y, x, sampler.weight(k, y, x));
}

// A pixel's share of the gradient of box k's alpha.
template <class T, class Sampler, class Neighbours, class Acc = typename Sampler::Acc>
VISOPS_FN Acc alpha_gradient(const Sampler& sampler, const Neighbours& neighbours, int64_t k,
                             int64_t y, int64_t x) {
  const RoiPasteParams& p = sampler.p;
  const int64_t at = p.maps[k].image;
  const T* image = static_cast<const T*>(p.images) + at * p.image_stride.batch +
                   y * p.image_stride.row + x * p.image_stride.column;
  const T* grad = static_cast<const T*>(p.grad) + at * p.grad_stride.batch + y * p.grad_stride.row +
                  x * p.grad_stride.column;
  const auto sample = [&](int64_t l, int64_t c) {
    const T* plane =
        static_cast<const T*>(p.patches) + l * p.patch_stride.batch + c * p.patch_stride.channel;
    return sampler.sample(l, plane, p.patch_stride, y, x);
  };
  Acc sum = static_cast<Acc>(0);
  for (int64_t c = 0; c < p.channels; ++c) {
    Acc before = load_element(image + c * p.image_stride.channel);
    for (int64_t i = 0; i < neighbours.count; ++i) {
      const int64_t l = neighbours.at(i);
      if (l >= k) break;
      if (!neighbours.covers(i, y, x)) continue;
      before = blended(sampler.weight(l, y, x), sample(l, c), before);
    }
    sum = sum + load_element(grad + c * p.grad_stride.channel) * (sample(k, c) - before);
  }
  return times_later(sampler, neighbours, k, y, x, static_cast<Acc>(1)) * sum;
}

// The gradient that is computed: of patches, or of alpha as patches with one channel.
struct PasteTarget {
  void* data;  // [count, channels, patch_height, patch_width] float32, or float64
  int64_t channels;
  Strides stride;
};

VISOPS_FN PasteTarget paste_target(const RoiPasteParams& p) {
  if (p.grad_alpha != nullptr) return {p.grad_alpha, 1, alpha_strides(p)};
  return {p.grad_patches, p.channels, p.grad_patch_stride};
}

// The incoming gradient of an image, from `channel` on.
template <class T>
VISOPS_FN const T* incoming_gradient(const RoiPasteParams& p, int64_t image, int64_t channel) {
  return static_cast<const T*>(p.grad) + image * p.grad_stride.batch +
         channel * p.grad_stride.channel;
}

}  // namespace visops
