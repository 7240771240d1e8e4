// Sums over the levels of a histogram.
#pragma once

#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kLevelCount = 256;

// count[v] becomes the sum of count[0] to count[v]. All threads of the block call it, of which
// there are kLevelCount or more; it begins and ends with a barrier.
__device__ inline void sum_up(unsigned* count) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  for (int reach = 1; reach < kLevelCount; reach *= 2) {
    unsigned other = 0;
    if (thread >= reach && thread < kLevelCount) other = count[thread - reach];
    __syncthreads();
    if (thread < kLevelCount) count[thread] += other;
    __syncthreads();
  }
}

}  // namespace
}  // namespace visops
