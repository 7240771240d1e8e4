// Motion and advanced blur, emboss and sharpening as taps of a small square: what all backends
// share.
//
// NOTE [ Small filters ]
// A result is the sum over the taps in their order, of values in float32 that are mirrored at the
// rim. It is rounded half to even.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/numbers/elementary.h"
#include "core/numbers/philox.h"
#include "core/pixels/operations.h"
#include "core/pixels/values.h"

namespace visops {

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

}  // namespace visops
