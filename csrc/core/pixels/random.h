// Random numbers as a function of a key and a position: Philox 4x32 with seven rounds, the fewest
// that pass all tests of randomness (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011).
//
// NOTE [ Places of random numbers ]
// Numbers come in blocks of 128, whatever part of an image is computed. Counter c makes four words,
// of 64: those at c % 16, and 16, 32 and 48 behind it. Numbers in [0, 1) take a word each, so two
// times 64 words make a block of them. Normal numbers are Box and Muller's: a word's halves are a
// radius, up to 4.85, and an angle; the two numbers of word w are at w and at 64 + w.
//
// The logarithm's and the sines' polynomials are those of the Cephes library, so that every
// instruction set and device has the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/numbers/element.h"
#include "core/numbers/elementary.h"

namespace visops {

constexpr int kRandomWords = 64;  // that are made together
constexpr int kRandomLanes = kRandomWords / 4;
constexpr int kRandomBlock = 2 * kRandomWords;

struct RandomKey {
  uint32_t low, high;
};

VISOPS_FN RandomKey random_key(uint64_t key) {
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

constexpr int kRandomRounds = 7;
constexpr uint32_t kFirstFactor = 0xD2511F53u, kSecondFactor = 0xCD9E8D57u;

// One round on a counter's four words. The key changes from round to round by next_key().
VISOPS_HOT_FN void random_round(const RandomKey& key, uint32_t& a, uint32_t& b, uint32_t& c,
                                uint32_t& d) {
  const uint64_t p = static_cast<uint64_t>(a) * kFirstFactor;
  const uint64_t q = static_cast<uint64_t>(c) * kSecondFactor;
  a = static_cast<uint32_t>(q >> 32) ^ b ^ key.low;
  b = static_cast<uint32_t>(q);
  c = static_cast<uint32_t>(p >> 32) ^ d ^ key.high;
  d = static_cast<uint32_t>(p);
}

VISOPS_HOT_FN RandomKey next_key(const RandomKey& key) {
  return {key.low + 0x9E3779B9u, key.high + 0xBB67AE85u};
}

// A multiple of 2^-24 in [0, 1).
VISOPS_HOT_FN float unit_of(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 5.9604645e-08f;
}

// ln x of a positive normal number.
VISOPS_HOT_FN float log_of(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  // The mantissa in [1/2, 1), doubled below the square root of 1/2.
  float m = bit_cast<float>((bits & 0x7fffffu) | 0x3f000000u);
  const int small = m < 0.70710678f ? 1 : 0;
  const float e = static_cast<float>(static_cast<int>(bits >> 23) - 126 - small);
  m = (small != 0 ? m + m : m) - 1.0f;
  const float z = m * m;
  const float y = log_polynomial(m) * m * z - 0.5f * z + e * -2.12194440e-4f;
  return m + y + e * 0.693359375f;
}

// Two numbers of mean 0 and variance 1.
struct NormalPair {
  float first, second;
};

VISOPS_HOT_FN NormalPair normals_of(uint32_t word) {
  const auto low = static_cast<int32_t>(word & 0xffffu);
  const auto high = static_cast<int32_t>(word >> 16);
  const float unit = (static_cast<float>(low) + 0.5f) * 1.52587890625e-5f;
  const float radius = sqrtf(-2.0f * log_of(unit));
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
  return {first * first_sign, second * second_sign};
}

}  // namespace visops
