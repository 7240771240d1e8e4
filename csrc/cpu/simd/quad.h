// What AVX2 and AVX-512 share: 128-bit vectors and byte shuffles.
#pragma once

#include <immintrin.h>

namespace visops {
namespace {

struct Quad {
  static constexpr int kWidth = 4;
  __m128 v;
  Quad() = default;
  VISOPS_ALWAYS_INLINE explicit Quad(float x) : v(_mm_set1_ps(x)) {}
  VISOPS_ALWAYS_INLINE explicit Quad(__m128 x) : v(x) {}
  static VISOPS_ALWAYS_INLINE Quad load(const float* p) { return Quad(_mm_loadu_ps(p)); }
  VISOPS_ALWAYS_INLINE void store(float* p) const { _mm_storeu_ps(p, v); }
};

VISOPS_ALWAYS_INLINE Quad operator+(Quad a, Quad b) { return Quad(_mm_add_ps(a.v, b.v)); }
VISOPS_ALWAYS_INLINE Quad operator-(Quad a, Quad b) { return Quad(_mm_sub_ps(a.v, b.v)); }
VISOPS_ALWAYS_INLINE Quad operator*(Quad a, Quad b) { return Quad(_mm_mul_ps(a.v, b.v)); }

// Transposes a 4 x 4 block.
VISOPS_ALWAYS_INLINE void transpose(Quad (&q)[4]) {
  _MM_TRANSPOSE4_PS(q[0].v, q[1].v, q[2].v, q[3].v);
}

// 8 bytes from each of two addresses.
VISOPS_ALWAYS_INLINE __m128i load_two(const char* a, const char* b) {
  int64_t second;
  memcpy(&second, b, 8);
  return _mm_insert_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(a)), second, 1);
}

// Shuffles that take elements A and B of each 8-byte half into two 32-bit lanes.
template <int A, int B>
VISOPS_ALWAYS_INLINE __m128i zero_extend_8() {
  return _mm_setr_epi8(A, -1, -1, -1, B, -1, -1, -1, A + 8, -1, -1, -1, B + 8, -1, -1, -1);
}
template <int A, int B>
VISOPS_ALWAYS_INLINE __m128i zero_extend_16() {
  constexpr int a = 2 * A, b = 2 * B;
  return _mm_setr_epi8(a, a + 1, -1, -1, b, b + 1, -1, -1, a + 8, a + 9, -1, -1, b + 8, b + 9, -1,
                       -1);
}
template <int A, int B>
VISOPS_ALWAYS_INLINE __m128i high_half_16() {
  constexpr int a = 2 * A, b = 2 * B;
  return _mm_setr_epi8(-1, -1, a, a + 1, -1, -1, b, b + 1, -1, -1, a + 8, a + 9, -1, -1, b + 8,
                       b + 9);
}

VISOPS_ALWAYS_INLINE __m128i drop_fourth_byte() {
  return _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
}

}  // namespace
}  // namespace visops
