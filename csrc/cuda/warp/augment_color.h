// The colour matrices of a sample in shared memory.
#pragma once

#include "core/warp/augment.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// load_color_plan() by `threads` threads of the block; this is number `thread`.
template <class Acc>
__device__ inline void share_color_plan(const AugmentParams& p, int64_t sample, int thread,
                                        int threads, ColorPlan<Acc>* plan) {
  const int channels = static_cast<int>(p.channels), columns = channels + 1;
  const int count = static_cast<int>(p.color_steps) * channels * columns;
  for (int i = thread; i < count; i += threads) {
    const int row = i / columns, step = row / channels, column = i % columns;
    plan->step[step][row % channels][column] =
        color_element<Acc>(p, sample, step, row % channels, column);
  }
}

}  // namespace
}  // namespace visops
