// Values as the levels of 8 bits, for operations that know no others. Floating values take 256 of
// them, with white at 1.
#pragma once

#include <cstdint>

#include "core/numbers/element.h"

namespace visops {

VISOPS_FN uint8_t rounded_byte(float value) {
  uint8_t out;
  store_element(&out, value);
  return out;
}

VISOPS_FN uint8_t rounded_level(uint8_t value) { return value; }
VISOPS_FN uint8_t rounded_level(float value) { return rounded_byte(value * 255.0f); }

template <class T>
VISOPS_FN T value_of_level(uint8_t level) {
  if constexpr (sizeof(T) == 1) {
    return level;
  } else {
    return static_cast<float>(level) * (1.0f / 255.0f);
  }
}

}  // namespace visops
