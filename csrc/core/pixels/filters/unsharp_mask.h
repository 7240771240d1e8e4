// albumentations' unsharp mask: edges of more than a threshold grow, softly blended in. The
// arithmetic that all backends share.
#pragma once

#include <cmath>

#include "core/numbers/element.h"
#include "core/pixels/filters/blur_taps.h"
#include "core/pixels/operations.h"
#include "core/pixels/values.h"

namespace visops {

VISOPS_FN float share_of_white(uint8_t value) { return static_cast<float>(value) / 255.0f; }
VISOPS_FN float share_of_white(float value) { return value; }

struct UnsharpMask {
  float alpha, threshold;  // of differences, in levels of 255

  // A pixel's own share of white and its blurred one.
  VISOPS_DEVICE bool is_edge(float own, float around) const {
    return fabsf(own - around) * 255.0f > threshold;
  }
  VISOPS_DEVICE float sharpened(float own, float around) const {
    return clamped(own + alpha * (own - around), 1.0f);
  }
};

// Stores a sharpened pixel by a share, that of edges around it, and its own value by the rest.
template <class T>
VISOPS_FN void store_unsharp(float own, float sharp, float share, T* to) {
  const float mixed = clamped(sharp * share + own * (1.0f - share), 1.0f);
  store_element(to, sizeof(T) == 1 ? mixed * 255.0f : mixed);
}

inline UnsharpMask unsharp_mask_of(const PixelOperation& operation) {
  return {static_cast<float>(operation.amount), static_cast<float>(operation.more[2])};
}

inline Taps unsharp_taps(const PixelOperation& operation) {
  return gaussian_taps(static_cast<int64_t>(operation.more[0]), operation.more[1]);
}

}  // namespace visops
