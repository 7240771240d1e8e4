// From a dtype to the C++ type of a map's elements. Accumulate<T> is what they are computed in.
#pragma once

#include <type_traits>

#include "core/numbers/element.h"
#include "core/platform.h"

namespace visops {

// f(T*), for maps that have a gradient.
template <class F>
static VISOPS_ALWAYS_INLINE void with_floating_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat16: return f(static_cast<Half*>(nullptr));
    case DType::kBFloat16: return f(static_cast<BFloat16*>(nullptr));
    case DType::kFloat64: return f(static_cast<double*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

// f(T*), for everything that is sampled: images and feature maps.
template <class F>
static VISOPS_ALWAYS_INLINE void with_element_type(DType dtype, const F& f) {
  if (dtype == DType::kUInt8) return f(static_cast<uint8_t*>(nullptr));
  with_floating_type(dtype, f);
}

}  // namespace visops
