// The order in which long sums are taken.
//
// NOTE [ Lane sums ]
// Floating sums depend on their order, so a long sum has the same on every device. Item j is added
// to lane j mod 32 of 32 lanes; then the lanes are halved into one (l += l + 16, ..., l += l + 1).
#pragma once

#include <cstdint>

namespace visops {

constexpr int64_t kSumLanes = 32;

}  // namespace visops
