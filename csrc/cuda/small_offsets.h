// Planes that 32 bits can index.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {
namespace {

constexpr int64_t kInnerLimit = int64_t{1} << 29;

// Whether the offsets within a plane of n x m elements fit in 31 bits.
VISOPS_FN bool has_small_offsets(int64_t rows, int64_t columns, int64_t row_stride,
                                 int64_t column_stride) {
  const int64_t most = (int64_t{1} << 31) - 1;
  if (rows > kInnerLimit || columns > kInnerLimit || row_stride < 0 || column_stride < 0) {
    return false;
  }
  if (row_stride > most || column_stride > most) return false;
  return (rows - 1) * row_stride + (columns - 1) * column_stride <= most;
}

}  // namespace
}  // namespace visops
