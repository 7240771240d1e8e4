// Vectors of eight floats: AVX2, FMA3 machines (F16C among them). No fused multiply-add is used:
// results are the same on every instruction set.
#pragma once

#include <immintrin.h>

#include "cpu/simd/quad.h"

namespace visops {
namespace {

struct Floats {
  static constexpr int kWidth = 8;
  __m256 v;
  Floats() = default;
  VISOPS_ALWAYS_INLINE explicit Floats(float x) : v(_mm256_set1_ps(x)) {}
  VISOPS_ALWAYS_INLINE explicit Floats(__m256 x) : v(x) {}
  static VISOPS_ALWAYS_INLINE Floats load(const float* p) { return Floats(_mm256_loadu_ps(p)); }
  VISOPS_ALWAYS_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
};

VISOPS_ALWAYS_INLINE Floats operator+(Floats a, Floats b) {
  return Floats(_mm256_add_ps(a.v, b.v));
}
VISOPS_ALWAYS_INLINE Floats operator-(Floats a, Floats b) {
  return Floats(_mm256_sub_ps(a.v, b.v));
}
VISOPS_ALWAYS_INLINE Floats operator*(Floats a, Floats b) {
  return Floats(_mm256_mul_ps(a.v, b.v));
}

// a * b, and 0 where a is NaN.
VISOPS_ALWAYS_INLINE Floats multiply_unless_nan(Floats a, Floats b) {
  const __m256 number = _mm256_cmp_ps(a.v, a.v, _CMP_ORD_Q);
  return Floats(_mm256_and_ps(number, _mm256_mul_ps(a.v, b.v)));
}

// kWidth / 4 quads, from base + offset.
VISOPS_ALWAYS_INLINE Floats load_quads(const float* base, const int32_t* offset) {
  const __m256 v = _mm256_castps128_ps256(_mm_loadu_ps(base + offset[0]));
  return Floats(_mm256_insertf128_ps(v, _mm_loadu_ps(base + offset[1]), 1));
}

// Clamps to [0, 1]; NaN stays NaN.
VISOPS_ALWAYS_INLINE Floats clamp_unit(Floats v) {
  const __m256 above = _mm256_max_ps(_mm256_setzero_ps(), v.v);  // the second operand where NaN
  return Floats(_mm256_min_ps(_mm256_set1_ps(1.0f), above));
}

// kWidth adjacent elements.
VISOPS_ALWAYS_INLINE Floats load_floats(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return Floats(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const Truth* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return Floats(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_min_epu8(bytes, _mm_set1_epi8(1)))));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const Half* p) {
  return Floats(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const BFloat16* p) {
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return Floats(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16)));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const float* p) { return Floats::load(p); }

using RawPairs = __m256i;
struct PixelPairs {
  RawPairs low, high;
};

// Loads and inserts beat the gather instruction on every processor tried, and do not depend on
// how its microcode guards gathers. Rows go together, so that each offset is loaded once.
template <int Rows>
VISOPS_ALWAYS_INLINE void load_pairs(const char* const (&row)[Rows], const int32_t* offset,
                                     PixelPairs (&pairs)[Rows]) {
  __m128i two[4][Rows];
  for (int i = 0; i < 4; ++i) {
    int64_t both;  // one load for two offsets: loads are the bottleneck
    memcpy(&both, offset + 2 * i, 8);
    const int64_t a = static_cast<int32_t>(both), b = both >> 32;
    for (int r = 0; r < Rows; ++r) two[i][r] = load_two(row[r] + a, row[r] + b);
  }
  for (int r = 0; r < Rows; ++r) {
    pairs[r].low = _mm256_inserti128_si256(_mm256_castsi128_si256(two[0][r]), two[2][r], 1);
    pairs[r].high = _mm256_inserti128_si256(_mm256_castsi128_si256(two[1][r]), two[3][r], 1);
  }
}

