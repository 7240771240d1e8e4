// Vectors of sixteen floats: AVX-512 F, BW, DQ, VL. No fused multiply-add is used: results are
// the same on every instruction set.
#pragma once

#include <immintrin.h>

#include "cpu/simd/quad.h"

namespace visops {
namespace {

struct Floats {
  static constexpr int kWidth = 16;
  __m512 v;
  Floats() = default;
  VISOPS_ALWAYS_INLINE explicit Floats(float x) : v(_mm512_set1_ps(x)) {}
  VISOPS_ALWAYS_INLINE explicit Floats(__m512 x) : v(x) {}
  static VISOPS_ALWAYS_INLINE Floats load(const float* p) { return Floats(_mm512_loadu_ps(p)); }
  VISOPS_ALWAYS_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
};

VISOPS_ALWAYS_INLINE Floats operator+(Floats a, Floats b) {
  return Floats(_mm512_add_ps(a.v, b.v));
}
VISOPS_ALWAYS_INLINE Floats operator-(Floats a, Floats b) {
  return Floats(_mm512_sub_ps(a.v, b.v));
}
VISOPS_ALWAYS_INLINE Floats operator*(Floats a, Floats b) {
  return Floats(_mm512_mul_ps(a.v, b.v));
}

// a * b, and 0 where a is NaN.
VISOPS_ALWAYS_INLINE Floats multiply_unless_nan(Floats a, Floats b) {
  return Floats(_mm512_maskz_mul_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_ORD_Q), a.v, b.v));
}

// kWidth / 4 quads, from base + offset.
VISOPS_ALWAYS_INLINE Floats load_quads(const float* base, const int32_t* offset) {
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(base + offset[0]));
  v = _mm512_insertf32x4(v, _mm_loadu_ps(base + offset[1]), 1);
  v = _mm512_insertf32x4(v, _mm_loadu_ps(base + offset[2]), 2);
  return Floats(_mm512_insertf32x4(v, _mm_loadu_ps(base + offset[3]), 3));
}

// Clamps to [0, 1]; NaN stays NaN.
VISOPS_ALWAYS_INLINE Floats clamp_unit(Floats v) {
  const __m512 above = _mm512_max_ps(_mm512_setzero_ps(), v.v);  // the second operand where NaN
  return Floats(_mm512_min_ps(_mm512_set1_ps(1.0f), above));
}

// kWidth adjacent elements.
VISOPS_ALWAYS_INLINE Floats load_floats(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return Floats(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const Truth* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return Floats(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_min_epu8(bytes, _mm_set1_epi8(1)))));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const Half* p) {
  return Floats(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const BFloat16* p) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return Floats(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16)));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const float* p) { return Floats::load(p); }

VISOPS_ALWAYS_INLINE __m512i join_four(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m256i front = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
  const __m256i back = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(front), back, 1);
}

using RawPairs = __m512i;
struct PixelPairs {
  RawPairs low, high;
};

// Loads and inserts beat the gather instruction on every processor tried, and do not depend on
// how its microcode guards gathers. Rows go together, so that each offset is loaded once.
template <int Rows>
VISOPS_ALWAYS_INLINE void load_pairs(const char* const (&row)[Rows], const int32_t* offset,
                                     PixelPairs (&pairs)[Rows]) {
  __m128i two[8][Rows];
  for (int i = 0; i < 8; ++i) {
    int64_t both;  // one load for two offsets: loads are the bottleneck
    memcpy(&both, offset + 2 * i, 8);
    const int64_t a = static_cast<int32_t>(both), b = both >> 32;
    for (int r = 0; r < Rows; ++r) two[i][r] = load_two(row[r] + a, row[r] + b);
  }
  for (int r = 0; r < Rows; ++r) {
    pairs[r].low = join_four(two[0][r], two[2][r], two[4][r], two[6][r]);
    pairs[r].high = join_four(two[1][r], two[3][r], two[5][r], two[7][r]);
  }
}

