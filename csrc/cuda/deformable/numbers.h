// Numbers of tensors that lie beside the sampled maps: locations, weights and their gradients.
#pragma once

#include "core/numbers/ceil_div.h"
#include "core/numbers/element.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// Number `at` of a tensor that is float64 where Acc is double, and narrower otherwise.
template <class Acc>
__device__ Acc number_at(const void* from, DType dtype, int64_t at) {
  if constexpr (sizeof(Acc) == 8) {
    return static_cast<const double*>(from)[at];
  } else {
    if (dtype == DType::kFloat32) return static_cast<const float*>(from)[at];
    if (dtype == DType::kFloat16) return load_element(static_cast<const Half*>(from) + at);
    return load_element(static_cast<const BFloat16*>(from) + at);
  }
}

template <class Acc>
__device__ void write_number(void* to, DType dtype, int64_t at, Acc number) {
  if constexpr (sizeof(Acc) == 8) {
    static_cast<double*>(to)[at] = number;
  } else {
    if (dtype == DType::kFloat32) {
      static_cast<float*>(to)[at] = number;
    } else if (dtype == DType::kFloat16) {
      store_element(static_cast<Half*>(to) + at, number);
    } else {
      store_element(static_cast<BFloat16*>(to) + at, number);
    }
  }
}

}  // namespace
}  // namespace visops
