// Divisors that are computed once, for many threads.
//
// A GPU has no instruction for integer division: 32-bit ones take some 20 instructions, 64-bit ones
// some 100. The quotient by a constant takes three: Granlund and Montgomery, Division by Invariant
// Integers using Multiplication (1994). With shift = ceil(log2 d) and
// magic = floor(2^32 (2^shift - d) / d) + 1, it is (floor(n magic / 2^32) + n) >> shift; n < 2^31
// keeps the sum within 32 bits.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {
namespace {

// For indices of any size: divides.
template <class Index>
struct Divisor {
  Index value;

  VISOPS_DEVICE Index divide(Index n) const { return n / value; }
};

template <>
struct Divisor<int32_t> {
  int32_t value;
  uint32_t magic, shift;

  VISOPS_DEVICE int32_t divide(int32_t n) const {  // n >= 0
    const uint32_t dividend = static_cast<uint32_t>(n);
    const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(dividend) * magic) >> 32);
    return static_cast<int32_t>((high + dividend) >> shift);
  }
};

// `value` is not negative, and below 2^31 for 32-bit indices. Nothing may be divided by 0.
template <class Index>
VISOPS_FN Divisor<Index> divisor_of(int64_t value) {
  Divisor<Index> divisor = {};
  divisor.value = static_cast<Index>(value);
  if constexpr (sizeof(Index) == sizeof(int32_t)) {
    while ((int64_t{1} << divisor.shift) < value) ++divisor.shift;
    const uint64_t d = static_cast<uint64_t>(value > 0 ? value : 1);
    divisor.magic = static_cast<uint32_t>((((uint64_t{1} << divisor.shift) - d) << 32) / d + 1);
  }
  return divisor;
}

}  // namespace
}  // namespace visops