template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m256i raw, const uint8_t*) {
  const __m256i bytes =
      _mm256_shuffle_epi8(raw, _mm256_broadcastsi128_si256(zero_extend_8<A, B>()));
  return Floats(_mm256_cvtepi32_ps(bytes));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m256i raw, const Truth*) {
  const __m256i truths = _mm256_min_epu8(raw, _mm256_set1_epi8(1));
  return convert_pairs<A, B>(truths, static_cast<const uint8_t*>(nullptr));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m256i raw, const uint16_t*) {
  const __m256i words =
      _mm256_shuffle_epi8(raw, _mm256_broadcastsi128_si256(zero_extend_16<A, B>()));
  return Floats(_mm256_cvtepi32_ps(words));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m256i raw, const int16_t*) {
  const __m256i words = _mm256_shuffle_epi8(raw, _mm256_broadcastsi128_si256(high_half_16<A, B>()));
  return Floats(_mm256_cvtepi32_ps(_mm256_srai_epi32(words, 16)));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m256i raw, const BFloat16*) {
  const __m256i words = _mm256_shuffle_epi8(raw, _mm256_broadcastsi128_si256(high_half_16<A, B>()));
  return Floats(_mm256_castsi256_ps(words));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m256i raw, const Half*) {
  static_assert(A == 0 && B == 1, "halves are paired in planes only");
  const __m256i firsts =
      _mm256_permutevar8x32_epi32(raw, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
  return Floats(_mm256_cvtph_ps(_mm256_castsi256_si128(firsts)));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m256i raw, const float*) {
  static_assert(A == 0 && B == 1, "8 bytes hold two floats");
  return Floats(_mm256_castsi256_ps(raw));
}

VISOPS_ALWAYS_INLINE Floats even(Floats a, Floats b) {
  return Floats(_mm256_shuffle_ps(a.v, b.v, 0x88));
}
VISOPS_ALWAYS_INLINE Floats odd(Floats a, Floats b) {
  return Floats(_mm256_shuffle_ps(a.v, b.v, 0xdd));
}
VISOPS_ALWAYS_INLINE Floats unpack_low(Floats a) { return Floats(_mm256_unpacklo_ps(a.v, a.v)); }
VISOPS_ALWAYS_INLINE Floats unpack_high(Floats a) { return Floats(_mm256_unpackhi_ps(a.v, a.v)); }

// Rounded half to even, within [low, high].
VISOPS_ALWAYS_INLINE __m256i to_integers(Floats f, float low, float high) {
  const __m256 above = _mm256_max_ps(f.v, _mm256_set1_ps(low));
  return _mm256_cvtps_epi32(_mm256_min_ps(above, _mm256_set1_ps(high)));
}

// The low 16 bits of each of eight lanes.
VISOPS_ALWAYS_INLINE __m128i pack_words(__m256i lanes) {
  return _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
}

VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[1]) {
  const __m128i words = pack_words(to_integers(c[0], 0.0f, 255.0f));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[3]) {
  const __m256i r = to_integers(c[0], 0.0f, 255.0f), g = to_integers(c[1], 0.0f, 255.0f);
  const __m256i b = to_integers(c[2], 0.0f, 255.0f);
  const __m256i rgb0 =
      _mm256_or_si256(r, _mm256_or_si256(_mm256_slli_epi32(g, 8), _mm256_slli_epi32(b, 16)));
  const __m256i rgb = _mm256_shuffle_epi8(rgb0, _mm256_broadcastsi128_si256(drop_fourth_byte()));
  const __m128i first = _mm256_castsi256_si128(rgb), second = _mm256_extracti128_si256(rgb, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), first);  // its last 4 bytes are overwritten next
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p + 12), second);
  const int32_t last = _mm_extract_epi32(second, 2);
  memcpy(p + 20, &last, 4);
}
VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[4]) {
  const __m256i r = to_integers(c[0], 0.0f, 255.0f), g = to_integers(c[1], 0.0f, 255.0f);
  const __m256i b = to_integers(c[2], 0.0f, 255.0f), a = to_integers(c[3], 0.0f, 255.0f);
  const __m256i rg = _mm256_or_si256(r, _mm256_slli_epi32(g, 8));
  const __m256i ba = _mm256_or_si256(_mm256_slli_epi32(b, 16), _mm256_slli_epi32(a, 24));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_or_si256(rg, ba));
}
VISOPS_ALWAYS_INLINE void store_pixels(uint16_t* p, const Floats (&c)[1]) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), pack_words(to_integers(c[0], 0.0f, 65535.0f)));
}
VISOPS_ALWAYS_INLINE void store_pixels(int16_t* p, const Floats (&c)[1]) {
  const __m256i lanes = to_integers(c[0], -32768.0f, 32767.0f);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)));
}
VISOPS_ALWAYS_INLINE void store_pixels(Half* p, const Floats (&c)[1]) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(c[0].v, _MM_FROUND_TO_NEAREST_INT));
}
VISOPS_ALWAYS_INLINE void store_pixels(BFloat16* p, const Floats (&c)[1]) {
  const __m256i bits = _mm256_castps_si256(c[0].v);
  const __m256i odd_bit = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd_bit, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(c[0].v, c[0].v, _CMP_UNORD_Q));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i chosen = _mm256_blendv_epi8(up, quiet, nan);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), pack_words(_mm256_srli_epi32(chosen, 16)));
}
VISOPS_ALWAYS_INLINE void store_pixels(float* p, const Floats (&c)[1]) { c[0].store(p); }

}  // namespace
}  // namespace visops
