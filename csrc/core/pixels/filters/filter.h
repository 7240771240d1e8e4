// Filters of one channel: what fronts and kernels share.
//
// NOTE [ Filters of pixels ]
// Values are read once into float32, mirrored at the rim, and summed there in the order of the
// taps. Results are rounded half to even.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

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

}  // namespace visops
