// Pairs of neighbours in a row of numbers, blended: v[i] + weight (v[i + 1] - v[i]).
//
// NOTE [ Lookup ]
// Most masks are so small that a row of 32 numbers fits two AVX-512 registers, where one
// instruction finds the numbers of 16 pixels. Otherwise they are loaded pair by pair.
#pragma once

#include "cpu/simd/floats.h"

namespace visops {
namespace {

constexpr int64_t kLookupSize = 32;

#if VISOPS_ISA_SLOT == 2
// All `count` pixels, and up to 15 more.
inline int64_t look_up(const int32_t* offset, const float* weight, const float* v, int64_t count,
                       float* samples) {
  const __m512 low = _mm512_loadu_ps(v), high = _mm512_loadu_ps(v + 16);
  const __m512 next_low = _mm512_loadu_ps(v + 1), next_high = _mm512_loadu_ps(v + 17);
  for (int64_t i = 0; i < count; i += Floats::kWidth) {
    const __m512i index = _mm512_loadu_si512(offset + i);
    const Floats first(_mm512_permutex2var_ps(low, index, high));
    const Floats second(_mm512_permutex2var_ps(next_low, index, next_high));
    (first + Floats::load(weight + i) * (second - first)).store(samples + i);
  }
  return count;
}
#else
inline int64_t look_up(const int32_t*, const float*, const float*, int64_t, float*) { return 0; }
#endif

// offset[i] < positions - 1. Arrays have 64 elements more than are in use, offsets of 0 among them.
inline void blend_columns(const int32_t* VISOPS_RESTRICT offset,
                          const float* VISOPS_RESTRICT weight, const float* VISOPS_RESTRICT v,
                          int64_t positions, int64_t count, float* VISOPS_RESTRICT samples) {
  int64_t i = positions <= kLookupSize ? look_up(offset, weight, v, count, samples) : 0;
  for (; i < count; i += Floats::kWidth) {
    int32_t bytes[Floats::kWidth];
    for (int j = 0; j < Floats::kWidth; ++j) bytes[j] = offset[i + j] * int32_t{sizeof(float)};
    PixelPairs pairs[1];
    load_pairs({reinterpret_cast<const char*>(v)}, bytes, pairs);
    const FloatPairs p = channel_pairs<float, 1, 0>(pairs[0]);
    const Floats first = first_of_pairs(p);
    (first + Floats::load(weight + i) * (second_of_pairs(p) - first)).store(samples + i);
  }
}

inline void blend_columns(const int32_t* offset, const double* weight, const double* v, int64_t,
                          int64_t count, double* samples) {
  for (int64_t i = 0; i < count; ++i) {
    const double first = v[offset[i]];
    samples[i] = first + weight[i] * (v[offset[i] + 1] - first);
  }
}

}  // namespace
}  // namespace visops
