// AVX-512 for processors without it: the functions of <immintrin.h> that csrc/cpu calls, in plain
// C++. A build with VISOPS_EMULATE_AVX512=1 includes this file before each AVX-512 kernel and
// compiles it for AVX2, so that the kernels' own code runs on more processors (`make test-avx512`).
//
// Kernels are in namespace visops, where these functions hide the global ones of the same names.
// Nobody may rely on what a cast leaves undefined: it is filled with kUndefined. Loads and stores
// that need an aligned address check it.
#pragma once

#include "elements.h"

// Macros in GCC's header, of the reversed functions.
#undef _mm512_setr_epi32
#undef _mm512_setr_epi64

namespace visops {

// Memory.
VISOPS_EMULATED __m512 _mm512_loadu_ps(const void* p) { return avx512::load<__m512>(p); }
VISOPS_EMULATED __m512i _mm512_loadu_si512(const void* p) { return avx512::load<__m512i>(p); }
VISOPS_EMULATED __m512i _mm512_load_si512(const void* p) {
  avx512::check_alignment(p);
  return avx512::load<__m512i>(p);
}
VISOPS_EMULATED void _mm512_storeu_ps(void* p, __m512 v) { memcpy(p, &v, 64); }
VISOPS_EMULATED void _mm512_storeu_si512(void* p, __m512i v) { memcpy(p, &v, 64); }
VISOPS_EMULATED void _mm512_stream_si512(void* p, __m512i v) {
  avx512::check_alignment(p);
  memcpy(p, &v, 64);
}
VISOPS_EMULATED __m512i _mm512_maskz_loadu_epi16(__mmask32 mask, const void* p) {
  return avx512::load_some<uint16_t>(mask, p);
}
VISOPS_EMULATED void _mm512_mask_storeu_epi16(void* p, __mmask32 mask, __m512i v) {
  avx512::store_some<uint16_t>(p, mask, v);
}
VISOPS_EMULATED __m512i _mm512_maskz_loadu_epi32(__mmask16 mask, const void* p) {
  return avx512::load_some<uint32_t>(mask, p);
}
VISOPS_EMULATED void _mm512_mask_storeu_epi32(void* p, __mmask16 mask, __m512i v) {
  avx512::store_some<uint32_t>(p, mask, v);
}
VISOPS_EMULATED __m512i _mm512_maskz_loadu_epi64(__mmask8 mask, const void* p) {
  return avx512::load_some<uint64_t>(mask, p);
}
VISOPS_EMULATED void _mm512_mask_storeu_epi64(void* p, __mmask8 mask, __m512i v) {
  avx512::store_some<uint64_t>(p, mask, v);
}

// Constants, and parts of vectors.
VISOPS_EMULATED __m512 _mm512_setzero_ps() { return avx512::filled<__m512>(0.0f); }
VISOPS_EMULATED __m512i _mm512_setzero_si512() { return avx512::filled<__m512i>(0); }
VISOPS_EMULATED __m512 _mm512_set1_ps(float x) { return avx512::filled<__m512>(x); }
VISOPS_EMULATED __m512i _mm512_set1_epi8(int8_t x) { return avx512::filled<__m512i>(x); }
VISOPS_EMULATED __m512i _mm512_set1_epi16(int16_t x) { return avx512::filled<__m512i>(x); }
VISOPS_EMULATED __m512i _mm512_set1_epi32(int32_t x) { return avx512::filled<__m512i>(x); }
VISOPS_EMULATED __m512i _mm512_set1_epi64(int64_t x) { return avx512::filled<__m512i>(x); }
template <class... Integers>
VISOPS_EMULATED __m512i _mm512_setr_epi32(Integers... x) {
  return avx512::same_bytes<__m512i>(avx512::Elements<int32_t>{{x...}});
}
template <class... Integers>
VISOPS_EMULATED __m512i _mm512_setr_epi64(Integers... x) {
  return avx512::same_bytes<__m512i>(avx512::Elements<int64_t>{{x...}});
}
VISOPS_EMULATED __m512 _mm512_broadcast_f32x4(__m128 x) { return avx512::filled<__m512>(x); }
VISOPS_EMULATED __m512i _mm512_broadcast_i32x4(__m128i x) { return avx512::filled<__m512i>(x); }
VISOPS_EMULATED __m512i _mm512_mask_broadcast_i32x4(__m512i v, __mmask16 mask, __m128i x) {
  return avx512::chosen<int32_t>(mask, avx512::filled<__m512i>(x), v);
}
VISOPS_EMULATED __m512i _mm512_castps_si512(__m512 v) { return avx512::same_bytes<__m512i>(v); }
VISOPS_EMULATED __m512 _mm512_castsi512_ps(__m512i v) { return avx512::same_bytes<__m512>(v); }
VISOPS_EMULATED __m512 _mm512_castps128_ps512(__m128 x) { return avx512::begins_with<__m512>(x); }
VISOPS_EMULATED __m512i _mm512_castsi128_si512(__m128i x) {
  return avx512::begins_with<__m512i>(x);
}
VISOPS_EMULATED __m512i _mm512_castsi256_si512(__m256i x) {
  return avx512::begins_with<__m512i>(x);
}
VISOPS_EMULATED __m128 _mm512_castps512_ps128(__m512 v) { return avx512::part_of<__m128>(v, 0); }
VISOPS_EMULATED __m256i _mm512_castsi512_si256(__m512i v) { return avx512::part_of<__m256i>(v, 0); }
VISOPS_EMULATED __m512 _mm512_insertf32x4(__m512 v, __m128 x, int position) {
  return avx512::with_part(v, x, position);
}
VISOPS_EMULATED __m512i _mm512_inserti64x4(__m512i v, __m256i x, int position) {
  return avx512::with_part(v, x, position);
}
VISOPS_EMULATED __m128 _mm512_extractf32x4_ps(__m512 v, int position) {
  return avx512::part_of<__m128>(v, position);
}
VISOPS_EMULATED __m128i _mm512_extracti32x4_epi32(__m512i v, int position) {
  return avx512::part_of<__m128i>(v, position);
}

// Arithmetic of integers.
VISOPS_EMULATED __m512i _mm512_add_epi8(__m512i a, __m512i b) {
  return avx512::each<uint8_t>(a, b, [](uint8_t x, uint8_t y) { return x + y; });
}
VISOPS_EMULATED __m512i _mm512_add_epi16(__m512i a, __m512i b) {
  return avx512::each<uint16_t>(a, b, [](uint16_t x, uint16_t y) { return x + y; });
}
VISOPS_EMULATED __m512i _mm512_add_epi32(__m512i a, __m512i b) {
  return avx512::each<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return x + y; });
}
VISOPS_EMULATED __m512i _mm512_add_epi64(__m512i a, __m512i b) {
  return avx512::each<uint64_t>(a, b, [](uint64_t x, uint64_t y) { return x + y; });
}
VISOPS_EMULATED __m512i _mm512_sub_epi32(__m512i a, __m512i b) {
  return avx512::each<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return x - y; });
}
VISOPS_EMULATED __m512i _mm512_and_si512(__m512i a, __m512i b) {
  return avx512::each<uint64_t>(a, b, [](uint64_t x, uint64_t y) { return x & y; });
}
VISOPS_EMULATED __m512i _mm512_or_si512(__m512i a, __m512i b) {
  return avx512::each<uint64_t>(a, b, [](uint64_t x, uint64_t y) { return x | y; });
}
VISOPS_EMULATED __m512i _mm512_srli_epi16(__m512i v, unsigned count) {
  return avx512::each<uint16_t>(v, [&](uint16_t x) { return count < 16 ? x >> count : 0; });
}
VISOPS_EMULATED __m512i _mm512_slli_epi16(__m512i v, unsigned count) {
  return avx512::each<uint16_t>(v, [&](uint16_t x) { return count < 16 ? x << count : 0; });
}
VISOPS_EMULATED __m512i _mm512_srlv_epi16(__m512i v, __m512i counts) {
  return avx512::each<uint16_t>(v, counts,
                                [](uint16_t x, uint16_t n) { return n < 16 ? x >> n : 0; });
}
VISOPS_EMULATED __m512i _mm512_srli_epi32(__m512i v, unsigned count) {
  return avx512::each<uint32_t>(v, [&](uint32_t x) { return count < 32 ? x >> count : 0; });
}
VISOPS_EMULATED __m512i _mm512_slli_epi32(__m512i v, unsigned count) {
  return avx512::each<uint32_t>(v, [&](uint32_t x) { return count < 32 ? x << count : 0; });
}
VISOPS_EMULATED __m512i _mm512_srai_epi32(__m512i v, unsigned count) {
  return avx512::each<int32_t>(v, [&](int32_t x) { return x >> (count < 32 ? count : 31); });
}
VISOPS_EMULATED __m512i _mm512_madd_epi16(__m512i a, __m512i b) {
  return avx512::each<__m128i>(a, b, [](__m128i x, __m128i y) { return _mm_madd_epi16(x, y); });
}
VISOPS_EMULATED __m512i _mm512_maskz_mul_epu32(__mmask8 mask, __m512i a, __m512i b) {
  const __m512i products =
      avx512::each<__m128i>(a, b, [](__m128i x, __m128i y) { return _mm_mul_epu32(x, y); });
  return avx512::chosen<int64_t>(mask, products, avx512::filled<__m512i>(0));
}
VISOPS_EMULATED __m512i _mm512_sad_epu8(__m512i a, __m512i b) {
  return avx512::each<__m128i>(a, b, [](__m128i x, __m128i y) { return _mm_sad_epu8(x, y); });
}
VISOPS_EMULATED __m512i _mm512_packs_epi32(__m512i a, __m512i b) {
  return avx512::each<__m128i>(a, b, [](__m128i x, __m128i y) { return _mm_packs_epi32(x, y); });
}
VISOPS_EMULATED __m512i _mm512_shuffle_epi8(__m512i a, __m512i b) {
  return avx512::each<__m128i>(a, b, [](__m128i x, __m128i y) { return _mm_shuffle_epi8(x, y); });
}
VISOPS_EMULATED __m512i _mm512_sll_epi64(__m512i v, __m128i count) {
  return avx512::each<__m128i>(v, [&](__m128i x) { return _mm_sll_epi64(x, count); });
}
VISOPS_EMULATED __m512i _mm512_maskz_sra_epi32(__mmask16 mask, __m512i v, __m128i count) {
  const __m512i shifted =
      avx512::each<__m128i>(v, [&](__m128i x) { return _mm_sra_epi32(x, count); });
  return avx512::chosen<int32_t>(mask, shifted, _mm512_setzero_si512());
}
VISOPS_EMULATED __m512i _mm512_mask_blend_epi16(__mmask32 mask, __m512i a, __m512i b) {
  return avx512::chosen<uint16_t>(mask, b, a);
}
VISOPS_EMULATED __m512i _mm512_mask_or_epi32(__m512i otherwise, __mmask16 mask, __m512i a,
                                             __m512i b) {
  return avx512::chosen<int32_t>(mask, _mm512_or_si512(a, b), otherwise);
}
// Bit 4 x + 2 y + z of the table, for bits x, y and z of the three.
VISOPS_EMULATED __m512i _mm512_ternarylogic_epi64(__m512i a, __m512i b, __m512i c, int table) {
  return avx512::each<uint64_t>(a, b, c, [&](uint64_t x, uint64_t y, uint64_t z) {
    uint64_t out = 0;
    for (int row = 0; row < 8; ++row) {
      const uint64_t here = (row & 4 ? x : ~x) & (row & 2 ? y : ~y) & (row & 1 ? z : ~z);
      out |= table >> row & 1 ? here : 0;
    }
    return out;
  });
}
VISOPS_EMULATED int64_t _mm512_reduce_add_epi64(__m512i v) {
  int64_t sum = 0;
  for (const int64_t x : avx512::elements<int64_t>(v).at) sum += x;
  return sum;
}

