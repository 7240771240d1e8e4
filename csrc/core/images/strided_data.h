// Elements somewhere else, by address and strides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/numbers/element.h"

namespace visops {

struct StridedData {
  void* address;
  std::array<int64_t, 4> strides;  // in elements
};

constexpr int kOnCpu = -1;

// A strided tensor that wants no gradient.
struct TensorView {
  void* data;
  DType dtype;
  int device = kOnCpu;  // or the number of a CUDA device
  int rank;
  std::array<int64_t, 5> shape, strides;  // in elements

  int64_t side(int from_end) const { return shape[static_cast<size_t>(rank - from_end)]; }
  int64_t stride(int from_end) const { return strides[static_cast<size_t>(rank - from_end)]; }
  bool is_contiguous() const {
    for (int d = 1; d <= rank; ++d) {
      if (side(d) == 0) return true;
    }
    int64_t expected = 1;
    for (int d = 1; d <= rank; ++d) {
      if (side(d) != 1 && stride(d) != expected) return false;
      expected *= side(d);
    }
    return true;
  }
};

}  // namespace visops
