// The four pixels that a bilinear sample reads: (y, x), the one right of it, and the two below.
#pragma once

#include <cstdint>

namespace visops {

// Bits of the taps that lie in the map.
enum : int32_t { kTap00 = 1, kTap01 = 2, kTap10 = 4, kTap11 = 8, kAllTaps = 15 };

}  // namespace visops
