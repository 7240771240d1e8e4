// Which kernel computes which samples, and how they are launched.
#pragma once

#include "core/warp/augment_segment.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// A kernel for each: see NOTE [ Augment forward on CUDA ].
enum class SampleKind { kPlain, kIntegers, kUpright, kTurned };

__device__ inline SampleKind kind_of(const AugmentSample& s) {
  if (!s.antialias || s.is_fill) return SampleKind::kPlain;
  if (s.integers) return SampleKind::kIntegers;  // upright as well
  const bool upright = !s.map.perspective && s.map.m[1] == 0.0 && s.map.m[3] == 0.0;
  return upright ? SampleKind::kUpright : SampleKind::kTurned;
}

// launch_part(first, blocks), a block for each of `count` tiles from `first` on. Kernels have no
// loop over tiles: what does not change in it would be kept in registers, which are too few.
template <class Launch>
void each_grid(int64_t count, const Launch& launch_part) {
  for (int64_t first = 0; first < count; first += kMostBlocks) {
    launch_part(first, grid_for(count - first));
  }
}

}  // namespace
}  // namespace visops
