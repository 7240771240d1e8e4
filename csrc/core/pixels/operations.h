// Pixel operations on one image: the values of torchvision's functionals.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/chain/plan.h"
#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"
#include "core/numbers/elementary.h"
#include "core/numbers/philox.h"
#include "core/platform.h"

namespace visops {

// An image [channels, height, width], contiguous; uint8, or float32 with white at 1.
struct PixelImage {
  void* data;
  DType dtype;
  int64_t channels, height, width;

  VISOPS_ALWAYS_INLINE int64_t size() const { return channels * height * width; }
};

struct PixelOperationParams {
  PixelOperation operation;  // by a pixel's own value, or sharpness or dilation, by neighbours'
  PixelImage image;          // in place
  void* scratch;             // room for another image
};

extern KernelStub<PixelOperationParams> pixel_operation_stub;

// Runs an operation in place, but kAffine, which whoever runs lists does. `scratch` has room for
// another image.
void run_pixel_operation(const PixelOperation& operation, const PixelImage& image, void* scratch);

// One value, or one pixel, of the pixel operations: the arithmetic that all backends share.
//
// Values of uint8 images go through float32 as torchvision's do, and are cut off, not rounded,
// where theirs are.

constexpr double kRadians = 3.14159265358979323846 / 180.0;  // of a degree

// Floating values become the levels of uint8 whose integers they round down to, with white at 255.
constexpr float kLevels = 256.0f - 1e-3f;

// NaN stays. Not in one expression, of which GCC makes a select of three.
VISOPS_FN float clamped(float value, float white) {
  if (value < 0.0f) value = 0.0f;
  if (white < value) value = white;
  return value;
}

VISOPS_FN uint8_t cut_off(float value) {
  const float inside = value > 0.0f ? (value < 255.0f ? value : 255.0f) : 0.0f;
  return static_cast<uint8_t>(static_cast<int>(inside));
}

// A result as an element: uint8 cut off, floats between 0 and 1.
template <class T>
VISOPS_FN T stored(float value) {
  if constexpr (sizeof(T) == 1) {
    return cut_off(value);
  } else {
    return clamped(value, 1.0f);
  }
}

template <class T>
VISOPS_FN T highest() {
  if constexpr (sizeof(T) == 1) {
    return 255;
  } else {
    return INFINITY;
  }
}
template <class T>
VISOPS_FN T lowest() {
  if constexpr (sizeof(T) == 1) {
    return 0;
  } else {
    return -INFINITY;
  }
}

VISOPS_FN float grey_of(float r, float g, float b) { return r * 0.2989f + g * 0.587f + b * 0.114f; }

// The grey value of a pixel; of integers, rounded down.
template <class T>
VISOPS_FN float grey_level(float r, float g, float b) {
  const float grey = grey_of(r, g, b);
  return sizeof(T) == 1 ? static_cast<float>(static_cast<int>(grey)) : grey;
}

template <class T>
VISOPS_FN T inverted(T value) {
  return sizeof(T) == 1 ? static_cast<T>(255 - value) : static_cast<T>(1.0f - value);
}

template <class T>
VISOPS_FN T solarized(T value, float least) {
  return static_cast<float>(value) >= least ? inverted(value) : value;
}

// `levels` of 255 are added to dark values.
template <class T>
VISOPS_FN T solarize_added(T value, float levels) {
  if constexpr (sizeof(T) == 1) {
    return value < 128 ? cut_off(static_cast<float>(value) + levels) : value;
  } else {
    return value < 128.0f / 255.0f ? clamped(value + levels / 255.0f, 1.0f) : value;
  }
}

template <class T>
VISOPS_FN T posterized(T value, int bits) {
  if constexpr (sizeof(T) == 1) {
    return bits >= 8 ? value : static_cast<T>(value & (((1 << bits) - 1) << (8 - bits)));
  } else {
    const float levels = static_cast<float>(1 << bits);
    return clamped(floorf(value * levels), levels - 1.0f) * (1.0f / levels);
  }
}

// base to the power of an exponent, as powf(), with the same bits everywhere.
VISOPS_FN float power_of(float base, float exponent) {
  if (exponent == 0.0f) return 1.0f;
  const double size = fabs(static_cast<double>(base));
  float power = static_cast<float>(size);  // of 0, infinity and NaN
  if (size > 0.0 && is_finite(size)) {
    const double x = log2_of(size) * static_cast<double>(exponent) * kLn2;
    power = static_cast<float>(exp_of(x));
  } else if (exponent < 0.0f) {
    power = 1.0f / power;
  }
  if (!(base < 0.0f)) return power;
  if (floorf(exponent) != exponent) return is_finite(size) ? NAN : power;
  return floorf(exponent * 0.5f) * 2.0f == exponent ? power : -power;
}

template <class T>
VISOPS_FN T gamma_of(T value, float exponent) {
  if constexpr (sizeof(T) == 1) {
    return cut_off(power_of(static_cast<float>(value) / 255.0f, exponent) * kLevels);
  } else {
    return power_of(value, exponent);
  }
}

// A cubic Bezier curve from black to white, over evenly spaced parameters: the heights of its two
// handles, which are 1/4 and 3/4 where nothing moves.
struct ToneCurve {
  float low, high;
};

// Random curve number `index` of a key of 53 bits. Normal numbers are Box and Muller's.
VISOPS_FN ToneCurve tone_curve(double deviation, uint64_t key, int64_t index) {
  const auto handle = [=](int64_t first, double middle) {
    const double rest = 1.0 - uniform_of(key_bits(key, first));
    const double turn = uniform_of(key_bits(key, first + 1));
    const double normal =
        sqrt(-2.0 * kLn2 * log2_of(rest)) * sin_cos(turn * 6.283185307179586).cosine;
    return clamped(static_cast<float>(middle + deviation * normal), 1.0f);
  };
  return {handle(4 * index, 0.25), handle(4 * index + 2, 0.75)};
}

template <class T>
VISOPS_FN T toned(T value, const ToneCurve& curve) {
  const float x = sizeof(T) == 1 ? static_cast<float>(value) / 255.0f : static_cast<float>(value);
  const float rest = 1.0f - x;
  const float bent = 3.0f * rest * x * (rest * curve.low + x * curve.high) + x * x * x;
  const float inside = clamped(bent, 1.0f);
  T out;
  store_element(&out, sizeof(T) == 1 ? inside * 255.0f : inside);
  return out;
}

// Stretched from [low, low + scale] to all of the range; scale is a share of white.
template <class T>
VISOPS_FN T stretched(T value, float low, float scale) {
  return stored<T>((static_cast<float>(value) - low) / scale);
}

// Three channels of a pixel, towards or away from their grey value.
template <class T>
VISOPS_FN void saturate(T& r, T& g, T& b, float ratio, float rest) {
  const float red = static_cast<float>(r), green = static_cast<float>(g);
  const float blue = static_cast<float>(b), share = grey_level<T>(red, green, blue) * rest;
  r = stored<T>(red * ratio + share);
  g = stored<T>(green * ratio + share);
  b = stored<T>(blue * ratio + share);
}

// A pixel inside the image, from its three rows: towards or away from its neighbours' mean, to
// which it counts five times.
template <class T>
VISOPS_FN T sharpened(const T* above, const T* row, const T* below, float rest) {
  if constexpr (sizeof(T) == 1) {
    const int sum = (above[-1] + above[0] + above[1]) + (row[-1] + row[0] + row[1]) +
                    (below[-1] + below[0] + below[1]) + 4 * row[0];
    // A sum of integers over 13 is never halfway between two.
    const float blurred =
        static_cast<float>(static_cast<int>(static_cast<float>(sum) * (1.0f / 13.0f) + 0.5f));
    const float own = static_cast<float>(row[0]);
    return stored<T>(own + rest * (blurred - own));
  } else {
    const float sum = (above[-1] + above[0] + above[1]) + (row[-1] + row[0] + row[1]) +
                      (below[-1] + below[0] + below[1]) + 4.0f * row[0];
    const float own = row[0];
    return stored<T>(own + rest * (sum * (1.0f / 13.0f) - own));
  }
}

// The histogram of a channel, equalized by Pillow's scheme: table[v] = (sum below v + step / 2) /
// step, at most 255, and 0 for 0. With a step of 0 the channel stays as it is.
VISOPS_FN int64_t equalizing_step(int64_t pixels, int64_t last) { return (pixels - last) / 255; }

VISOPS_FN uint8_t equalized(int64_t below, int64_t step, int value) {
  const int64_t level = (below + step / 2) / step;
  return value == 0 ? 0 : static_cast<uint8_t>(level < 255 ? level : 255);
}

}  // namespace visops
