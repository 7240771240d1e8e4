// Counts of bits in arrays of words.
//
// NOTE [ Counting bits ]
// Muła, Kurz and Lemire, "Faster Population Counts Using AVX2 Instructions" (The Computer Journal,
// 2018): carry-save adders add sixteen vectors bit by bit before one of them is counted, by a table
// of the counts of four bits. NEON counts the bits of bytes in one instruction, as fast as an adder
// would add them.
#pragma once

#include <cstdint>

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#endif

#include "core/platform.h"
#include "cpu/simd/arm.h"

namespace visops {
namespace {

VISOPS_ALWAYS_INLINE int64_t count_bits(uint64_t word) {
#if defined(__GNUC__) && (VISOPS_ISA_SLOT >= 1 || VISOPS_NEON)
  return __builtin_popcountll(word);
#else
  word -= word >> 1 & 0x5555555555555555;
  word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<int64_t>((word * 0x0101010101010101) >> 56);
#endif
}

#if VISOPS_NEON
// The bits that are set in both of two arrays.
inline int64_t count_common(const uint64_t* a, const uint64_t* b, int64_t words) {
  constexpr int kVectors = 8, kWords = 2 * kVectors;  // the count of a byte stays below 65
  uint64x2_t total = vdupq_n_u64(0);
  int64_t at = 0;
  for (; at + kWords <= words; at += kWords) {
    uint8x16_t counts = vdupq_n_u8(0);
    VISOPS_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const uint64x2_t common = vandq_u64(vld1q_u64(a + at + 2 * i), vld1q_u64(b + at + 2 * i));
      counts = vaddq_u8(counts, vcntq_u8(vreinterpretq_u8_u64(common)));
    }
    total = vpadalq_u32(total, vpaddlq_u16(vpaddlq_u8(counts)));
  }
  int64_t count = static_cast<int64_t>(vaddvq_u64(total));
  for (; at < words; ++at) count += count_bits(a[at] & b[at]);
  return count;
}
#else
#if VISOPS_ISA_SLOT == 2
struct BitVector {
  static constexpr int64_t kWords = 8;
  __m512i v;
  static VISOPS_ALWAYS_INLINE BitVector zero() { return {_mm512_setzero_si512()}; }
  static VISOPS_ALWAYS_INLINE BitVector common(const uint64_t* a, const uint64_t* b) {
    return {_mm512_and_si512(_mm512_loadu_si512(a), _mm512_loadu_si512(b))};
  }
};
// a + b + c, bit by bit; the carry goes to `high`.
VISOPS_ALWAYS_INLINE BitVector add_bits(BitVector a, BitVector b, BitVector c, BitVector* high) {
  high->v = _mm512_ternarylogic_epi64(a.v, b.v, c.v, 0xe8);
  return {_mm512_ternarylogic_epi64(a.v, b.v, c.v, 0x96)};
}
// Set bits in each word.
VISOPS_ALWAYS_INLINE __m512i word_counts(BitVector bits) {
  const __m512i table =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const __m512i four = _mm512_set1_epi8(15);
  const __m512i low = _mm512_shuffle_epi8(table, _mm512_and_si512(bits.v, four));
  const __m512i high =
      _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bits.v, 4), four));
  return _mm512_sad_epu8(_mm512_add_epi8(low, high), _mm512_setzero_si512());
}
struct BitTotal {
  __m512i v = _mm512_setzero_si512();
  VISOPS_ALWAYS_INLINE void add(BitVector bits, int shift) {
    v = _mm512_add_epi64(v, _mm512_sll_epi64(word_counts(bits), _mm_cvtsi32_si128(shift)));
  }
  VISOPS_ALWAYS_INLINE int64_t sum() const { return _mm512_reduce_add_epi64(v); }
};
#elif VISOPS_ISA_SLOT == 1
struct BitVector {
  static constexpr int64_t kWords = 4;
  __m256i v;
  static VISOPS_ALWAYS_INLINE BitVector zero() { return {_mm256_setzero_si256()}; }
  static VISOPS_ALWAYS_INLINE BitVector common(const uint64_t* a, const uint64_t* b) {
    return {_mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)),
                             _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)))};
  }
};
VISOPS_ALWAYS_INLINE BitVector add_bits(BitVector a, BitVector b, BitVector c, BitVector* high) {
  const __m256i differ = _mm256_xor_si256(a.v, b.v);
  high->v = _mm256_or_si256(_mm256_and_si256(a.v, b.v), _mm256_and_si256(differ, c.v));
  return {_mm256_xor_si256(differ, c.v)};
}
VISOPS_ALWAYS_INLINE __m256i word_counts(BitVector bits) {
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const __m256i four = _mm256_set1_epi8(15);
  const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(bits.v, four));
  const __m256i high =
      _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bits.v, 4), four));
  return _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256());
}
struct BitTotal {
  __m256i v = _mm256_setzero_si256();
  VISOPS_ALWAYS_INLINE void add(BitVector bits, int shift) {
    v = _mm256_add_epi64(v, _mm256_sll_epi64(word_counts(bits), _mm_cvtsi32_si128(shift)));
  }
  VISOPS_ALWAYS_INLINE int64_t sum() const {
    alignas(32) int64_t words[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), v);
    return words[0] + words[1] + words[2] + words[3];
  }
};
#else
struct BitVector {
  static constexpr int64_t kWords = 1;
  uint64_t v;
  static VISOPS_ALWAYS_INLINE BitVector zero() { return {0}; }
  static VISOPS_ALWAYS_INLINE BitVector common(const uint64_t* a, const uint64_t* b) {
    return {*a & *b};
  }
};
VISOPS_ALWAYS_INLINE BitVector add_bits(BitVector a, BitVector b, BitVector c, BitVector* high) {
  const uint64_t differ = a.v ^ b.v;
  high->v = (a.v & b.v) | (differ & c.v);
  return {differ ^ c.v};
}
struct BitTotal {
  int64_t v = 0;
  VISOPS_ALWAYS_INLINE void add(BitVector bits, int shift) { v += count_bits(bits.v) << shift; }
  VISOPS_ALWAYS_INLINE int64_t sum() const { return v; }
};
#endif

