// Tiles of pixels and groups of channels that a block has: of pasted images, and of gradients.
#pragma once

#include "cuda/launch.h"

namespace visops {
namespace {

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
