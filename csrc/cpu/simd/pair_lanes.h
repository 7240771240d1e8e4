// The lanes of NOTE [ Sums of the pairs' gradients ] on the CPU.
#pragma once

#include "core/boxes/iou.h"

namespace visops {
namespace {

constexpr int64_t kLanes = kPairLanes;

// Overwrites the lanes.
template <class Acc>
Acc sum_lanes(Acc (&lanes)[kLanes]) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace
}  // namespace visops