// Sums of bits, place by place: ones[0] + 2 * ones[1] + 4 * ones[2] + 8 * ones[3]. add<n>() adds
// the common bits of 2^n vectors to the first n of them, and returns what they carry, in units of
// 2^n.
struct CarrySums {
  BitVector ones[4] = {BitVector::zero(), BitVector::zero(), BitVector::zero(), BitVector::zero()};

  template <int n>
  VISOPS_ALWAYS_INLINE BitVector add(const uint64_t* a, const uint64_t* b) {
    if constexpr (n == 0) {
      return BitVector::common(a, b);
    } else {
      constexpr int64_t kHalf = BitVector::kWords << (n - 1);
      const BitVector first = add<n - 1>(a, b);
      const BitVector second = add<n - 1>(a + kHalf, b + kHalf);
      BitVector carry;
      ones[n - 1] = add_bits(ones[n - 1], first, second, &carry);
      return carry;
    }
  }
};

// The bits that are set in both of two arrays.
inline int64_t count_common(const uint64_t* a, const uint64_t* b, int64_t words) {
  constexpr int64_t kStep = 16 * BitVector::kWords;
  int64_t count = 0, at = 0;
  if (words >= kStep) {
    CarrySums sums;
    BitTotal total;
    for (; at + kStep <= words; at += kStep) total.add(sums.add<4>(a + at, b + at), 4);
    for (int n = 0; n < 4; ++n) total.add(sums.ones[n], n);
    count = total.sum();
  }
  for (; at < words; ++at) count += count_bits(a[at] & b[at]);
  return count;
}
#endif

}  // namespace
}  // namespace visops
