// How a pixel changes with its coordinates, with the registers that a GPU has.
#pragma once

#include "core/images/pixel.h"
#include "cuda/launch.h"
#include "cuda/tap_column.h"

namespace visops {
namespace {

// What bicubic's columns of taps need of a thread's pixel; bilinear needs nothing. In shared
// memory: registers can't be indexed, and unrolled code would hold all columns in them.
template <Interpolation mode, class Acc, int threads>
struct ColumnTaps {
  int32_t index[4][threads];
  Acc weight[4][threads], slope[4][threads];
};
template <class Acc, int threads>
struct ColumnTaps<Interpolation::kBilinear, Acc, threads> {};

// differentiate_pixel() of one channel after the other, each multiplied by grad_of(channel), the
// incoming gradient; their sum. `image` is the plane of the first one.
template <class T, class Acc, int threads, class GradOf, class FillOf>
__device__ PixelGradient<Acc> sum_gradients(int64_t channels, const T* image, const Strides& stride,
                                            const PixelTaps<Interpolation::kBilinear, Acc>& taps,
                                            const GradOf& grad_of, const FillOf& fill_of,
                                            ColumnTaps<Interpolation::kBilinear, Acc, threads>*) {
  PixelGradient<Acc> sum = {0, 0};
#pragma unroll 1
  for (int64_t c = 0; c < channels; ++c) {
    const Acc g = grad_of(c);
    const PixelGradient<Acc> d =
        differentiate_pixel(image + c * stride.channel, stride, taps, fill_of(c));
    sum.x = sum.x + g * d.x;
    sum.y = sum.y + g * d.y;
  }
  return sum;
}

template <class T, class Acc, int threads, class GradOf, class FillOf>
__device__ PixelGradient<Acc> sum_gradients(
    int64_t channels, const T* image, const Strides& stride,
    const PixelTaps<Interpolation::kBicubic, Acc>& taps, const GradOf& grad_of,
    const FillOf& fill_of, ColumnTaps<Interpolation::kBicubic, Acc, threads>* columns) {
  constexpr int kTaps = 4;
  const int thread = static_cast<int>(threadIdx.x);
  Acc slope[kTaps];
  cubic_weight_derivatives(taps.x.t, slope);
  for (int j = 0; j < kTaps; ++j) {
    columns->index[j][thread] = taps.x.index[j];
    columns->weight[j][thread] = taps.x.weight[j];
    columns->slope[j][thread] = slope[j];
  }
  cubic_weight_derivatives(taps.y.t, slope);
  PixelGradient<Acc> sum = {0, 0};
#pragma unroll 1
  for (int64_t c = 0; c < channels; ++c) {
    const T* const plane = image + c * stride.channel;
    const Acc fill = fill_of(c);
    PixelGradient<Acc> d = {0, 0};
#pragma unroll 1
    for (int j = 0; j < kTaps; ++j) {
      const int32_t column = columns->index[j][thread];
      const T* const from = plane + column * stride.column;
      Acc v[kTaps];
      load_column(from, stride.row, taps.y.index, column, [&] { return fill; }, v);
      const Acc x = columns->slope[j][thread] * weighted_sum(taps.y.weight, v[0], v[1], v[2], v[3]);
      const Acc y = columns->weight[j][thread] * weighted_sum(slope, v[0], v[1], v[2], v[3]);
      d.x = j == 0 ? x : d.x + x;
      d.y = j == 0 ? y : d.y + y;
    }
    const Acc g = grad_of(c);
    sum.x = sum.x + g * d.x;
    sum.y = sum.y + g * d.y;
  }
  return sum;
}

}  // namespace
}  // namespace visops
