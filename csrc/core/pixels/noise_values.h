// Noise of one value: the arithmetic that all backends share.
//
// As torchvision, noise for uint8 is cut off to an integer before it is added; shot noise is
// rounded to the nearest. Poisson numbers are found by adding up probabilities from 0 on, in
// float64, until they pass a uniform number; expected counts above kMostCounted, where that takes
// long, by a normal number.
#pragma once

#include "core/numbers/elementary.h"
#include "core/pixels/noise.h"

namespace visops {

// `mean` and `sigma` in the image's units.
template <class T>
VISOPS_HOT_FN T with_gaussian(T value, float mean, float sigma, float normal, bool clip) {
  if constexpr (sizeof(T) == 1) {
    const int sum = value + static_cast<int>(mean + normal * sigma);
    const int inside = sum < 0 ? 0 : sum > 255 ? 255 : sum;
    return static_cast<T>(clip ? inside : sum);
  } else {
    const float sum = value + (mean + normal * sigma);
    const float above = sum < 0.0f ? 0.0f : sum;
    return clip ? (above > 1.0f ? 1.0f : above) : sum;
  }
}

// `either`: the probability of white or black.
template <class T>
VISOPS_HOT_FN T with_salt_and_pepper(T value, float unit, float salt, float either) {
  const T white = static_cast<T>(sizeof(T) == 1 ? 255 : 1), black = 0;
  const T other = unit < either ? black : value;
  return unit < salt ? white : other;
}

constexpr double kShotGamma = 2.2;
constexpr double kMostCounted = 64.0;

// 0 where x is not positive.
VISOPS_FN double positive_power(double x, double exponent) {
  return x > 1e-300 ? exp_of(exponent * log2_of(x) * kLn2) : 0.0;
}

// A number of photons where `rate` are expected and `none` is the probability of none.
VISOPS_FN double poisson(double rate, double none, double unit, double normal) {
  if (rate > kMostCounted) {
    const double rounded = nearest_integer(rate + sqrt(rate) * normal);
    return rounded > 0.0 ? rounded : 0.0;
  }
  double count = 0.0, share = none, sum = none;
  while (unit >= sum && count < 4.0 * kMostCounted) {
    count += 1.0;
    share *= rate / count;
    sum += share;
  }
  return count;
}

struct Photons {
  double rate, none;
};

VISOPS_FN Photons photons_of(double value, double scale) {
  const double inside = value > 0.0 ? value : 0.0;
  const double rate = (positive_power(inside, kShotGamma) + scale * 1e-6) / scale;
  return {value == value ? rate : value, exp_of(-rate)};  // NaN stays
}

// A value that `photons` are expected of.
template <class T>
VISOPS_FN T with_shot(const Photons& photons, double scale, float unit, float normal) {
  const double seen =
      scale * poisson(photons.rate, photons.none, static_cast<double>(unit) + 2.98e-8,
                      static_cast<double>(normal));
  const double bright = positive_power(seen < 1.0 ? seen : 1.0, 1.0 / kShotGamma);
  const auto out = static_cast<float>(photons.rate == photons.rate ? bright : photons.rate);
  T value;
  store_element(&value, sizeof(T) == 1 ? out * 255.0f : out);
  return value;
}

}  // namespace visops
