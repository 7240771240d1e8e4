// Numbers of tensors that lie beside the sampled maps: locations, weights and their gradients. They
// are float64 where the maps are, and otherwise of any narrower type.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/numbers/element.h"
#include "cpu/simd/floats.h"

namespace visops {
namespace {

template <class T, class Acc>
VISOPS_ALWAYS_INLINE void read_numbers(const void* from, int64_t first, int64_t count,
                                       Acc* VISOPS_RESTRICT to) {
  const T* numbers = static_cast<const T*>(from) + first;
  int64_t i = 0;
  if constexpr (!std::is_same<T, double>::value) {
    for (; i + Floats::kWidth <= count; i += Floats::kWidth) load_floats(numbers + i).store(to + i);
  }
  for (; i < count; ++i) to[i] = load_element(numbers + i);
}

// Numbers [first, first + count) of a tensor.
inline void read_numbers(const void* from, DType dtype, int64_t first, int64_t count, float* to) {
  if (dtype == DType::kFloat32) return read_numbers<float>(from, first, count, to);
  if (dtype == DType::kFloat16) return read_numbers<Half>(from, first, count, to);
  read_numbers<BFloat16>(from, first, count, to);
}
inline void read_numbers(const void* from, DType, int64_t first, int64_t count, double* to) {
  read_numbers<double>(from, first, count, to);
}

template <class T, class Acc>
VISOPS_ALWAYS_INLINE void write_numbers(const Acc* from, int64_t count, void* to, int64_t at) {
  T* numbers = static_cast<T*>(to) + at;
  for (int64_t i = 0; i < count; ++i) store_element(numbers + i, from[i]);
}

// Writes numbers [at, at + count) of a tensor.
inline void write_numbers(const float* from, int64_t count, void* to, DType dtype, int64_t at) {
  if (dtype == DType::kFloat32) return write_numbers<float>(from, count, to, at);
  if (dtype == DType::kFloat16) return write_numbers<Half>(from, count, to, at);
  write_numbers<BFloat16>(from, count, to, at);
}
inline void write_numbers(const double* from, int64_t count, void* to, DType, int64_t at) {
  write_numbers<double>(from, count, to, at);
}

}  // namespace
}  // namespace visops
