// A bit for each of 64 bytes.
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

constexpr int64_t kWordBits = 64;

// Bit i tells whether byte i is not 0.
#if VISOPS_ISA_SLOT == 2
VISOPS_ALWAYS_INLINE uint64_t nonzero_bits(const uint8_t* bytes) {
  const __m512i v = _mm512_loadu_si512(bytes);
  return _mm512_test_epi8_mask(v, v);
}
#elif VISOPS_ISA_SLOT == 1
VISOPS_ALWAYS_INLINE uint64_t nonzero_bits(const uint8_t* bytes) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32));
  const __m256i zero = _mm256_setzero_si256();
  const auto low_zeros = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, zero)));
  const auto high_zeros =
      static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, zero)));
  return ~(static_cast<uint64_t>(high_zeros) << 32 | low_zeros);
}
#elif VISOPS_NEON
VISOPS_ALWAYS_INLINE uint64_t nonzero_bits(const uint8_t* bytes) {
  static constexpr uint8_t kBits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x16_t position = vld1q_u8(kBits);
  uint8x16_t bits[4];
  for (int i = 0; i < 4; ++i) {
    const uint8x16_t v = vld1q_u8(bytes + 16 * i);
    bits[i] = vandq_u8(vtstq_u8(v, v), position);
  }
  // Sums of neighbours: after three of them, each byte has the bits of eight.
  const uint8x16_t fours = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(fours, fours)), 0);
}
#else
VISOPS_ALWAYS_INLINE uint64_t nonzero_bits(const uint8_t* bytes) {
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  uint64_t bits = 0;
  for (int i = 0; i < 64; i += 8) {
    uint64_t eight = 0;
    for (int k = 0; k < 8; ++k) eight |= static_cast<uint64_t>(bytes[i + k]) << (8 * k);
    const uint64_t inside = (((eight & kLow) + kLow) | eight) >> 7 & 0x0101010101010101;
    bits |= (inside * 0x0102040810204080) >> 56 << i;  // byte k's bit moves to 56 + k
  }
  return bits;
}
#endif

// Whether any of kChunkBytes bytes is not 0: most words of most masks are found empty in fours.
constexpr int64_t kChunkWords = 4, kChunkBytes = kChunkWords * kWordBits;
VISOPS_ALWAYS_INLINE bool any_nonzero(const uint8_t* bytes) {
#if VISOPS_ISA_SLOT == 2
  const __m512i a = _mm512_loadu_si512(bytes), b = _mm512_loadu_si512(bytes + 64);
  const __m512i c = _mm512_loadu_si512(bytes + 128), d = _mm512_loadu_si512(bytes + 192);
  const __m512i all = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
  return _mm512_test_epi64_mask(all, all) != 0;
#elif VISOPS_ISA_SLOT == 1
  __m256i all = _mm256_setzero_si256();
  for (int i = 0; i < kChunkBytes; i += 32) {
    all = _mm256_or_si256(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + i)));
  }
  return _mm256_testz_si256(all, all) == 0;
#elif VISOPS_NEON
  uint8x16_t all = vld1q_u8(bytes);
  for (int i = 16; i < kChunkBytes; i += 16) all = vorrq_u8(all, vld1q_u8(bytes + i));
  return vmaxvq_u32(vreinterpretq_u32_u8(all)) != 0;
#else
  uint64_t all = 0;
  for (int i = 0; i < kChunkBytes; i += 8) {
    uint64_t eight;
    memcpy(&eight, bytes + i, sizeof(eight));
    all |= eight;
  }
  return all != 0;
#endif
}

// Starts to load as many. Hardware that reads ahead stops at each page of 4 KiB.
VISOPS_ALWAYS_INLINE void prefetch_chunk([[maybe_unused]] const uint8_t* bytes) {
#if defined(__GNUC__)
  for (int i = 0; i < kChunkBytes; i += 64) __builtin_prefetch(bytes + i);
#endif
}

// nonzero_bits() of the first `count` bytes, 0 < count <= 64; reads no more than those.
VISOPS_ALWAYS_INLINE uint64_t nonzero_bits(const uint8_t* bytes, int64_t count) {
  if (count >= kWordBits) return nonzero_bits(bytes);
  uint8_t padded[kWordBits] = {};
  memcpy(padded, bytes, static_cast<size_t>(count));
  return nonzero_bits(padded);
}

// The position of the lowest bit of a word that is not 0.
VISOPS_ALWAYS_INLINE int lowest_bit(uint64_t word) {
#if defined(__GNUC__)
  return __builtin_ctzll(word);
#else
  int position = 0;
  for (; (word & 1) == 0; word >>= 1) ++position;
  return position;
#endif
}

}  // namespace
}  // namespace visops

// Counts of bits in arrays of words.
//
// NOTE [ Counting bits ]
// Muła, Kurz and Lemire, "Faster Population Counts Using AVX2 Instructions" (The Computer Journal,
// 2018): carry-save adders add sixteen vectors bit by bit before one of them is counted, by a table
// of the counts of four bits. NEON counts the bits of bytes in one instruction, as fast as an adder
// would add them.

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
