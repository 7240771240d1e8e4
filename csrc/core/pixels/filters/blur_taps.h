// Taps of blurs that are separable and symmetric: what all backends share.
//
// NOTE [ Blurs ]
// A blur sums along rows, then along columns, in float32: the middle first, then pairs of
// neighbours from the middle outwards. Images are mirrored at the rim. NOTE [ Filters of pixels ]
// (filter.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace visops {

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

}  // namespace visops
