// NOTE [ Lane sums ] (core/numbers/lane_sum.h) on CUDA: a lane is a thread of a warp.
#pragma once

#include "core/numbers/lane_sum.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kWarpLanes = static_cast<int>(kSumLanes);
constexpr unsigned kAllLanes = 0xffffffffu;

// Lane 0 gets the sum.
template <class Acc>
__device__ Acc sum_lanes(Acc lane) {
  for (int half = kWarpLanes / 2; half > 0; half /= 2)
    lane += __shfl_down_sync(kAllLanes, lane, half);
  return lane;
}

}  // namespace
}  // namespace visops
