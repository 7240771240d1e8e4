// Adjacent elements that a lane reads and writes at once.
#pragma once

#include <cstdint>

#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kWideBytes = 16;
template <class T>
constexpr int kWideCount = kWideBytes / static_cast<int>(sizeof(T));

inline bool begins_wide(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % kWideBytes == 0;
}

template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Elements {
  T value[kCount];
};

template <int kCount, class T>
__device__ Elements<T, kCount> load_elements(const T* from) {
  return *reinterpret_cast<const Elements<T, kCount>*>(from);
}

// Writes the elements from kCount * i on. nvcc splits a store whose address it doesn't see to be
// that of a whole structure.
template <int kCount, class T>
__device__ void store_elements(T* to, int64_t i, const Elements<T, kCount>& elements) {
  using Words = Elements<uint32_t, (sizeof(elements) + 3) / 4>;
  if constexpr (sizeof(Words) == sizeof(elements)) {
    reinterpret_cast<Words*>(to)[i] = bit_cast<Words>(elements);
  } else {
    reinterpret_cast<Elements<T, kCount>*>(to)[i] = elements;
  }
}

// Numbers of tensors that lie beside the sampled maps: locations, weights and their gradients.

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
