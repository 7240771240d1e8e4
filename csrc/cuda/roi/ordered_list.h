// Lists in shared memory, in the order of the block's threads.
#pragma once

#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kMostListWarps = 8;  // of a block that lists

// Appends `item` of every thread that wants it to the `count` items listed, and returns how many
// there are then. Called by all threads of the block, which synchronise here: items may be read
// when this returns, and stay until all threads have called it again.
template <class Item>
__device__ int append_in_order(bool is_wanted, const Item& item, int count, Item* items,
                               int* in_warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const unsigned wanted = __ballot_sync(0xffffffffu, is_wanted);
  if (lane == 0) in_warps[warp] = __popc(wanted);
  __syncthreads();
  int at = count;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) at += in_warps[w];
    count += in_warps[w];
  }
  if (is_wanted) items[at + __popc(wanted & ((1u << lane) - 1u))] = item;
  __syncthreads();
  return count;
}

}  // namespace
}  // namespace visops
