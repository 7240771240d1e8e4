// How images are sampled: interpolation weights, and padding beyond the border.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {

enum class Interpolation : int {
  kNearest,
  kBilinear,
  kBicubic,
  kLanczos  // a filter of antialias, and of nothing else
};
enum class Padding : int { kConstant, kReplicate, kReflect, kSymmetric, kCircular };

// The taps of an axis: how many, and where the first one is relative to floor(coordinate).
VISOPS_FN constexpr int tap_count(Interpolation mode) {
  return mode == Interpolation::kNearest ? 1 : mode == Interpolation::kBilinear ? 2 : 4;
}
VISOPS_FN constexpr int first_tap(Interpolation mode) {
  return mode == Interpolation::kBicubic ? -1 : 0;
}
// What samples without a filter where templates need something. Under Lanczos no sample does.
VISOPS_FN constexpr Interpolation tap_mode(Interpolation mode) {
  return mode == Interpolation::kLanczos ? Interpolation::kBicubic : mode;
}

// The index in [0, n) that stands for `i`, or -1 where constant padding supplies the value. n > 0.
VISOPS_FN int64_t pad_index(Padding padding, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (padding) {
    case Padding::kConstant: return -1;
    case Padding::kReplicate: return i < 0 ? 0 : n - 1;
    case Padding::kReflect: {  // d c b | a b c d | c b a: the edge sample is not repeated
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1);
      const int64_t r = i % period;
      const int64_t m = r < 0 ? r + period : r;
      return m < n ? m : period - m;
    }
    case Padding::kSymmetric: {  // b a | a b c d | d c: the edge sample is repeated
      const int64_t period = 2 * n;
      const int64_t r = i % period;
      const int64_t m = r < 0 ? r + period : r;
      return m < n ? m : period - 1 - m;
    }
    case Padding::kCircular: {
      const int64_t r = i % n;
      return r < 0 ? r + n : r;
    }
  }
  return -1;
}

// Keys' cubic convolution with a = -0.75, as OpenCV and torch use it; t in [0, 1].
// At t = 0 the weights are exactly 0, 1, 0, 0. Plain expressions, no table, so that every backend
// rounds alike. V is float, double or a vector of floats.
template <class V>
VISOPS_FN void cubic_weights(V t, V w[4]) {
  const V one = V(1.0f), a = V(-0.75f);
  const V before = t + one, after = one - t;
  w[0] = ((a * before + V(3.75f)) * before - V(6.0f)) * before + V(3.0f);
  w[1] = (V(1.25f) * t - V(2.25f)) * t * t + one;
  w[2] = (V(1.25f) * after - V(2.25f)) * after * after + one;
  w[3] = ((one - w[0]) - w[1]) - w[2];
}

// d cubic_weights / dt.
template <class V>
VISOPS_FN void cubic_weight_derivatives(V t, V d[4]) {
  const V one = V(1.0f);
  const V before = t + one, after = one - t;
  d[0] = (V(-2.25f) * before + V(7.5f)) * before - V(6.0f);
  d[1] = (V(3.75f) * t - V(4.5f)) * t;
  d[2] = V(0.0f) - (V(3.75f) * after - V(4.5f)) * after;
  d[3] = ((V(0.0f) - d[0]) - d[1]) - d[2];
}

}  // namespace visops
