// Noise: what fronts and kernels share.
//
// NOTE [ Noise ]
// The random number of a value depends on a key and on the value's place in its image, so results
// don't depend on threads, batches or instruction sets. Keys are 64 bits, of which a chain
// draws 53.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"
#include "core/numbers/elementary.h"
#include "core/pixels/operations.h"

namespace visops {

enum class NoiseKind : int {
  kUnit,           // numbers in [0, 1), which replace the values
  kGaussian,       // adds first + second x a normal number, with white at 1
  kShot,           // photons: Poisson numbers times `first`, of values in linear light
  kSaltAndPepper,  // white with probability `first`, else black with `second`; all channels alike
};

struct NoiseParams {
  void* data;   // [count] of one image; in place
  DType dtype;  // uint8 or float32
  int64_t count;
  int64_t plane;  // values of a channel
  NoiseKind kind;
  uint64_t key;
  double first, second;
  bool clip;  // of kGaussian: to black and white; else uint8 wraps
};

inline KernelStub<NoiseParams> noise_stub{"noise"};

// Kernels take blocks of 128 values, for kSaltAndPepper those of a channel.
constexpr int64_t kNoiseBlock = 128;

VISOPS_FN int64_t noise_blocks(const NoiseParams& p) {
  const int64_t count = p.kind == NoiseKind::kSaltAndPepper ? p.plane : p.count;
  return (count + kNoiseBlock - 1) / kNoiseBlock;
}

// Noise and HSV gains as operations of chains.

VISOPS_FN bool is_noise(PixelKind kind) {
  return kind == PixelKind::kGaussianNoise || kind == PixelKind::kShotNoise ||
         kind == PixelKind::kSaltAndPepper;
}

// The noise of an operation that is_noise().
inline NoiseParams noise_of(const PixelOperation& operation, const PixelImage& image) {
  const double amount = operation.amount;
  const double* const more = operation.more;
  NoiseParams p = {};
  p.data = image.data;
  p.dtype = image.dtype;
  p.count = image.size();
  p.plane = image.height * image.width;
  p.clip = true;
  double key = more[1];
  switch (operation.kind) {
    case PixelKind::kGaussianNoise:
      p.kind = NoiseKind::kGaussian;
      p.first = more[0];
      p.second = amount;
      p.clip = more[1] != 0.0;
      key = more[2];
      break;
    case PixelKind::kShotNoise:
      p.kind = NoiseKind::kShot;
      p.first = amount;
      key = more[0];
      break;
    default:
      p.kind = NoiseKind::kSaltAndPepper;
      p.first = amount * more[0];
      p.second = amount * (1.0 - more[0]);
  }
  p.key = key_of(key);
  return p;
}

// False: the operation is of another kind.
bool run_noise(const PixelOperation& operation, const PixelImage& image);

// Noise of one value: the arithmetic that all backends share.
//
// As torchvision, noise for uint8 is cut off to an integer before it is added; shot noise is
// rounded to the nearest. Poisson numbers are found by adding up probabilities from 0 on, in
// float64, until they pass a uniform number; expected counts above kMostCounted, where that takes
// long, by a normal number.

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
