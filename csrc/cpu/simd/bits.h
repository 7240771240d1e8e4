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