// Arithmetic of floats.
VISOPS_EMULATED __m512 _mm512_add_ps(__m512 a, __m512 b) {
  return avx512::each<float>(a, b, [](float x, float y) { return x + y; });
}
VISOPS_EMULATED __m512 _mm512_sub_ps(__m512 a, __m512 b) {
  return avx512::each<float>(a, b, [](float x, float y) { return x - y; });
}
VISOPS_EMULATED __m512 _mm512_mul_ps(__m512 a, __m512 b) {
  return avx512::each<float>(a, b, [](float x, float y) { return x * y; });
}
VISOPS_EMULATED __m512 _mm512_maskz_mul_ps(__mmask16 mask, __m512 a, __m512 b) {
  return avx512::chosen<float>(mask, _mm512_mul_ps(a, b), avx512::filled<__m512>(0.0f));
}
// The second operand, where one is NaN or both are zero.
VISOPS_EMULATED __m512 _mm512_min_ps(__m512 a, __m512 b) {
  return avx512::each<float>(a, b, [](float x, float y) { return x < y ? x : y; });
}
VISOPS_EMULATED __m512 _mm512_max_ps(__m512 a, __m512 b) {
  return avx512::each<float>(a, b, [](float x, float y) { return x > y ? x : y; });
}
VISOPS_EMULATED __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
  return avx512::each<__m128>(a, b, c,
                              [](__m128 x, __m128 y, __m128 z) { return _mm_fmadd_ps(x, y, z); });
}
VISOPS_EMULATED __m512d _mm512_fmadd_pd(__m512d a, __m512d b, __m512d c) {
  return avx512::each<__m128d>(
      a, b, c, [](__m128d x, __m128d y, __m128d z) { return _mm_fmadd_pd(x, y, z); });
}

