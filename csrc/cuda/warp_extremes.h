// The least and the greatest of a warp's numbers.
#pragma once

#include <cstdint>

#include "cuda/launch.h"

namespace visops {
namespace {

__device__ inline int32_t least_of_warp(int32_t number) {
  const uint32_t ordered = static_cast<uint32_t>(number) ^ 0x80000000u;
  return static_cast<int32_t>(~__reduce_max_sync(0xffffffffu, ~ordered) ^ 0x80000000u);
}
__device__ inline int32_t most_of_warp(int32_t number) { return ~least_of_warp(~number); }

}  // namespace
}  // namespace visops
