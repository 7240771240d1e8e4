// How much work is worth a task of its own.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {

// Tasks that touch fewer elements cost more to hand out than to do.
constexpr int64_t kGrain = 32768;

// The least number of items for a task, if each of them touches `cost` elements.
VISOPS_FN int64_t grain_of(int64_t cost) {
  const int64_t items = kGrain / (cost > 1 ? cost : 1);
  return items > 1 ? items : 1;
}

}  // namespace visops
