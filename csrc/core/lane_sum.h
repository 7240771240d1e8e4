// The order in which long sums are taken.
//
// NOTE [ Lane sums ]
// Floating sums depend on their order, so a long sum has one on every device: 32 lanes, item j in
// lane j mod 32, then the lanes are halved into one (l += l + 16, ..., l += l + 1).
#pragma once

#include <cstdint>

namespace visops {

constexpr int64_t kSumLanes = 32;

}  // namespace visops