// Conversions.
VISOPS_EMULATED __m512 _mm512_cvtepi32_ps(__m512i v) {
  return avx512::converted<int32_t, float, __m512>(v);
}
VISOPS_EMULATED __m512i _mm512_cvtepu8_epi32(__m128i v) {
  return avx512::converted<uint8_t, int32_t, __m512i>(v);
}
VISOPS_EMULATED __m512i _mm512_cvtepu16_epi32(__m256i v) {
  return avx512::converted<uint16_t, int32_t, __m512i>(v);
}
VISOPS_EMULATED __m128i _mm512_cvtepi32_epi8(__m512i v) {
  return avx512::converted<int32_t, int8_t, __m128i>(v);
}
VISOPS_EMULATED __m256i _mm512_cvtepi32_epi16(__m512i v) {
  return avx512::converted<int32_t, int16_t, __m256i>(v);
}
VISOPS_EMULATED __m256i _mm512_cvtepi64_epi32(__m512i v) {
  return avx512::converted<int64_t, int32_t, __m256i>(v);
}
VISOPS_EMULATED __m512i _mm512_cvtps_epi32(__m512 v) {
  const auto x = avx512::elements<__m128>(v);
  avx512::Elements<__m128i> out;
  for (int k = 0; k < x.kCount; ++k) out.at[k] = _mm_cvtps_epi32(x.at[k]);
  return avx512::same_bytes<__m512i>(out);
}
VISOPS_EMULATED __m512 _mm512_cvtph_ps(__m256i v) {
  return avx512::same_bytes<__m512>(
      avx512::Elements<__m256>{{_mm256_cvtph_ps(_mm256_castsi256_si128(v)),
                                _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1))}});
}
VISOPS_EMULATED __m256i _mm512_cvtps_ph(__m512 v, int rounding) {
  if (rounding != _MM_FROUND_TO_NEAREST_INT) abort();
  const auto x = avx512::elements<__m256>(v);
  return _mm256_set_m128i(_mm256_cvtps_ph(x.at[1], _MM_FROUND_TO_NEAREST_INT),
                          _mm256_cvtps_ph(x.at[0], _MM_FROUND_TO_NEAREST_INT));
}