template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m512i raw, const uint8_t*) {
  const __m512i bytes = _mm512_shuffle_epi8(raw, _mm512_broadcast_i32x4(zero_extend_8<A, B>()));
  return Floats(_mm512_cvtepi32_ps(bytes));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m512i raw, const Truth*) {
  const Floats bytes = convert_pairs<A, B>(raw, static_cast<const uint8_t*>(nullptr));
  return Floats(_mm512_min_ps(bytes.v, _mm512_set1_ps(1.0f)));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m512i raw, const uint16_t*) {
  const __m512i words = _mm512_shuffle_epi8(raw, _mm512_broadcast_i32x4(zero_extend_16<A, B>()));
  return Floats(_mm512_cvtepi32_ps(words));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m512i raw, const int16_t*) {
  const __m512i words = _mm512_shuffle_epi8(raw, _mm512_broadcast_i32x4(high_half_16<A, B>()));
  return Floats(_mm512_cvtepi32_ps(_mm512_srai_epi32(words, 16)));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m512i raw, const BFloat16*) {
  const __m512i words = _mm512_shuffle_epi8(raw, _mm512_broadcast_i32x4(high_half_16<A, B>()));
  return Floats(_mm512_castsi512_ps(words));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m512i raw, const Half*) {
  static_assert(A == 0 && B == 1, "halves are paired in planes only");
  return Floats(_mm512_cvtph_ps(_mm512_cvtepi64_epi32(raw)));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(__m512i raw, const float*) {
  static_assert(A == 0 && B == 1, "8 bytes hold two floats");
  return Floats(_mm512_castsi512_ps(raw));
}

VISOPS_ALWAYS_INLINE Floats even(Floats a, Floats b) {
  return Floats(_mm512_shuffle_ps(a.v, b.v, 0x88));
}
VISOPS_ALWAYS_INLINE Floats odd(Floats a, Floats b) {
  return Floats(_mm512_shuffle_ps(a.v, b.v, 0xdd));
}
VISOPS_ALWAYS_INLINE Floats unpack_low(Floats a) { return Floats(_mm512_unpacklo_ps(a.v, a.v)); }
VISOPS_ALWAYS_INLINE Floats unpack_high(Floats a) { return Floats(_mm512_unpackhi_ps(a.v, a.v)); }

// Rounded half to even, within [low, high].
VISOPS_ALWAYS_INLINE __m512i to_integers(Floats f, float low, float high) {
  const __m512 above = _mm512_max_ps(f.v, _mm512_set1_ps(low));
  return _mm512_cvtps_epi32(_mm512_min_ps(above, _mm512_set1_ps(high)));
}

VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[1]) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm512_cvtepi32_epi8(to_integers(c[0], 0.0f, 255.0f)));
}
VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[3]) {
  const __m512i r = to_integers(c[0], 0.0f, 255.0f), g = to_integers(c[1], 0.0f, 255.0f);
  const __m512i b = to_integers(c[2], 0.0f, 255.0f);
  const __m512i rgb0 =
      _mm512_or_si512(r, _mm512_or_si512(_mm512_slli_epi32(g, 8), _mm512_slli_epi32(b, 16)));
  const __m512i blocks = _mm512_shuffle_epi8(rgb0, _mm512_broadcast_i32x4(drop_fourth_byte()));
  const __m512i order = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
  const __m512i packed = _mm512_permutexvar_epi32(order, blocks);
  // Two plain stores: what a masked store wrote can't be forwarded to a load that follows.
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(packed));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 32), _mm512_extracti32x4_epi32(packed, 2));
}
VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[4]) {
  const __m512i r = to_integers(c[0], 0.0f, 255.0f), g = to_integers(c[1], 0.0f, 255.0f);
  const __m512i b = to_integers(c[2], 0.0f, 255.0f), a = to_integers(c[3], 0.0f, 255.0f);
  const __m512i rg = _mm512_or_si512(r, _mm512_slli_epi32(g, 8));
  const __m512i ba = _mm512_or_si512(_mm512_slli_epi32(b, 16), _mm512_slli_epi32(a, 24));
  _mm512_storeu_si512(p, _mm512_or_si512(rg, ba));
}
VISOPS_ALWAYS_INLINE void store_pixels(uint16_t* p, const Floats (&c)[1]) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(to_integers(c[0], 0.0f, 65535.0f)));
}
VISOPS_ALWAYS_INLINE void store_pixels(int16_t* p, const Floats (&c)[1]) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(to_integers(c[0], -32768.0f, 32767.0f)));
}
VISOPS_ALWAYS_INLINE void store_pixels(Half* p, const Floats (&c)[1]) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(c[0].v, _MM_FROUND_TO_NEAREST_INT));
}
VISOPS_ALWAYS_INLINE void store_pixels(BFloat16* p, const Floats (&c)[1]) {
  const __m512i bits = _mm512_castps_si512(c[0].v);
  const __m512i odd_bit = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd_bit, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(c[0].v, c[0].v, _CMP_UNORD_Q);
  const __m512i chosen = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
}
VISOPS_ALWAYS_INLINE void store_pixels(float* p, const Floats (&c)[1]) { c[0].store(p); }

}  // namespace
}  // namespace visops
