// Samples of pixels in vectors where 8 bytes hold a pixel's taps along x.
#pragma once

#include "core/images/sampling.h"
#include "cpu/simd/floats.h"

namespace visops {
namespace {

// One channel of kWidth pixels from 2 rows of 2 taps, vertically first.
template <class T, int Channels, int Channel>
VISOPS_ALWAYS_INLINE Floats bilinear(const PixelPairs (&rows)[2], const FloatPairs& wy, Floats wx) {
  const FloatPairs top = channel_pairs<T, Channels, Channel>(rows[0]);
  const FloatPairs bottom = channel_pairs<T, Channels, Channel>(rows[1]);
  const FloatPairs t = top + wy * (bottom - top);
  const Floats left = first_of_pairs(t);
  return left + wx * (second_of_pairs(t) - left);
}

// One channel of kWidth pixels from 4 rows of 4 taps, two pairs a row.
template <class T, int Channels, int Channel>
VISOPS_ALWAYS_INLINE Floats bicubic(const PixelPairs (&rows)[2][4], const FloatPairs (&wy)[4],
                                    const Floats (&wx)[4]) {
  FloatPairs v[2];
  for (int half = 0; half < 2; ++half) {
    v[half] = wy[0] * channel_pairs<T, Channels, Channel>(rows[half][0]);
    for (int i = 1; i < 4; ++i) {
      v[half] = v[half] + wy[i] * channel_pairs<T, Channels, Channel>(rows[half][i]);
    }
  }
  return ((wx[0] * first_of_pairs(v[0]) + wx[1] * second_of_pairs(v[0])) +
          wx[2] * first_of_pairs(v[1])) +
         wx[3] * second_of_pairs(v[1]);
}

// All channels of kWidth pixels. The first taps are at image + offset, weights are per pixel.
template <class T, int Channels, Interpolation mode>
VISOPS_ALWAYS_INLINE void sample_pairs(const char* image, int64_t row_bytes, const int32_t* offset,
                                       const float* weight_x, const float* weight_y,
                                       Floats (&result)[Channels]) {
  const Floats x = Floats::load(weight_x), y = Floats::load(weight_y);
  if constexpr (mode == Interpolation::kBilinear) {
    PixelPairs rows[2];
    load_pairs({image, image + row_bytes}, offset, rows);
    const FloatPairs wy = spread(y);
    result[0] = bilinear<T, Channels, 0>(rows, wy, x);
    if constexpr (Channels > 1) result[1] = bilinear<T, Channels, 1>(rows, wy, x);
    if constexpr (Channels > 2) result[2] = bilinear<T, Channels, 2>(rows, wy, x);
    if constexpr (Channels > 3) result[3] = bilinear<T, Channels, 3>(rows, wy, x);
  } else {
    constexpr int kPairBytes = 2 * Channels * sizeof(T);
    const char* const row[4] = {image, image + row_bytes, image + 2 * row_bytes,
                                image + 3 * row_bytes};
    PixelPairs rows[2][4];  // columns -1, 0 and columns 1, 2
    load_pairs(row, offset, rows[0]);
    load_pairs({row[0] + kPairBytes, row[1] + kPairBytes, row[2] + kPairBytes, row[3] + kPairBytes},
               offset, rows[1]);
    Floats wx[4], weights[4];
    cubic_weights(x, wx);
    cubic_weights(y, weights);
    const FloatPairs wy[4] = {spread(weights[0]), spread(weights[1]), spread(weights[2]),
                              spread(weights[3])};
    result[0] = bicubic<T, Channels, 0>(rows, wy, wx);
    if constexpr (Channels > 1) result[1] = bicubic<T, Channels, 1>(rows, wy, wx);
    if constexpr (Channels > 2) result[2] = bicubic<T, Channels, 2>(rows, wy, wx);
    if constexpr (Channels > 3) result[3] = bicubic<T, Channels, 3>(rows, wy, wx);
  }
}

}  // namespace
}  // namespace visops
