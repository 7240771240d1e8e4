// Floating numbers as integers of the same order: their maximum can be an atomic one.
#pragma once

#include "core/numbers/element.h"

namespace visops {
namespace {

// -0 comes before 0; NaN is not allowed.
VISOPS_FN uint32_t ordered_bits(float value) {
  const auto bits = bit_cast<uint32_t>(value);
  return bits ^ (bits >> 31 != 0 ? 0xffffffffu : 0x80000000u);
}
VISOPS_FN unsigned long long ordered_bits(double value) {  // the type that atomicMax() takes
  const auto bits = bit_cast<unsigned long long>(value);
  return bits ^ (bits >> 63 != 0 ? ~0ull : 1ull << 63);
}

VISOPS_FN float value_of_bits(uint32_t bits) {
  return bit_cast<float>(bits ^ (bits >> 31 != 0 ? 0x80000000u : 0xffffffffu));
}
VISOPS_FN double value_of_bits(unsigned long long bits) {
  return bit_cast<double>(bits ^ (bits >> 63 != 0 ? 1ull << 63 : ~0ull));
}

template <class Value>
using OrderedBits = decltype(ordered_bits(Value()));

}  // namespace
}  // namespace visops
