// The lesser and the greater of two sizes. std::min and std::max are functions that objects share,
// and kernels are compiled for several instruction sets.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {

VISOPS_FN int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
VISOPS_FN int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace visops
