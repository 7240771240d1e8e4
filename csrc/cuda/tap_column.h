// One of bicubic's columns of taps: kernels take them in turn, as registers don't hold all sixteen.
#pragma once

#include "core/images/pixel.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
