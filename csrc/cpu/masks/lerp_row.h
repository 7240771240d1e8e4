// Pairs of neighbours in a row of numbers, blended: v[i] + weight (v[i + 1] - v[i]).
//
// NOTE [ Lookup ]
// Pasting mostly enlarges, so the columns of a vector lie close together: if they are near, one
// load finds the first numbers of all pairs, and another one the second. A row of 32 numbers even
// fits two AVX-512 registers, where one instruction finds the numbers of 16 pixels. Otherwise
// numbers are loaded pair by pair.
#pragma once

#include "cpu/simd/window.h"

namespace visops {
namespace {

// All `count` pixels, and up to 15 more.
#if VISOPS_ISA_SLOT == 2
inline void look_up(const int32_t* offset, const float* weight, const float* v, int64_t count,
                    float* samples) {
  const __m512 low = _mm512_loadu_ps(v), high = _mm512_loadu_ps(v + 16);
  const __m512 next_low = _mm512_loadu_ps(v + 1), next_high = _mm512_loadu_ps(v + 17);
  for (int64_t i = 0; i < count; i += Floats::kWidth) {
    const __m512i index = _mm512_loadu_si512(offset + i);
    const Floats first(_mm512_permutex2var_ps(low, index, high));
    const Floats second(_mm512_permutex2var_ps(next_low, index, next_high));
    (first + Floats::load(weight + i) * (second - first)).store(samples + i);
  }
}
#endif

// Lanes `position` of the floats from `v` on; places begin at `begin` and are near.
#if VISOPS_ISA_SLOT == 2
VISOPS_ALWAYS_INLINE Floats pick(const float* v, const int32_t* position, int32_t begin) {
  const __m512i lane = _mm512_sub_epi32(_mm512_loadu_si512(position), _mm512_set1_epi32(begin));
  return Floats(_mm512_permutexvar_ps(lane, _mm512_loadu_ps(v)));
}
#elif VISOPS_ISA_SLOT == 1
VISOPS_ALWAYS_INLINE Floats pick(const float* v, const int32_t* position, int32_t begin) {
  const __m256i positions = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(position));
  const __m256i lane = _mm256_sub_epi32(positions, _mm256_set1_epi32(begin));
  return Floats(_mm256_permutevar8x32_ps(_mm256_loadu_ps(v), lane));
}
#elif VISOPS_NEON
VISOPS_ALWAYS_INLINE Floats pick(const float* v, const int32_t* position, int32_t begin) {
  const int32x4_t lane = vsubq_s32(vld1q_s32(position), vdupq_n_s32(begin));
  const uint8x16_t bytes = float_positions(vreinterpretq_u32_s32(lane));
  const uint8x16_t from = vreinterpretq_u8_f32(vld1q_f32(v));
  return Floats(vreinterpretq_f32_u8(vqtbl1q_u8(from, bytes)));
}
#else
VISOPS_ALWAYS_INLINE Floats pick(const float* v, const int32_t* position, int32_t begin) {
  float picked[Floats::kWidth];
  for (int i = 0; i < Floats::kWidth; ++i) picked[i] = v[position[i] - begin];
  return Floats::load(picked);
}
#endif

// Whether each vector of rising offsets lies within a vector's width.
inline bool are_near(const int32_t* offset, int64_t count) {
  constexpr int64_t kLast = Floats::kWidth - 1;
  bool near = true;
  for (int64_t i = 0; i < count; i += Floats::kWidth) {
    const int64_t last = i + kLast < count ? i + kLast : count - 1;
    near &= offset[last] - offset[i] <= kLast;
  }
  return near;
}

inline void blend_near(const int32_t* offset, const float* weight, const float* v, int64_t count,
                       float* samples) {
  for (int64_t i = 0; i < count; i += Floats::kWidth) {
    const int32_t begin = offset[i];
    const Floats first = pick(v + begin, offset + i, begin);
    const Floats second = pick(v + begin + 1, offset + i, begin);
    (first + Floats::load(weight + i) * (second - first)).store(samples + i);
  }
}

// offset[i] < positions - 1, rising; `near` is what are_near() says of them. Arrays have 64
// elements more than are in use; offsets there repeat the last one.
inline void blend_columns(const int32_t* VISOPS_RESTRICT offset,
                          const float* VISOPS_RESTRICT weight, const float* VISOPS_RESTRICT v,
                          [[maybe_unused]] int64_t positions, bool near, int64_t count,
                          float* VISOPS_RESTRICT samples) {
#if VISOPS_ISA_SLOT == 2
  if (positions <= 32) return look_up(offset, weight, v, count, samples);
#endif
  if (near) return blend_near(offset, weight, v, count, samples);
  for (int64_t i = 0; i < count; i += Floats::kWidth) {
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
                          bool, int64_t count, double* samples) {
  for (int64_t i = 0; i < count; ++i) {
    const double first = v[offset[i]];
    samples[i] = first + weight[i] * (v[offset[i] + 1] - first);
  }
}

}  // namespace
}  // namespace visops
