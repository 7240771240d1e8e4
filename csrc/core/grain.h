// How much work is worth a task of its own.
#pragma once

#include <cstdint>

namespace visops {

// Tasks that touch fewer elements cost more to hand out than to do.
constexpr int64_t kGrain = 32768;

}  // namespace visops
