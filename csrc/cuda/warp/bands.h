// Bands of a few output rows of a sample, a block each.
#pragma once

#include <cstdint>

#include "cuda/launch.h"

namespace visops {
namespace {

struct Band {
  int64_t sample;
  int32_t y;  // of its first row
};

// By two indices of the block: quotients of one would take registers.
template <int rows>
__device__ inline Band band_at(int64_t first_sample) {
  return {first_sample + blockIdx.y, static_cast<int32_t>(blockIdx.x) * rows};
}

// launch_part(first_sample, blocks), a block for each band and blockIdx.z of `steps`.
template <class Launch>
void each_band(int64_t batch, int64_t bands, int64_t steps, const Launch& launch_part) {
  constexpr int64_t kMost = kMostBlocks < 65535 ? kMostBlocks : 65535;  // a grid's height
  for (int64_t first = 0; first < batch; first += kMost) {
    const int64_t samples = batch - first < kMost ? batch - first : kMost;
    launch_part(first, dim3(static_cast<unsigned>(bands), static_cast<unsigned>(samples),
                            static_cast<unsigned>(steps)));
  }
}

}  // namespace
}  // namespace visops
