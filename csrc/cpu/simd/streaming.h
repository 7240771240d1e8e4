// Stores that bypass the caches, for results larger than those: ordinary stores would first read
// every line that they overwrite.
#pragma once

#include "cpu/simd/vector.h"

#if VISOPS_ISA_SLOT > 0
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace visops {
namespace {

// Streaming pays from this many bytes of result on; addresses must be multiples of kStreamLine.
constexpr int64_t kWorthStreaming = int64_t{1} << 22;
constexpr int64_t kStreamLine = 64;

template <class T>
VISOPS_ALWAYS_INLINE void stream_vector(T* p, Vector<T> vector) {
#if VISOPS_ISA_SLOT == 2
  __m512i bits;
  memcpy(&bits, &vector.v, sizeof(bits));
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), bits);
#elif VISOPS_ISA_SLOT == 1
  __m256i bits;
  memcpy(&bits, &vector.v, sizeof(bits));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), bits);
#elif defined(__SSE2__)
  __m128i bits;
  memcpy(&bits, &vector.v, sizeof(bits));
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), bits);
#else
  store_vector(p, vector);
#endif
}

// Call after the last streamed store, before another thread may read the result.
VISOPS_ALWAYS_INLINE void end_streaming() {
#if VISOPS_ISA_SLOT > 0 || defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace
}  // namespace visops
