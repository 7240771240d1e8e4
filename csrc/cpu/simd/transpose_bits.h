// Squares of 64 by 64 bits, turned.
//
// NOTE [ Turned bits ]
// turn_block() transposes: bit i of from[k * stride] becomes bit k of to[i]. With AVX2 the bytes of
// 32 words are sorted first, those of one place together; then one instruction takes the highest
// bit of each, and a sum moves the next ones up. Otherwise halves are swapped, of ever larger
// squares; NEON swaps those of two words at a time, from 8 bits on in two instructions.
#pragma once

#include <cstdint>
#include <cstring>

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#endif

#include "core/platform.h"
#include "cpu/simd/arm.h"

namespace visops {
namespace {

#if VISOPS_ISA_SLOT >= 1
VISOPS_ALWAYS_INLINE __m128i two_words(const uint64_t* first, const uint64_t* second) {
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first));
  const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(second));
  return _mm_unpacklo_epi64(low, high);
}

// Bytes i of 32 words become bytes[i].
VISOPS_ALWAYS_INLINE void sort_bytes(const uint64_t* from, int64_t stride, __m256i (&bytes)[8]) {
  __m256i rows[8], pairs[8], fours[8], eights[8];
  for (int i = 0; i < 8; ++i) {  // words i, i + 8, i + 16 and i + 24
    const uint64_t* word = from + i * stride;
    const __m128i low = two_words(word, word + 8 * stride);
    const __m128i high = two_words(word + 16 * stride, word + 24 * stride);
    rows[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  }
  // From here on, the first four are of words 0 to 7 and 16 to 23, the others of 8 to 15 and 24
  // to 31.
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm256_unpacklo_epi8(rows[2 * i], rows[2 * i + 1]);
    pairs[4 + i] = _mm256_unpackhi_epi8(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 8; i += 2) {  // bytes 0 to 3, then 4 to 7
    fours[i] = _mm256_unpacklo_epi16(pairs[i], pairs[i + 1]);
    fours[i + 1] = _mm256_unpackhi_epi16(pairs[i], pairs[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    eights[i] = _mm256_unpacklo_epi32(fours[i], fours[i + 2]);
    eights[i + 1] = _mm256_unpackhi_epi32(fours[i], fours[i + 2]);
    eights[i + 2] = _mm256_unpacklo_epi32(fours[i + 1], fours[i + 3]);
    eights[i + 3] = _mm256_unpackhi_epi32(fours[i + 1], fours[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    bytes[2 * i] = _mm256_unpacklo_epi64(eights[i], eights[4 + i]);
    bytes[2 * i + 1] = _mm256_unpackhi_epi64(eights[i], eights[4 + i]);
  }
}

inline void turn_block(const uint64_t* from, int64_t stride, uint64_t* to) {
  for (int half = 0; half < 2; ++half) {
    __m256i bytes[8];
    sort_bytes(from + 32 * half * stride, stride, bytes);
    for (int i = 0; i < 8; ++i) {
      for (int bit = 7; bit >= 0; --bit) {
        const int bits = _mm256_movemask_epi8(bytes[i]);
        memcpy(reinterpret_cast<char*>(to + 8 * i + bit) + 4 * half, &bits, 4);
        bytes[i] = _mm256_add_epi8(bytes[i], bytes[i]);
      }
    }
  }
}
#elif VISOPS_NEON
// Swaps bits i + kShift of `low` with bits i of `high`, in every byte.
template <int kShift>
VISOPS_ALWAYS_INLINE void swap_bits(uint8x16_t& low, uint8x16_t& high) {
  const uint8x16_t mask = vdupq_n_u8(255 / ((1 << kShift) + 1));
  const uint8x16_t up = vshlq_n_u8(high, kShift), down = vshrq_n_u8(low, kShift);
  low = vbslq_u8(mask, low, up);
  high = vbslq_u8(mask, down, high);
}
// Shifts that insert swap halves of bytes; transposing instructions swap larger pieces.
template <>
VISOPS_ALWAYS_INLINE void swap_bits<4>(uint8x16_t& low, uint8x16_t& high) {
  const uint8x16_t given = low;
  low = vsliq_n_u8(low, high, 4);
  high = vsriq_n_u8(high, given, 4);
}
template <>
VISOPS_ALWAYS_INLINE void swap_bits<8>(uint8x16_t& low, uint8x16_t& high) {
  const uint8x16_t given = low;
  low = vtrn1q_u8(low, high);
  high = vtrn2q_u8(given, high);
}
template <>
VISOPS_ALWAYS_INLINE void swap_bits<16>(uint8x16_t& low, uint8x16_t& high) {
  const uint16x8_t a = vreinterpretq_u16_u8(low), b = vreinterpretq_u16_u8(high);
  low = vreinterpretq_u8_u16(vtrn1q_u16(a, b));
  high = vreinterpretq_u8_u16(vtrn2q_u16(a, b));
}
template <>
VISOPS_ALWAYS_INLINE void swap_bits<32>(uint8x16_t& low, uint8x16_t& high) {
  const uint32x4_t a = vreinterpretq_u32_u8(low), b = vreinterpretq_u32_u8(high);
  low = vreinterpretq_u8_u32(vtrn1q_u32(a, b));
  high = vreinterpretq_u8_u32(vtrn2q_u32(a, b));
}

// Swaps the pieces of vectors that are kStep apart, in eight of them.
template <int kShift, int kStep>
VISOPS_ALWAYS_INLINE void swap_eight(uint8x16_t (&v)[8]) {
  VISOPS_UNROLL
  for (int i = 0; i < 8; ++i) {
    if ((i & kStep) == 0) swap_bits<kShift>(v[i], v[i + kStep]);
  }
}

inline void turn_block(const uint64_t* from, int64_t stride, uint64_t* to) {
  uint8x16_t v[8];
  for (int first = 0; first < 64; first += 16) {  // words i and i + 8 of sixteen
    const uint64_t* word = from + first * stride;
    VISOPS_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint64x1_t low = vld1_u64(word + i * stride), high = vld1_u64(word + (i + 8) * stride);
      v[i] = vreinterpretq_u8_u64(vcombine_u64(low, high));
    }
    swap_eight<4, 4>(v), swap_eight<2, 2>(v), swap_eight<1, 1>(v);
    VISOPS_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint64x2_t words = vreinterpretq_u64_u8(v[i]);
      vst1_u64(to + first + i, vget_low_u64(words));
      vst1_u64(to + first + i + 8, vget_high_u64(words));
    }
  }
  for (int first = 0; first < 8; first += 2) {  // words first and first + 1 of each eight
    VISOPS_UNROLL
    for (int i = 0; i < 8; ++i) v[i] = vreinterpretq_u8_u64(vld1q_u64(to + first + 8 * i));
    swap_eight<8, 1>(v), swap_eight<16, 2>(v), swap_eight<32, 4>(v);
    VISOPS_UNROLL
    for (int i = 0; i < 8; ++i) vst1q_u64(to + first + 8 * i, vreinterpretq_u64_u8(v[i]));
  }
}
#else
// Swaps bits i + kShift of one word with bits i of another.
template <int kShift>
VISOPS_ALWAYS_INLINE void swap_bits(uint64_t& low, uint64_t& high) {
  constexpr uint64_t kLow = ~uint64_t{0} / ((uint64_t{1} << kShift) + 1);
  const uint64_t swapped = ((low >> kShift) ^ high) & kLow;
  low ^= swapped << kShift;
  high ^= swapped;
}

// Transposes each 8 x 8 bits of eight words, in registers: vectors would have to be shuffled.
VISOPS_ALWAYS_INLINE void turn_eight(const uint64_t* from, int64_t stride, uint64_t* to) {
  uint64_t a = from[0], b = from[stride], c = from[2 * stride], d = from[3 * stride];
  uint64_t e = from[4 * stride], f = from[5 * stride], g = from[6 * stride], h = from[7 * stride];
  swap_bits<4>(a, e), swap_bits<4>(b, f), swap_bits<4>(c, g), swap_bits<4>(d, h);
  swap_bits<2>(a, c), swap_bits<2>(b, d), swap_bits<2>(e, g), swap_bits<2>(f, h);
  swap_bits<1>(a, b), swap_bits<1>(c, d), swap_bits<1>(e, f), swap_bits<1>(g, h);
  to[0] = a, to[1] = b, to[2] = c, to[3] = d, to[4] = e, to[5] = f, to[6] = g, to[7] = h;
}

// The same of larger squares, whose words are a vector apart.
template <int kStep>
VISOPS_ALWAYS_INLINE void turn_step(uint64_t* words) {
  for (int first = 0; first < 64; first += 2 * kStep) {
    for (int k = first; k < first + kStep; ++k) swap_bits<kStep>(words[k], words[k + kStep]);
  }
}

inline void turn_block(const uint64_t* from, int64_t stride, uint64_t* to) {
  for (int first = 0; first < 64; first += 8) turn_eight(from + first * stride, stride, to + first);
  turn_step<8>(to);
  turn_step<16>(to);
  turn_step<32>(to);
}
#endif

}  // namespace
}  // namespace visops
