// A thread for each element of the bins, in the order of their memory.
#pragma once

#include "core/roi/layout.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;

struct BinAt {
  int64_t box, channel, y, x;
};

// Element i of the bins: channels fastest where they are adjacent.
__device__ inline BinAt bin_at(const RoiAlignParams& p, int64_t i) {
  BinAt at;
  if (p.channel_stride == 1) {
    const int64_t bin = i / p.channels, row = bin / p.bins_x;
    at.channel = i - bin * p.channels;
    at.x = bin - row * p.bins_x;
    at.box = row / p.bins_y;
    at.y = row - at.box * p.bins_y;
  } else {
    const int64_t row = i / p.bins_x, plane = row / p.bins_y;
    at.x = i - row * p.bins_x;
    at.y = row - plane * p.bins_y;
    at.box = plane / p.channels;
    at.channel = plane - at.box * p.channels;
  }
  return at;
}

__device__ inline int64_t bin_offset(const RoiAlignParams& p, const BinAt& at) {
  return bin_offset(p, at.box, at.channel, at.y, at.x);
}

template <class Each>
__device__ void for_each_bin(const RoiAlignParams& p, const Each& each) {
  const int64_t count = p.boxes.count * p.channels * p.bins_y * p.bins_x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    each(bin_at(p, i));
  }
}

inline dim3 grid_for_bins(const RoiAlignParams& p) {
  const int64_t count = p.boxes.count * p.channels * p.bins_y * p.bins_x;
  return grid_for((count + kThreads - 1) / kThreads);
}

}  // namespace
}  // namespace visops
