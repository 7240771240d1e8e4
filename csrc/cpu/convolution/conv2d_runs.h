// Copies short runs between stored elements and summed values.
#pragma once

#include <cstring>

#include "core/convolution/conv2d_element.h"
#include "cpu/simd/vector.h"

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#endif

namespace visops {
namespace {

// Adjacent elements of one type. Runs are short: a call of memcpy would take longer.
template <class T>
VISOPS_ALWAYS_INLINE void copy_adjacent(T* to, const T* from, int64_t count) {
  int64_t i = 0;
  for (; i + Vector<T>::kCount <= count; i += Vector<T>::kCount) {
    store_vector(to + i, load_vector(from + i));
  }
#if VISOPS_ISA_SLOT == 2
  const int64_t rest = count - i;
  if (rest == 0) return;
  if constexpr (sizeof(T) == 8) {
    const __mmask8 mask = static_cast<__mmask8>((1u << rest) - 1);
    _mm512_mask_storeu_epi64(to + i, mask, _mm512_maskz_loadu_epi64(mask, from + i));
  } else if constexpr (sizeof(T) == 4) {
    const __mmask16 mask = static_cast<__mmask16>((1u << rest) - 1);
    _mm512_mask_storeu_epi32(to + i, mask, _mm512_maskz_loadu_epi32(mask, from + i));
  } else {
    const __mmask32 mask = static_cast<__mmask32>((uint64_t{1} << rest) - 1);
    _mm512_mask_storeu_epi16(to + i, mask, _mm512_maskz_loadu_epi16(mask, from + i));
  }
#else
  for (; i < count; ++i) to[i] = from[i];
#endif
}

// Loads one part of elements that are `stride` apart.
template <class Element>
VISOPS_ALWAYS_INLINE void load_run(typename Element::Value* VISOPS_RESTRICT to,
                                   const typename Element::Stored* VISOPS_RESTRICT from,
                                   int64_t stride, int64_t count) {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  stride *= Element::kParts;
  if constexpr (sizeof(Stored) == sizeof(Value)) {
    if (stride == 1) return copy_adjacent(to, reinterpret_cast<const Value*>(from), count);
  }
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = conv_value(from[i]);
  } else if (stride == 2) {  // said to the compiler, which has vectors for it
    for (int64_t i = 0; i < count; ++i) to[i] = conv_value(from[2 * i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = conv_value(from[stride * i]);
  }
}

template <class Element>
void store_run(typename Element::Stored* to, int64_t stride, const typename Element::Value* from,
               int64_t count) {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  stride *= Element::kParts;
  if constexpr (sizeof(Stored) == sizeof(Value)) {
    if (stride == 1) return copy_adjacent(reinterpret_cast<Value*>(to), from, count);
  }
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) conv_store(to + i, from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) conv_store(to + stride * i, from[i]);
  }
}

// Writes whole vectors, the last of which may overrun: what follows must be written later.
template <class T>
VISOPS_ALWAYS_INLINE void zero_vectors(T* to, int64_t count) {
  for (int64_t i = 0; i < count; i += Vector<T>::kCount) store_vector(to + i, broadcast(T{}));
}

}  // namespace
}  // namespace visops
