// Filters of one channel: what fronts and kernels share.
//
// NOTE [ Filters of pixels ]
// Values are read once into float32, mirrored at the rim, and summed there in the order of the
// taps. Results are rounded half to even.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "core/numbers/elementary.h"
#include "core/numbers/philox.h"
#include "core/pixels/operations.h"

namespace visops {

struct FilterParams {
  const void* source;  // [height, width], contiguous
  void* target;        // the same shape and dtype; may be `source`
  DType dtype;         // uint8 or float32
  int64_t height, width;
  // Separable and symmetric: taps at 0, 1 ... radius to either side; used where `offsets` is null.
  const float* row;
  const float* column;
  int64_t row_radius, column_radius;
  // Any kernel: pairs (dy, dx) within the radii, each with a weight.
  const int32_t* offsets;
  const float* weights;
  int64_t tap_count;
  float factor, shift;  // result = sum x factor + shift
  float* scratch;       // filter_scratch() numbers
};

inline int64_t filter_scratch(int64_t height, int64_t width, int64_t row_radius,
                              int64_t column_radius) {
  return (height + 2 * column_radius) * (width + 2 * row_radius) + 2 * (width + 2 * row_radius);
}

// For one channel, in the calling thread.
inline KernelStub<FilterParams> filter_stub{"filter"};

// Motion and advanced blur, emboss and sharpening as taps of a small square: what all backends
// share.
//
// NOTE [ Small filters ]
// A result is the sum over the taps in their order, of values in float32 that are mirrored at the
// rim. It is rounded half to even.

// Taps within a square.
struct SmallFilter {
  std::vector<int32_t> offsets;  // pairs (dy, dx)
  std::vector<float> weights;
  int64_t radius = 0;
  bool clip = false;  // floating results, to black and white

  void add(int64_t y, int64_t x, double weight) {
    offsets.push_back(static_cast<int32_t>(y));
    offsets.push_back(static_cast<int32_t>(x));
    weights.push_back(static_cast<float>(weight));
    radius = std::max(radius, std::max(std::abs(x), std::abs(y)));
  }
};

VISOPS_FN bool is_small_filter(PixelKind kind) {
  return kind == PixelKind::kMotionBlur || kind == PixelKind::kEmboss ||
         kind == PixelKind::kSharpen || kind == PixelKind::kAdvancedBlur;
}

// albumentations' line of a motion: side points on it, rounded and kept in the square, each once.
inline SmallFilter motion_filter(int64_t side, const double* more) {
  const int64_t half = side / 2;
  const double length = static_cast<double>(half);
  const double angle = more[0] * kRadians;
  const double direction = std::clamp(more[1], -1.0, 1.0);
  const double first = direction > 0.0 ? -length * (1.0 - direction) : -length;
  const double last = direction < 0.0 ? length * (1.0 + direction) : length;
  std::vector<std::pair<int64_t, int64_t>> points;
  for (int64_t i = 0; i < side; ++i) {
    const double t =
        first + (last - first) * static_cast<double>(i) / static_cast<double>(side - 1);
    const auto position = [&](double step, double shift) {
      const double at = length + step * t + shift * length / 2.0;
      return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(at)), 0, side - 1) - half;
    };
    points.emplace_back(position(std::sin(angle), more[3]), position(std::cos(angle), more[2]));
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  SmallFilter filter;
  for (const auto& [y, x] : points) filter.add(y, x, 1.0 / static_cast<double>(points.size()));
  return filter;
}

inline SmallFilter emboss_filter(double alpha, double strength) {
  SmallFilter filter;
  filter.clip = true;
  const double own[3][3] = {{-1.0 - strength, -strength, 0.0},
                            {-strength, 1.0, strength},
                            {0.0, strength, 1.0 + strength}};
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 3; ++x) {
      const double middle = x == 1 && y == 1 ? 1.0 - alpha : 0.0;
      filter.add(y - 1, x - 1, middle + alpha * own[y][x]);
    }
  }
  return filter;
}

inline SmallFilter sharpen_filter(double alpha, double lightness) {
  SmallFilter filter;
  filter.clip = true;
  for (int y = -1; y <= 1; ++y) {
    for (int x = -1; x <= 1; ++x) {
      const bool middle = x == 0 && y == 0;
      filter.add(y, x, middle ? (1.0 - alpha) + alpha * (8.0 + lightness) : -alpha);
    }
  }
  return filter;
}

// albumentations' kernel of this name: a generalized normal distribution over turned axes, each
// weight times a random factor. Half of all exponents are below 1.
inline SmallFilter advanced_filter(int64_t side, const double* more) {
  const SinCos turn = sin_cos(more[2] * kRadians);
  const double place = 2.0 * more[3], least = more[4], most = more[5];
  const double exponent =
      place < 1.0 ? least + place * (1.0 - least) : 1.0 + (place - 1.0) * (most - 1.0);
  Uniforms factors(key_of(more[8]), 0, 0);
  std::vector<double> weights;
  double sum = 0.0;
  for (int64_t i = 0; i < side * side; ++i) {
    const auto y = static_cast<double>(i / side - side / 2);
    const auto x = static_cast<double>(i % side - side / 2);
    const double along = (x * turn.cosine + y * turn.sine) / more[0];
    const double across = (y * turn.cosine - x * turn.sine) / more[1];
    const double squares = along * along + across * across;
    const double power = squares > 0.0 ? exp_of(exponent * kLn2 * log2_of(squares)) : 0.0;
    weights.push_back(exp_of(-0.5 * power) * (more[6] + factors[i] * (more[7] - more[6])));
    sum += weights.back();
  }
  SmallFilter filter;
  for (int64_t i = 0; i < side * side; ++i) {
    const double weight = weights[static_cast<size_t>(i)] / sum;
    // What is less than any sum in float32 would show costs time only.
    if (!(weight < 1e-12)) filter.add(i / side - side / 2, i % side - side / 2, weight);
  }
  return filter;
}

