// Numbers rounded to a dtype.
#pragma once

#include "core/numbers/element.h"

namespace visops {

// As torch rounds a number that it compares with elements of this dtype.
VISOPS_FN double rounded_to(DType dtype, double value) {
  if (dtype == DType::kFloat64) return value;
  const auto single = static_cast<float>(value);
  if (dtype == DType::kFloat16) return half_to_float(float_to_half(single));
  if (dtype == DType::kBFloat16) {
    const BFloat16 stored = {float_to_bfloat16(single)};
    return load_element(&stored);
  }
  return single;
}

}  // namespace visops
