// Where an image's memory ends, for kernels that read in vectors.
#pragma once

#include "core/images/image.h"

namespace visops {
namespace {

// One past the highest byte of a [batch, channels, height, width] tensor.
VISOPS_ALWAYS_INLINE const char* end_of(const void* data, const Strides& stride, int64_t batch,
                                        int64_t channels, int64_t height, int64_t width,
                                        int64_t element) {
  const auto reach = [](int64_t size, int64_t step) {
    return size > 1 && step > 0 ? (size - 1) * step : 0;
  };
  const int64_t last = reach(batch, stride.batch) + reach(channels, stride.channel) +
                       reach(height, stride.row) + reach(width, stride.column);
  return static_cast<const char*>(data) + (last + 1) * element;
}

}  // namespace
}  // namespace visops
