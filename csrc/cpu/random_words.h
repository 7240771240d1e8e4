// Random numbers of pixels, as a function of a key and a position: Philox 4x32 with seven rounds,
// the fewest that pass all tests of randomness (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). Counters run side by side, and no step depends on a value.
//
// Number `i` is in block i / 128 at place i % 128, whatever part of an image is computed. Normally
// distributed numbers are Box and Muller's: a word's halves are a radius, up to 4.85, and an angle.
// The logarithm's and the sines' polynomials are those of the Cephes library, so that every
// instruction set has the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/element.h"
#include "cpu/simd/half_products.h"

namespace visops {
namespace {

constexpr int kRandomWords = 64;  // that are made together
constexpr int kRandomLanes = kRandomWords / 4;
constexpr int kRandomBlock = 2 * kRandomWords;

// 64 words; those of counter c are at c, 16 + c, 32 + c and 48 + c. Each is the lower half of a
// 64-bit lane, whose upper half is left over.
inline void random_words(uint64_t key, uint64_t block, uint32_t* words) {
  using Lanes = Vector<uint64_t>;
  constexpr int kSide = 2;  // vectors that are made side by side
  const uint64_t counter = block * kRandomLanes;
  for (int first = 0; first < kRandomLanes; first += kSide * Lanes::kCount) {
    Lanes a[kSide], b[kSide], c[kSide], d[kSide];
    for (int i = 0; i < kSide; ++i) {
      uint64_t own[Lanes::kCount];
      for (int k = 0; k < Lanes::kCount; ++k) {
        own[k] = counter + static_cast<uint64_t>(first + i * Lanes::kCount + k);
      }
      a[i] = load_vector(own);
      b[i] = broadcast(counter >> 32);
      c[i] = d[i] = broadcast(uint64_t{0});
    }
    uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 7; ++round) {
      for (int i = 0; i < kSide; ++i) {
        const Lanes p = multiply_halves(a[i], 0xD2511F53u), q = multiply_halves(c[i], 0xCD9E8D57u);
        a[i] = (q >> 32) ^ b[i] ^ broadcast(uint64_t{key0});
        b[i] = q;
        c[i] = (p >> 32) ^ d[i] ^ broadcast(uint64_t{key1});
        d[i] = p;
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < kSide; ++i) {
      const Lanes all[4] = {a[i], b[i], c[i], d[i]};
      for (int word = 0; word < 4; ++word) {
        uint64_t own[Lanes::kCount];
        store_vector(own, all[word]);
        uint32_t* const to = words + word * kRandomLanes + first + i * Lanes::kCount;
        for (int k = 0; k < Lanes::kCount; ++k) to[k] = static_cast<uint32_t>(own[k]);
      }
    }
  }
}

// A multiple of 2^-24 in [0, 1).
inline float unit_of(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 5.9604645e-08f;
}

inline void random_units(uint64_t key, uint64_t block, float* units) {
  for (int half = 0; half < 2; ++half) {
    uint32_t words[kRandomWords];
    random_words(key, 2 * block + static_cast<uint64_t>(half), words);
    for (int i = 0; i < kRandomWords; ++i) units[half * kRandomWords + i] = unit_of(words[i]);
  }
}

// ln x of a positive normal number.
inline float log_of(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  // The mantissa in [1/2, 1), doubled below the square root of 1/2.
  float m = bit_cast<float>((bits & 0x7fffffu) | 0x3f000000u);
  const int small = m < 0.70710678f ? 1 : 0;
  const float e = static_cast<float>(static_cast<int>(bits >> 23) - 126 - small);
  m = (small != 0 ? m + m : m) - 1.0f;
  const float z = m * m;
  float y = 7.0376836292e-2f * m - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  y = y * m * z - 0.5f * z + e * -2.12194440e-4f;
  return m + y + e * 0.693359375f;
}

// 128 numbers of mean 0 and variance 1.
inline void random_normals(uint64_t key, uint64_t block, float* normals) {
  uint32_t words[kRandomWords];
  random_words(key, block, words);
  for (int i = 0; i < kRandomWords; ++i) {
    const auto low = static_cast<int32_t>(words[i] & 0xffffu);
    const auto high = static_cast<int32_t>(words[i] >> 16);
    const float unit = (static_cast<float>(low) + 0.5f) * 1.52587890625e-5f;
    const float radius = std::sqrt(-2.0f * log_of(unit));
    // The angle in quarter turns: the nearest whole one, and the rest in [-1/2, 1/2].
    const int whole = (high + 8192) >> 14;
    const float t = static_cast<float>(high - whole * 16384) * 9.58737993e-5f;  // pi / 2^15
    const float z = t * t;
    const float sine =
        ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * t + t;
    const float cosine =
        ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
        0.5f * z + 1.0f;
    const bool odd = (whole & 1) != 0;
    const float first = odd ? sine : cosine, second = odd ? cosine : sine;
    const float first_sign = ((whole + 1) & 2) != 0 ? -radius : radius;
    const float second_sign = (whole & 2) != 0 ? -radius : radius;
    normals[i] = first * first_sign;
    normals[kRandomWords + i] = second * second_sign;
  }
}

}  // namespace
}  // namespace visops
