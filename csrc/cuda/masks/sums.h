// Sums over the threads of a block, of integers: their order doesn't matter.
#pragma once

#include "cuda/threads.h"

namespace visops {
namespace {

template <class T>
__device__ inline T sum_of_warp(T value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, step);
  }
  return value;
}

// The sum of all threads' values, for all of them; `of_warp` has kWarps elements.
template <class T>
__device__ inline T sum_of_block(T value, T* of_warp) {
  const T sum = sum_of_warp(value);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  T all = 0;
  for (int w = 0; w < kWarps; ++w) all += of_warp[w];
  __syncthreads();
  return all;
}

// The sum of the values of all threads before this one.
template <class T>
__device__ inline T sum_before(T value, T* of_warp) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  T sum = value;
  for (int step = 1; step < kWarp; step *= 2) {
    const T other = __shfl_up_sync(kWholeWarp, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == kWarp - 1) of_warp[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += of_warp[w];
  __syncthreads();
  return sum - value;
}

}  // namespace
}  // namespace visops
