// The lanes of NOTE [ Sums of the pairs' gradients ] on CUDA: those of a warp.
#pragma once

#include "core/boxes/iou.h"

namespace visops {
namespace {

constexpr int kLanes = static_cast<int>(kPairLanes);
constexpr unsigned kAllLanes = 0xffffffffu;

// The sum is lane 0's.
template <class Acc>
__device__ Acc sum_lanes(Acc lane) {
  for (int half = kLanes / 2; half > 0; half /= 2) lane += __shfl_down_sync(kAllLanes, lane, half);
  return lane;
}

}  // namespace
}  // namespace visops
