// Medians of small squares: what fronts and kernels share.
#pragma once

#include <cstdint>

#include "core/element.h"
#include "core/kernel_stub.h"

namespace visops {

// Up to this side, squares go through a network: NOTE [ Small medians ] (median_values.h).
constexpr int64_t kMostSmallMedian = 7;

struct MedianParams {
  const void* const* rows;  // [side], each of width + side - 1 values
  void* to;                 // [width] of the same dtype, none of the rows
  DType dtype;              // uint8 or float32
  int64_t width, side;      // side: 3, 5 or 7
};

// For one row, in the calling thread.
extern KernelStub<MedianParams> median_stub;

}  // namespace visops
