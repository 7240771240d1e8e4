// Two vectors of adjacent floats, of which any can be picked; from AVX2 on, and with NEON.
//
//   FloatWindow   2 x kWidth adjacent floats; at(index) picks kWidth of them
//   WindowIndex   kWidth places in a window
#pragma once

#include <cstdint>

#include "cpu/simd/floats.h"

#if VISOPS_ISA_SLOT > 0 || VISOPS_NEON
namespace visops {
namespace {

#if VISOPS_ISA_SLOT == 2

struct WindowIndex {
  __m512i v;
};
struct FloatWindow {
  Floats low, high;
  VISOPS_ALWAYS_INLINE Floats at(const WindowIndex& i) const {
    return Floats(_mm512_permutex2var_ps(low.v, i.v, high.v));
  }
};
// kWidth offsets in bytes, as elements from `first`.
template <int Size>
VISOPS_ALWAYS_INLINE WindowIndex window_index(const int32_t* offset, int32_t first) {
  const __m512i bytes = _mm512_sub_epi32(_mm512_loadu_si512(offset), _mm512_set1_epi32(first));
  return {_mm512_srai_epi32(bytes, Size / 2)};  // log2 of 1, 2 and 4
}
VISOPS_ALWAYS_INLINE WindowIndex operator+(const WindowIndex& i, int step) {
  return {_mm512_add_epi32(i.v, _mm512_set1_epi32(step))};
}
// Whether all are in [0, count).
VISOPS_ALWAYS_INLINE bool all_below(const WindowIndex& i, int count) {
  return _mm512_cmpge_epu32_mask(i.v, _mm512_set1_epi32(count)) == 0;
}

#elif VISOPS_ISA_SLOT == 1

struct WindowIndex {
  __m256i v;
};
struct FloatWindow {
  Floats low, high;
  VISOPS_ALWAYS_INLINE Floats at(const WindowIndex& i) const {
    const __m256 a = _mm256_permutevar8x32_ps(low.v, i.v),
                 b = _mm256_permutevar8x32_ps(high.v, i.v);
    return Floats(_mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(i.v, 28))));
  }
};
// kWidth offsets in bytes, as elements from `first`.
template <int Size>
VISOPS_ALWAYS_INLINE WindowIndex window_index(const int32_t* offset, int32_t first) {
  const __m256i bytes = _mm256_sub_epi32(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offset)), _mm256_set1_epi32(first));
  return {_mm256_srai_epi32(bytes, Size / 2)};  // log2 of 1, 2 and 4
}
VISOPS_ALWAYS_INLINE WindowIndex operator+(const WindowIndex& i, int step) {
  return {_mm256_add_epi32(i.v, _mm256_set1_epi32(step))};
}
// Whether all are in [0, count).
VISOPS_ALWAYS_INLINE bool all_below(const WindowIndex& i, int count) {
  const __m256i above = _mm256_cmpgt_epi32(i.v, _mm256_set1_epi32(count - 1));
  return _mm256_movemask_epi8(_mm256_or_si256(above, _mm256_srai_epi32(i.v, 31))) == 0;
}

#else

// Places of the bytes of elements `i`, which are below 64.
VISOPS_ALWAYS_INLINE uint8x16_t float_positions(uint32x4_t i) {
  return vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100), i, 0x04040404));
}

struct WindowIndex {
  uint32x4_t v;
};
struct FloatWindow {
  Floats low, high;
  VISOPS_ALWAYS_INLINE Floats at(const WindowIndex& i) const {
    const uint8x16x2_t both = {{vreinterpretq_u8_f32(low.v), vreinterpretq_u8_f32(high.v)}};
    return Floats(vreinterpretq_f32_u8(vqtbl2q_u8(both, float_positions(i.v))));
  }
};
// kWidth offsets in bytes, as elements from `first`.
template <int Size>
VISOPS_ALWAYS_INLINE WindowIndex window_index(const int32_t* offset, int32_t first) {
  const int32x4_t bytes = vsubq_s32(vld1q_s32(offset), vdupq_n_s32(first));
  constexpr int kShift = Size / 2;  // log2 of 1, 2 and 4
  return {vreinterpretq_u32_s32(kShift == 0 ? bytes : vshrq_n_s32(bytes, kShift > 0 ? kShift : 1))};
}
VISOPS_ALWAYS_INLINE WindowIndex operator+(const WindowIndex& i, int step) {
  return {vaddq_u32(i.v, vdupq_n_u32(static_cast<uint32_t>(step)))};
}
// Whether all are in [0, count).
VISOPS_ALWAYS_INLINE bool all_below(const WindowIndex& i, int count) {
  return vmaxvq_u32(i.v) < static_cast<uint32_t>(count);
}

#endif

}  // namespace
}  // namespace visops
#endif
