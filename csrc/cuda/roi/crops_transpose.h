// NOTE [ Transposed samples on CUDA ]
// A thread has one pixel of the gradient, for a few channels. It finds the places of a box's grid
// that may have a tap on it (grid_places), tests them with the exact coordinate arithmetic, and
// adds them up in the order of NOTE [ Transposed samples ] (core/roi/crops.h). No atomics; the bits
// are the CPU's.
#pragma once

#include "core/roi/crops_pixel.h"
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

// `values` has place(i, j), called once before at(channel) for the channels of that place.
template <Interpolation mode, class Acc, class Values>
__device__ void gather_transposed(const CropMap& map, Padding padding, int64_t height,
                                  int64_t width, int64_t y, int64_t x, int channels, Values& values,
                                  Acc sum[kChannelGroup]) {
  constexpr int kTaps = tap_count(mode);
  const Span rows = grid_places<mode>(map.y, map.rows, padding, height, y);
  const Span columns = grid_places<mode>(map.x, map.columns, padding, width, x);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const auto down = grid_taps<mode, Acc>(map.y, i, padding, height);
    bool is_here = false;
    for (int r = 0; r < kTaps; ++r) is_here = is_here || down.index[r] == y;
    if (!is_here) continue;
    Acc along[kChannelGroup] = {};
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      const auto across = grid_taps<mode, Acc>(map.x, j, padding, width);
      bool is_placed = false;
      for (int t = 0; t < kTaps; ++t) {
        if (across.index[t] != x) continue;
        if (!is_placed) values.place(i, j);
        is_placed = true;
        for (int c = 0; c < kChannelGroup; ++c) {
          if (c < channels) along[c] += across.weight[t] * values.at(c);
        }
      }
    }
    for (int r = 0; r < kTaps; ++r) {
      if (down.index[r] != y) continue;
      for (int c = 0; c < kChannelGroup; ++c) sum[c] += down.weight[r] * along[c];
    }
  }
}

}  // namespace
}  // namespace visops
