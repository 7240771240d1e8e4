// NOTE [ Lane sums ] (core/numbers/lane_sum.h) on the CPU.
#pragma once

#include "core/numbers/lane_sum.h"

namespace visops {
namespace {

// Overwrites the lanes.
template <class Acc>
Acc sum_lanes(Acc (&lanes)[kSumLanes]) {
  for (int64_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace
}  // namespace visops
