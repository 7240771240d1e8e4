// Medians of small squares: what fronts and kernels share.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

// Up to this side, squares go through a network: NOTE [ Small medians ] (median_values.h).
constexpr int64_t kMostSmallMedian = 7;

constexpr int kMedianChunk = 64;

struct MedianParams {
  // [side], each of width + side - 1 values; kMedianChunk more can be read.
  const void* const* rows;
  void* to;             // [width] of the same dtype, none of the rows
  DType dtype;          // uint8 or float32
  int64_t width, side;  // side: 3, 5 or 7
};

// For one row, in the calling thread.
extern KernelStub<MedianParams> median_stub;

}  // namespace visops
