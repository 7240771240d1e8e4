// The threads and warps of a grid that strides over work.
#pragma once

#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr unsigned kWholeWarp = 0xffffffffu;

// Where this thread or warp begins, and how many there are.
__device__ inline int64_t first_thread() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ inline int64_t all_threads() { return static_cast<int64_t>(gridDim.x) * kThreads; }
__device__ inline int64_t first_warp() { return first_thread() / kWarp; }
__device__ inline int64_t all_warps() { return static_cast<int64_t>(gridDim.x) * kWarps; }

inline dim3 grid_of_threads(int64_t count) { return grid_for((count + kThreads - 1) / kThreads); }
inline dim3 grid_of_warps(int64_t count) { return grid_for((count + kWarps - 1) / kWarps); }

}  // namespace
}  // namespace visops
