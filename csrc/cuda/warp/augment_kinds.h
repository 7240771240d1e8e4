// Which kernel computes which samples, and how they are launched.
#pragma once

#include "core/warp/augment_segment.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// A kernel for each: see NOTE [ Augment forward on CUDA ].
enum class SampleKind { kPlain, kIntegers, kUpright, kRotated };

__device__ inline SampleKind kind_of(const AugmentSample& s) {
  if (!s.antialias || s.is_fill) return SampleKind::kPlain;
  if (s.integers) return SampleKind::kIntegers;  // upright as well
  const bool upright = !s.map.perspective && s.map.m[1] == 0.0 && s.map.m[3] == 0.0;
  return upright ? SampleKind::kUpright : SampleKind::kRotated;
}

}  // namespace
}  // namespace visops
