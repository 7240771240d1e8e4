// Groups of quads in Floats: kWidth / 4 quads in each.
#pragma once

#include "cpu/simd/floats.h"

namespace visops {
namespace {

// Quad k of register r is that of pixel 4 k + r. Afterwards register c has channel c of all pixels,
// in their order.
#if VISOPS_ISA_SLOT == 2
VISOPS_ALWAYS_INLINE void transpose_groups(Floats (&q)[4]) {
  const __m512 a = _mm512_unpacklo_ps(q[0].v, q[1].v), b = _mm512_unpacklo_ps(q[2].v, q[3].v);
  const __m512 c = _mm512_unpackhi_ps(q[0].v, q[1].v), d = _mm512_unpackhi_ps(q[2].v, q[3].v);
  q[0] = Floats(_mm512_shuffle_ps(a, b, 0x44));
  q[1] = Floats(_mm512_shuffle_ps(a, b, 0xee));
  q[2] = Floats(_mm512_shuffle_ps(c, d, 0x44));
  q[3] = Floats(_mm512_shuffle_ps(c, d, 0xee));
}
#elif VISOPS_ISA_SLOT == 1
VISOPS_ALWAYS_INLINE void transpose_groups(Floats (&q)[4]) {
  const __m256 a = _mm256_unpacklo_ps(q[0].v, q[1].v), b = _mm256_unpacklo_ps(q[2].v, q[3].v);
  const __m256 c = _mm256_unpackhi_ps(q[0].v, q[1].v), d = _mm256_unpackhi_ps(q[2].v, q[3].v);
  q[0] = Floats(_mm256_shuffle_ps(a, b, 0x44));
  q[1] = Floats(_mm256_shuffle_ps(a, b, 0xee));
  q[2] = Floats(_mm256_shuffle_ps(c, d, 0x44));
  q[3] = Floats(_mm256_shuffle_ps(c, d, 0xee));
}
#elif VISOPS_NEON
VISOPS_ALWAYS_INLINE void transpose_groups(Floats (&q)[4]) { transpose(q); }
#else
VISOPS_ALWAYS_INLINE void transpose_groups(Floats (&q)[4]) {
  for (int r = 0; r < 4; ++r) {
    for (int c = r + 1; c < 4; ++c) {
      const float upper = q[r].v[c];
      q[r].v[c] = q[c].v[r];
      q[c].v[r] = upper;
    }
  }
}
#endif

}  // namespace
}  // namespace visops