// Order of elements.
VISOPS_EMULATED __m512i _mm512_unpacklo_epi8(__m512i a, __m512i b) {
  return avx512::unpacked<uint8_t>(a, b, false);
}
VISOPS_EMULATED __m512i _mm512_unpackhi_epi8(__m512i a, __m512i b) {
  return avx512::unpacked<uint8_t>(a, b, true);
}
VISOPS_EMULATED __m512i _mm512_unpacklo_epi32(__m512i a, __m512i b) {
  return avx512::unpacked<uint32_t>(a, b, false);
}
VISOPS_EMULATED __m512i _mm512_unpackhi_epi32(__m512i a, __m512i b) {
  return avx512::unpacked<uint32_t>(a, b, true);
}
VISOPS_EMULATED __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) {
  return avx512::unpacked<uint64_t>(a, b, false);
}
VISOPS_EMULATED __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) {
  return avx512::unpacked<uint64_t>(a, b, true);
}
VISOPS_EMULATED __m512 _mm512_unpacklo_ps(__m512 a, __m512 b) {
  return avx512::unpacked<float>(a, b, false);
}
VISOPS_EMULATED __m512 _mm512_unpackhi_ps(__m512 a, __m512 b) {
  return avx512::unpacked<float>(a, b, true);
}
VISOPS_EMULATED __m512 _mm512_shuffle_ps(__m512 a, __m512 b, int order) {
  return avx512::picked<float>(a, b, 4,
                               [&](int k) { return (order >> 2 * k & 3) + (k < 2 ? 0 : 4); });
}
VISOPS_EMULATED __m512 _mm512_permute_ps(__m512 v, int order) {
  return avx512::picked<float>(v, v, 4, [&](int k) { return order >> 2 * k & 3; });
}
VISOPS_EMULATED __m512d _mm512_permute_pd(__m512d v, int order) {
  return avx512::picked<double>(v, v, 8, [&](int k) { return k / 2 * 2 + (order >> k & 1); });
}
VISOPS_EMULATED __m512 _mm512_permutexvar_ps(__m512i index, __m512 v) {
  return avx512::permuted<uint32_t>(index, v);
}
VISOPS_EMULATED __m512i _mm512_permutexvar_epi32(__m512i index, __m512i v) {
  return avx512::permuted<uint32_t>(index, v);
}
VISOPS_EMULATED __m512 _mm512_permutex2var_ps(__m512 a, __m512i index, __m512 b) {
  return avx512::permuted<uint32_t>(a, index, b);
}
VISOPS_EMULATED __m512i _mm512_permutex2var_epi16(__m512i a, __m512i index, __m512i b) {
  return avx512::permuted<uint16_t>(a, index, b);
}
VISOPS_EMULATED __m512i _mm512_permutex2var_epi64(__m512i a, __m512i index, __m512i b) {
  return avx512::permuted<uint64_t>(a, index, b);
}

