// Pixels beyond the rim, mirrored without repeating the rim.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {

// The pixel that stands for number `i` of `n`, mirrored at 0 and n - 1 until it is inside.
VISOPS_FN int32_t mirrored(int32_t i, int32_t n) {
  while (i < 0 || i >= n) {
    if (n == 1) return 0;
    i = i < 0 ? -i : 2 * (n - 1) - i;
  }
  return i;
}

}  // namespace visops
