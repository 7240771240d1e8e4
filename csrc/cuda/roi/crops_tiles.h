// Tiles of pixels and groups of channels that a block has: of pasted images, and of gradients.
#pragma once

#include "cuda/launch.h"

namespace visops {
namespace {

// The boxes that concern a block of threads, by rising index.

constexpr int kListThreads = 256;
constexpr int kListWarp = 32;

// `Box` is an index, or what else is to be known of a box.
template <int Most, class Box = int32_t>
struct BoxList {
  Box boxes[Most];
  int count;  // more than Most: the list is incomplete
  int in_warps[kListThreads / kListWarp];
};

// Appends the box of every thread that wants it, in the threads' order. Called by all threads of
// the block, which synchronise here; the list may be read when this returns. Synchronise again
// before the next call.
template <int Most, class Box>
__device__ inline void append_box(bool is_wanted, const Box& box, BoxList<Most, Box>* list) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kListWarp, warp = thread / kListWarp;
  const unsigned wanted = __ballot_sync(0xffffffffu, is_wanted);
  if (lane == 0) list->in_warps[warp] = __popc(wanted);
  __syncthreads();
  int at = list->count;
  for (int w = 0; w < warp; ++w) at += list->in_warps[w];
  at += __popc(wanted & ((1u << lane) - 1u));
  if (is_wanted && at < Most) list->boxes[at] = box;
  __syncthreads();  // all have read the count
  if (thread == kListThreads - 1) list->count = at + (is_wanted ? 1 : 0);
  __syncthreads();
}

// Called by all threads of the block. append_box() must be called before the list is read: it
// synchronises first.
template <int Most, class Box>
__device__ inline void clear_list(BoxList<Most, Box>* list) {
  if (threadIdx.x == 0) list->count = 0;
}

constexpr int kTargetWidth = 32, kTargetHeight = 8;
constexpr int kChannelGroup = 4;  // channels whose sums a thread keeps at once

// Pieces of work: channel group fastest, then tile column, tile row, image (or box).
struct TargetGrid {
  int64_t groups, columns, rows, count;
};

inline TargetGrid target_grid(int64_t batch, int64_t channels, int64_t height, int64_t width) {
  TargetGrid grid;
  grid.groups = (channels + kChannelGroup - 1) / kChannelGroup;
  grid.columns = (width + kTargetWidth - 1) / kTargetWidth;
  grid.rows = (height + kTargetHeight - 1) / kTargetHeight;
  grid.count = batch * grid.rows * grid.columns * grid.groups;
  return grid;
}

struct TargetTile {
  int64_t sample, channel, y, x;  // of its first element
};

__device__ inline TargetTile target_tile(const TargetGrid& grid, int64_t i) {
  const int64_t tile = i / grid.groups, row = tile / grid.columns;
  TargetTile at;
  at.channel = (i - tile * grid.groups) * kChannelGroup;
  at.sample = row / grid.rows;
  at.x = (tile - row * grid.columns) * kTargetWidth;
  at.y = (row - at.sample * grid.rows) * kTargetHeight;
  return at;
}

__device__ inline int channels_of_group(int64_t channels, int64_t first) {
  return channels - first < kChannelGroup ? static_cast<int>(channels - first) : kChannelGroup;
}

}  // namespace
}  // namespace visops
