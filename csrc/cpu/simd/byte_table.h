// Tables of 256 bytes, looked up a vector at a time.
//
// NOTE [ Tables of bytes ]
// No instruction looks up 256 entries. With AVX-512, four shuffles of words find the pair that an
// index's upper seven bits name, and a shift takes its byte. With AVX2, each shuffle has the 16
// entries that share an index's upper four bits. It gives 0 where an index's highest bit is set,
// and ignores the three bits below that. So 16 is subtracted from step to step, and step h adds, by
// exclusive or, the difference of its entries and the last step's. NEON looks up 64 entries at a
// time, and leaves a byte as it is where the index is larger.
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

#if VISOPS_ISA_SLOT == 2
class ByteTable {
 public:
  static constexpr int kBytes = 64;

  explicit ByteTable(const uint8_t* table) {
    for (int k = 0; k < 4; ++k) pairs_[k] = _mm512_loadu_si512(table + 64 * k);
  }

  VISOPS_ALWAYS_INLINE void look_up(uint8_t* data) const {
    const __m512i index = _mm512_loadu_si512(data), byte = _mm512_set1_epi16(255);
    const __m512i even = entries(_mm512_and_si512(index, byte));
    const __m512i odd = entries(_mm512_srli_epi16(index, 8));
    const __m512i found = _mm512_or_si512(_mm512_and_si512(even, byte), _mm512_slli_epi16(odd, 8));
    _mm512_storeu_si512(data, found);
  }

 private:
  // The lower bytes of words, from indices in words.
  VISOPS_ALWAYS_INLINE __m512i entries(__m512i index) const {
    const __m512i pair = _mm512_srli_epi16(index, 1);
    const __m512i low = _mm512_permutex2var_epi16(pairs_[0], pair, pairs_[1]);
    const __m512i high = _mm512_permutex2var_epi16(pairs_[2], pair, pairs_[3]);
    const __mmask32 is_high = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
    const __m512i second = _mm512_and_si512(index, _mm512_set1_epi16(1));
    return _mm512_srlv_epi16(_mm512_mask_blend_epi16(is_high, low, high),
                             _mm512_slli_epi16(second, 3));
  }

  __m512i pairs_[4];
};
#elif VISOPS_ISA_SLOT == 1
class ByteTable {
 public:
  static constexpr int kBytes = 128;

  explicit ByteTable(const uint8_t* table) {
    __m128i last = _mm_setzero_si128();
    for (int h = 0; h < 16; ++h) {
      const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table) + h);
      steps_[h] = _mm256_broadcastsi128_si256(h % 8 == 0 ? entries : _mm_xor_si128(entries, last));
      last = entries;
    }
  }

  VISOPS_ALWAYS_INLINE void look_up(uint8_t* data) const {
    auto* const vectors = reinterpret_cast<__m256i*>(data);
    __m256i low[kVectors], high[kVectors], found[kVectors];
    for (int k = 0; k < kVectors; ++k) {
      low[k] = _mm256_loadu_si256(vectors + k);
      high[k] = _mm256_xor_si256(low[k], _mm256_set1_epi8(-128));
      found[k] = _mm256_setzero_si256();
    }
    for (int h = 0; h < 8; ++h) {
      for (int k = 0; k < kVectors; ++k) {
        found[k] = _mm256_xor_si256(found[k], _mm256_shuffle_epi8(steps_[h], low[k]));
        found[k] = _mm256_xor_si256(found[k], _mm256_shuffle_epi8(steps_[8 + h], high[k]));
        low[k] = _mm256_subs_epi8(low[k], _mm256_set1_epi8(16));
        high[k] = _mm256_subs_epi8(high[k], _mm256_set1_epi8(16));
      }
    }
    for (int k = 0; k < kVectors; ++k) _mm256_storeu_si256(vectors + k, found[k]);
  }

 private:
  static constexpr int kVectors = kBytes / 32;
  __m256i steps_[16];
};
#elif VISOPS_NEON
class ByteTable {
 public:
  static constexpr int kBytes = 16;

  explicit ByteTable(const uint8_t* table) {
    for (int k = 0; k < 4; ++k) {
      for (int i = 0; i < 4; ++i) parts_[k].val[i] = vld1q_u8(table + 64 * k + 16 * i);
    }
  }

  VISOPS_ALWAYS_INLINE void look_up(uint8_t* data) const {
    uint8x16_t index = vld1q_u8(data), found = vqtbl4q_u8(parts_[0], index);
    for (int k = 1; k < 4; ++k) {
      index = vsubq_u8(index, vdupq_n_u8(64));
      found = vqtbx4q_u8(found, parts_[k], index);
    }
    vst1q_u8(data, found);
  }

 private:
  uint8x16x4_t parts_[4];
};
#else
class ByteTable {
 public:
  static constexpr int kBytes = 1;
  explicit ByteTable(const uint8_t* table) : table_(table) {}
  VISOPS_ALWAYS_INLINE void look_up(uint8_t* data) const { *data = table_[*data]; }

 private:
  const uint8_t* table_;
};
#endif

// Replaces bytes by their entries in a table of 256.
inline void look_up(const uint8_t* table, uint8_t* data, int64_t count) {
  const ByteTable vectors(table);
  int64_t i = 0;
  for (; i + ByteTable::kBytes <= count; i += ByteTable::kBytes) vectors.look_up(data + i);
  for (; i < count; ++i) data[i] = table[data[i]];
}

}  // namespace
}  // namespace visops
