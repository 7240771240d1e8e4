// Powers of floating values.
//
// NOTE [ Powers on the CPU ]
// power_of() for chunks of positive, finite values, in vectors of float64: log2_of() without a
// jump, and exp_in_range(), whose range no such value leaves for exponents of usual size. The same
// operations in the same order, so the same bits. The few others are computed by themselves.
#pragma once

#include "core/element.h"
#include "core/elementary.h"
#include "core/pixels/values.h"
#include "core/platform.h"

namespace visops {
namespace {

constexpr int kChunk = 64;
constexpr float kMostExponent = 6.0f;  // 6 x 149 x ln 2 is less than what exp_in_range() takes

// log2_of(), without a jump.
VISOPS_ALWAYS_INLINE double log2_in_vectors(double x) {
  const auto bits = bit_cast<uint64_t>(x);
  // An integer as a double: 2^52 and what is added to it, less 2^52 and the exponent's bias.
  double exponent = bit_cast<double>((bits >> 52) | 0x4330000000000000) - 4503599627371519.0;
  double m = bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  const bool large = m > 1.4142135623730951;
  m = large ? m * 0.5 : m;
  exponent = large ? exponent + 1.0 : exponent;
  return log2_of_parts(m, exponent);
}

VISOPS_ALWAYS_INLINE bool is_plain(float value) { return value > 0.0f && value < INFINITY; }

inline void power_chunk(float* data, float exponent) {
  const auto by = static_cast<double>(exponent);
  float powers[kChunk];
  int others = 0;
  for (int i = 0; i < kChunk; ++i) others += is_plain(data[i]) ? 0 : 1;
  for (int i = 0; i < kChunk; ++i) {
    const double base = is_plain(data[i]) ? static_cast<double>(data[i]) : 1.0;
    powers[i] = static_cast<float>(exp_in_range(log2_in_vectors(base) * by * kLn2));
  }
  for (int i = 0; others > 0 && i < kChunk; ++i) {
    if (!is_plain(data[i])) powers[i] = power_of(data[i], exponent);
  }
  for (int i = 0; i < kChunk; ++i) data[i] = powers[i];
}

// power_of() (core/pixels/values.h) of each value.
inline void raise_to(float exponent, float* data, int64_t count) {
  int64_t i = 0;
  const bool usual = exponent <= kMostExponent && exponent >= -kMostExponent;
  if (usual && exponent != 0.0f) {
    for (; i + kChunk <= count; i += kChunk) power_chunk(data + i, exponent);
  }
  for (; i < count; ++i) data[i] = power_of(data[i], exponent);
}

}  // namespace
}  // namespace visops
