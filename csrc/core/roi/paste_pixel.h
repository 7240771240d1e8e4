// One sample of a pasted patch, and its share of gradients, in plain scalar code: the arithmetic
// that every backend must reproduce bit for bit (NOTE [ Pasted pixels ], NOTE [ Gradients of
// pasting ]).
#pragma once

#include "core/roi/crops_pixel.h"
#include "core/roi/paste.h"

namespace visops {

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
