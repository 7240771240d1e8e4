// Stores that go past the caches: for results that are larger than those, whose lines would
// otherwise be read only to be overwritten.
#pragma once

#include "cpu/simd/vector.h"

#if VISOPS_ISA_SLOT > 0
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace visops {
namespace {

// Results from so many bytes on are worth it; and all addresses must be a multiple of kStreamLine.
constexpr int64_t kWorthStreaming = int64_t{1} << 22;
constexpr int64_t kStreamLine = 64;

template <class T>
VISOPS_ALWAYS_INLINE void stream_vector(T* p, Vector<T> lanes) {
#if VISOPS_ISA_SLOT == 2
  __m512i bits;
  memcpy(&bits, &lanes.v, sizeof(bits));
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), bits);
#elif VISOPS_ISA_SLOT == 1
  __m256i bits;
  memcpy(&bits, &lanes.v, sizeof(bits));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), bits);
#elif defined(__SSE2__)
  __m128i bits;
  memcpy(&bits, &lanes.v, sizeof(bits));
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), bits);
#else
  store_vector(p, lanes);
#endif
}

// After the last of them, before anybody is told that they are there.
VISOPS_ALWAYS_INLINE void end_streaming() {
#if VISOPS_ISA_SLOT > 0 || defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace
}  // namespace visops