// The filter of an operation that is_small_filter().
inline SmallFilter small_filter(const PixelOperation& operation) {
  const double amount = operation.amount;
  switch (operation.kind) {
    case PixelKind::kMotionBlur: return motion_filter(static_cast<int64_t>(amount), operation.more);
    case PixelKind::kEmboss: return emboss_filter(amount, operation.more[0]);
    case PixelKind::kAdvancedBlur:
      return advanced_filter(static_cast<int64_t>(amount), operation.more);
    default: return sharpen_filter(amount, operation.more[0]);
  }
}

// Filters of a batch of images that are a row times a column, with weights for each image.
//
// NOTE [ Separable filters ]
// Values are read into float32, mirrored at the rim without repeating it. The row comes first, then
// the column, each a sum over its taps in ascending order that begins with 0; the middle of n taps
// is number n / 2. In `pairs`, weights to both sides are equal, and a sum begins with the middle:
// two neighbours are added, then multiplied, outwards. Results are rounded half to even and
// saturate.

constexpr int64_t kMostFilterTaps = 33;  // of a row or a column

struct SeparableParams {
  const void* images;  // [batch, channels, height, width], contiguous
  void* output;        // likewise
  DType dtype;         // uint8, float16, bfloat16 or float32
  int64_t batch, channels, height, width;
  const float* rows;     // [sets, row_taps], in host memory
  const float* columns;  // [sets, column_taps], likewise
  int64_t sets;          // batch, or 1 for all images
  int64_t row_taps, column_taps;
  bool pairs;

  VISOPS_DEVICE int64_t pixels() const { return height * width; }
};

extern KernelStub<SeparableParams> separable_stub;

// Whether an image with these weights is copied.
static inline bool copies_images(const SeparableParams& p, int64_t set) {
  const auto is_one = [](const float* weights, int64_t taps) {
    for (int64_t k = 0; k < taps; ++k) {
      if (weights[k] != (k == taps / 2 ? 1.0f : 0.0f)) return false;
    }
    return true;
  };
  return is_one(p.rows + set * p.row_taps, p.row_taps) &&
         is_one(p.columns + set * p.column_taps, p.column_taps);
}

void check_separable(const char* op, const SeparableParams& p);

// f(pointer) with a null pointer to the type of elements.
template <class F>
void with_filter_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kUInt8: return f(static_cast<uint8_t*>(nullptr));
    case DType::kFloat16: return f(static_cast<Half*>(nullptr));
    case DType::kBFloat16: return f(static_cast<BFloat16*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

// Taps of blurs that are separable and symmetric: what all backends share.
//
// NOTE [ Blurs ]
// A blur sums along rows, then along columns, in float32: the middle first, then pairs of
// neighbours from the middle outwards. Images are mirrored at the rim. NOTE [ Filters of pixels ].

using Taps = std::vector<float>;  // from the middle on

inline Taps box_taps(int64_t side) { return Taps(static_cast<size_t>(side / 2 + 1), 1.0f); }

// What the sum over a box is multiplied by.
inline float box_factor(int64_t side) {
  return static_cast<float>(1.0 / static_cast<double>(side * side));
}

// Those of a Gaussian. Without a sigma, OpenCV's.
inline Taps gaussian_taps(int64_t side, double sigma) {
  if (!(sigma > 0.0)) {
    constexpr float kSmall[5][5] = {{256.0f},
                                    {128.0f, 64.0f},
                                    {96.0f, 64.0f, 16.0f},
                                    {72.0f, 56.0f, 28.0f, 8.0f},
                                    {60.0f, 51.0f, 30.0f, 13.0f, 4.0f}};
    if (side <= 9) {
      Taps taps(kSmall[side / 2], kSmall[side / 2] + side / 2 + 1);
      for (float& tap : taps) tap *= 1.0f / 256.0f;
      return taps;
    }
    sigma = 0.3 * (static_cast<double>(side - 1) / 2.0 - 1.0) + 0.8;
  }
  std::vector<double> taps;
  double sum = 0.0;
  for (int64_t i = 0; i <= side / 2; ++i) {
    const double at = static_cast<double>(i) / sigma;
    taps.push_back(std::exp(-0.5 * at * at));
    sum += i == 0 ? taps.back() : 2.0 * taps.back();
  }
  Taps out;
  for (const double tap : taps) out.push_back(static_cast<float>(tap / sum));
  return out;
}

// albumentations' unsharp mask: edges of more than a threshold grow, softly blended in. The
// arithmetic that all backends share.

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
