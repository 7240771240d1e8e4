// Bicubic samples of a patch with the registers that a GPU has.
#pragma once

#include "core/images/pixel.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// sample_pixel(), `at_once` columns of taps at a time: column_of(j, &index, &weight) for each of
// four. All taps exist, since patches are padded by replication.
template <int at_once, class T, class Acc, class ColumnOf>
__device__ Acc sample_cubic(const T* plane, const Strides& stride,
                            const AxisTaps<Interpolation::kBicubic, Acc>& y,
                            const ColumnOf& column_of) {
  constexpr int kTaps = tap_count(Interpolation::kBicubic);
  Acc sum = static_cast<Acc>(0);
#pragma unroll at_once
  for (int j = 0; j < kTaps; ++j) {
    int32_t index;
    Acc weight, v[kTaps];
    column_of(j, &index, &weight);
    const T* const from = plane + index * stride.column;
    for (int i = 0; i < kTaps; ++i) {
      const T element = load_readonly(from + y.index[i] * stride.row);
      v[i] = load_element(&element);
    }
    const Acc term = weight * weighted_sum(y.weight, v[0], v[1], v[2], v[3]);
    sum = j == 0 ? term : sum + term;
  }
  return sum;
}

}  // namespace
}  // namespace visops
