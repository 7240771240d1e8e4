// Products of 32-bit numbers in 64-bit lanes: GCC multiplies all 64 bits, in three times the work.
#pragma once

#include <cstdint>

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "cpu/simd/arm.h"
#include "cpu/simd/vector.h"

namespace visops {
namespace {

// The products of the lanes' lower halves and `factor`.
VISOPS_ALWAYS_INLINE Vector<uint64_t> multiply_halves(Vector<uint64_t> a, uint32_t factor) {
#if VISOPS_ISA_SLOT == 2
  const __m512i own = _mm512_set1_epi64(static_cast<int64_t>(factor));
  // GCC 12 warns of a variable in its own header without the mask.
  return {reinterpret_cast<Register<uint64_t>::type>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a.v), own))};
#elif VISOPS_ISA_SLOT == 1
  const __m256i own = _mm256_set1_epi64x(static_cast<int64_t>(factor));
  return {reinterpret_cast<Register<uint64_t>::type>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a.v), own))};
#elif VISOPS_NEON
  const uint32x2_t low = vmovn_u64(reinterpret_cast<uint64x2_t>(a.v));
  return {reinterpret_cast<Register<uint64_t>::type>(vmull_u32(low, vdup_n_u32(factor)))};
#elif defined(__SSE2__) && defined(__GNUC__)
  const __m128i own = _mm_set1_epi64x(static_cast<int64_t>(factor));
  return {reinterpret_cast<Register<uint64_t>::type>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a.v), own))};
#else
  uint64_t lane[Vector<uint64_t>::kCount];
  store_vector(lane, a);
  for (uint64_t& own : lane) own = (own & 0xffffffffu) * factor;
  return load_vector(lane);
#endif
}

}  // namespace
}  // namespace visops
