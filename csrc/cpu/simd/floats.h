// The vectors that CPU kernels are written over. There are two vocabularies:
//
//   Floats      (this file) floats only, with conversions from and to every pixel type, saturating
//               stores and gathers of pixels. For kernels that compute in float32.
//   Vector<T>   (cpu/simd/vector.h) any arithmetic type, loads, stores, + - * only. For kernels
//               that sum each type in its own arithmetic.
//
// Only kernel files include them, once per instruction set (VISOPS_ISA_SLOT); everything has
// internal linkage, so that no code of one instruction set is linked into another's.
//
//   Floats          kWidth floats: 16 (AVX-512), 8 (AVX2), 4 (NEON, any CPU)
//   Quad            4 floats, for pixels with adjacent channels
//   PixelPairs      for each of kWidth pixels, the 8 bytes at its address: two neighbouring taps;
//                   load_pairs(rows, offsets, pairs) reads them from rows[r] + offsets[pixel]
//   load_floats     kWidth adjacent elements of any type, as Floats
//   FloatPairs      one channel of PixelPairs, as floats [a0 b0 a1 b1 | ...]
//
// Pairs lie in two registers so that splitting them needs no shuffle across 128-bit blocks:
// block j of `low` holds pixels 4j, 4j+1, block j of `high` pixels 4j+2, 4j+3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/numbers/element.h"
#include "core/platform.h"
#include "cpu/simd/arm.h"

#if VISOPS_ISA_SLOT == 2
#include "cpu/simd/avx512.h"
#elif VISOPS_ISA_SLOT == 1
#include "cpu/simd/avx2.h"
#elif VISOPS_NEON
#include "cpu/simd/neon.h"
#else
#include "cpu/simd/default.h"
#endif

namespace visops {
namespace {

// memcpy for part of a vector at the end of a run, where a call would cost more than the copy.
VISOPS_ALWAYS_INLINE void copy_part(void* to, const void* from, size_t size) {
  const auto move = [to, from](size_t at, size_t bytes) {
    memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, bytes);
  };
  if (size >= 16) {
    for (size_t at = 0; at + 16 <= size; at += 16) move(at, 16);
    move(size - 16, 16);
  } else if (size >= 8) {
    move(0, 8);
    move(size - 8, 8);
  } else if (size >= 4) {
    move(0, 4);
    move(size - 4, 4);
  } else {
    for (size_t at = 0; at < size; ++at) move(at, 1);
  }
}

struct FloatPairs {
  Floats low, high;
};

// One channel of each pixel's two taps, which are 8 bytes [T x Channels][T x Channels].
template <class T, int Channels, int Channel>
VISOPS_ALWAYS_INLINE FloatPairs channel_pairs(const PixelPairs& raw) {
  static_assert(2 * Channels * sizeof(T) <= 8, "both taps must lie within 8 bytes");
  return {convert_pairs<Channel, Channel + Channels>(raw.low, static_cast<const T*>(nullptr)),
          convert_pairs<Channel, Channel + Channels>(raw.high, static_cast<const T*>(nullptr))};
}

VISOPS_ALWAYS_INLINE Floats first_of_pairs(const FloatPairs& p) { return even(p.low, p.high); }
VISOPS_ALWAYS_INLINE Floats second_of_pairs(const FloatPairs& p) { return odd(p.low, p.high); }

// A weight per pixel, repeated for both taps of a pair.
VISOPS_ALWAYS_INLINE FloatPairs spread(Floats w) { return {unpack_low(w), unpack_high(w)}; }

VISOPS_ALWAYS_INLINE FloatPairs operator+(const FloatPairs& a, const FloatPairs& b) {
  return {a.low + b.low, a.high + b.high};
}
VISOPS_ALWAYS_INLINE FloatPairs operator-(const FloatPairs& a, const FloatPairs& b) {
  return {a.low - b.low, a.high - b.high};
}
VISOPS_ALWAYS_INLINE FloatPairs operator*(const FloatPairs& a, const FloatPairs& b) {
  return {a.low * b.low, a.high * b.high};
}

}  // namespace
}  // namespace visops
