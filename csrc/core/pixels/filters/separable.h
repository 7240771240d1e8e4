// Filters of a batch of images that are a row times a column, with weights for each image.
//
// NOTE [ Separable filters ]
// Values are read into float32, mirrored at the rim without repeating it. The row comes first, then
// the column, each a sum over its taps in ascending order that begins with 0; the middle of n taps
// is number n / 2. In `pairs`, weights to both sides are equal, and a sum begins with the middle:
// two neighbours are added, then multiplied, outwards. Results are rounded half to even and
// saturate.
#pragma once

#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "core/numbers/reflect.h"

namespace visops {

constexpr int64_t kMostFilterTaps = 33;  // of a row or a column

struct SeparableParams {
  const void* images;  // [batch, channels, height, width], contiguous
  void* output;        // likewise
  DType dtype;         // uint8, float16, bfloat16 or float32
  int64_t batch, channels, height, width;
  const float* rows;     // [sets, row_taps], in host memory
  const float* columns;  // [sets, column_taps], likewise
  int64_t sets;          // batch, or 1 for all images
  int64_t row_taps, column_taps;
  bool pairs;

  VISOPS_DEVICE int64_t pixels() const { return height * width; }
};

extern KernelStub<SeparableParams> separable_stub;

// Whether an image with these weights is copied.
static inline bool copies_images(const SeparableParams& p, int64_t set) {
  const auto is_one = [](const float* weights, int64_t taps) {
    for (int64_t k = 0; k < taps; ++k) {
      if (weights[k] != (k == taps / 2 ? 1.0f : 0.0f)) return false;
    }
    return true;
  };
  return is_one(p.rows + set * p.row_taps, p.row_taps) &&
         is_one(p.columns + set * p.column_taps, p.column_taps);
}

void check_separable(const char* op, const SeparableParams& p);

// f(pointer) with a null pointer to the type of elements.
template <class F>
void with_filter_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kUInt8: return f(static_cast<uint8_t*>(nullptr));
    case DType::kFloat16: return f(static_cast<Half*>(nullptr));
    case DType::kBFloat16: return f(static_cast<BFloat16*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

}  // namespace visops