// Masks.
VISOPS_EMULATED __mmask64 _mm512_test_epi8_mask(__m512i a, __m512i b) {
  return static_cast<__mmask64>(
      avx512::mask_where<uint8_t>(a, b, [](uint8_t x, uint8_t y) { return (x & y) != 0; }));
}
VISOPS_EMULATED __mmask32 _mm512_test_epi16_mask(__m512i a, __m512i b) {
  return static_cast<__mmask32>(
      avx512::mask_where<uint16_t>(a, b, [](uint16_t x, uint16_t y) { return (x & y) != 0; }));
}
VISOPS_EMULATED __mmask8 _mm512_test_epi64_mask(__m512i a, __m512i b) {
  return static_cast<__mmask8>(
      avx512::mask_where<uint64_t>(a, b, [](uint64_t x, uint64_t y) { return (x & y) != 0; }));
}
VISOPS_EMULATED __mmask16 _mm512_cmpge_epu32_mask(__m512i a, __m512i b) {
  return static_cast<__mmask16>(
      avx512::mask_where<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return x >= y; }));
}
VISOPS_EMULATED __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int predicate) {
  if (predicate != _CMP_UNORD_Q && predicate != _CMP_ORD_Q) abort();
  const bool wanted = predicate == _CMP_UNORD_Q;
  return static_cast<__mmask16>(avx512::mask_where<float>(
      a, b, [&](float x, float y) { return (x != x || y != y) == wanted; }));
}

}  // namespace visops

#undef VISOPS_EMULATED
