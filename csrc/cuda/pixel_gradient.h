// How a pixel changes with its coordinates, with the registers that a GPU has.
#pragma once

#include <type_traits>

#include "core/images/pixel.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// One of bicubic's columns of taps: kernels take them in turn, as registers don't hold all sixteen.

// The elements of a column at the rows of its taps, `stride` apart; `from` is its first element.
// Indices below 0, of a row or the column, are fill.
template <class T, class Acc, class FillOf>
__device__ void load_column(const T* from, int64_t stride, const int32_t (&row)[4], int32_t column,
                            const FillOf& fill, Acc (&value)[4]) {
  for (int i = 0; i < 4; ++i) {
    value[i] = fill();
    if (row[i] >= 0 && column >= 0) {
      const T element = load_readonly(from + row[i] * stride);
      value[i] = load_element(&element);
    }
  }
}

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

// An interpolation that is known at run time, as a constant for templates.

// call(mode), with the interpolation as a std::integral_constant. In host code and in kernels: what
// is called must be for the same.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class Call>
VISOPS_FN auto with_mode(Interpolation mode, const Call& call) {
  switch (mode) {
    case Interpolation::kNearest:
      return call(std::integral_constant<Interpolation, Interpolation::kNearest>());
    case Interpolation::kBilinear:
      return call(std::integral_constant<Interpolation, Interpolation::kBilinear>());
    default: return call(std::integral_constant<Interpolation, Interpolation::kBicubic>());
  }
}

}  // namespace visops
