// A bit for each of 64 bytes.
#pragma once

#include <cstdint>
#include <cstring>

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#endif

#include "core/platform.h"

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

// The same of the first `count` bytes, for 0 < count <= 64; reads no more than those.
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
