// NOTE [ Gradients of maps by tiles and channels ]
// For roi_pool and roi_align_rotated, where what a bin adds to a map can't be split into rows and
// columns. A block has a small tile of the gradient and up to four warps; each lane has a channel,
// whose sums are in shared memory. Its threads find together, and once for all channels, what
// reaches the tile: boxes of the image (cuda/roi/box_tile.h), then their bins, each by rising
// index. All lanes then add those one after another, each to its own channel only: there are no
// atomics, every sum has one order, and each number of the gradient is written once.
#pragma once

#include "core/roi/align.h"
#include "cuda/launch.h"
#include "cuda/roi/box_tile.h"

namespace visops {
namespace {

// A thread for each element of the bins, in the order of their memory.

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

constexpr int kMostChannelWarps = 4;
constexpr int kMostChannelThreads = kMostChannelWarps * kWarp;

struct ChannelShape {
  static constexpr int kRows = 4, kColumns = 8;
  static bool is_for(const RoiMap&, int64_t) { return true; }
};
constexpr int kTilePixels = ChannelShape::kRows * ChannelShape::kColumns;
static_assert(kTilePixels == kWarp, "lanes store a pixel each");

using ChannelGrid = TileGrid<ChannelShape>;

template <class Acc>
ChannelGrid channel_grid(const RoiAlignParams& p) {
  constexpr int64_t kMostWarps = kMostChannelWarps * sizeof(float) / sizeof(Acc);  // shared memory
  const int64_t groups = parts_of(p.channels, kWarp), slices = parts_of(groups, kMostWarps);
  return tile_grid<ChannelShape>(p, p.channels, parts_of(groups, slices) * kWarp);
}

// The sums of one warp, padded so that lanes of either layout hit different banks.
template <class Acc>
struct WarpSums {
  Acc sum[kTilePixels][kWarp + 1];
};

// Which pixel of the tile that is; -1: another tile's.
__device__ inline int pixel_of_tile(const Tile& tile, int64_t y, int64_t x) {
  const int64_t row = y - tile.row, column = x - tile.column;
  const bool has =
      row >= 0 && row < ChannelShape::kRows && column >= 0 && column < ChannelShape::kColumns;
  return has ? static_cast<int>(row * ChannelShape::kColumns + column) : -1;
}

// The sums of a lane's channel.
template <class Acc>
struct ChannelSums {
  Acc* own;         // a pixel's lie kWarp + 1 apart
  int64_t channel;  // may be beyond the last one

  __device__ void add(int pixel, Acc value) const { own[pixel * (kWarp + 1)] += value; }
};

// Writes the map, a gradient of Acc. use(tile, boxes, count, sums) adds what so many boxes have for
// the tile to a lane's sums, by rising box and bin. It is called by all threads of the block.
template <class Acc, class Use>
__device__ void sum_channel_tiles(const RoiAlignParams& p, const BoxesOfMaps& boxes,
                                  const ChannelGrid& grid, const Use& use) {
  __shared__ BoxList list;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  WarpSums<Acc>& sums = dynamic_shared<WarpSums<Acc>>()[warp];
  const RoiMap& m = p.maps[0];
  for (int64_t i = blockIdx.x; i < grid.count; i += gridDim.x) {
    const Tile tile = tile_at(grid, i);
    const int64_t first = tile.channel + warp * kWarp;
    for (int j = 0; j < kTilePixels; ++j) sums.sum[j][lane] = static_cast<Acc>(0);
    const ChannelSums<Acc> own = {&sums.sum[0][lane], first + lane};
    for_boxes_of<ChannelShape>(p, boxes, tile, &list,
                               [&](int count) { use(tile, list.box, count, own); });
    __syncwarp();
    // Lanes write side by side: channels where those are adjacent, else pixels.
    Acc* out = static_cast<Acc*>(m.data) + tile.image * m.image_stride + first * m.channel_stride;
    for (int j = 0; j < kTilePixels; ++j) {
      const int pixel = m.channel_stride == 1 ? j : lane;
      const int channel = m.channel_stride == 1 ? lane : j;
      const int64_t y = tile.row + pixel / ChannelShape::kColumns;
      const int64_t x = tile.column + pixel % ChannelShape::kColumns;
      if (first + channel < p.channels && y < m.height && x < m.width) {
        out[channel * m.channel_stride + y * m.row_stride + x * m.column_stride] =
            sums.sum[pixel][channel];
      }
    }
    __syncwarp();
  }
}

// Starts kernel(p, arguments..., grid), which calls sum_channel_tiles().
template <class Acc, class Kernel, class Params, class... Arguments>
void launch_channel_tiles(Kernel kernel, const RoiAlignParams& p, void* stream,
                          const Params& params, const Arguments&... arguments) {
  const ChannelGrid grid = channel_grid<Acc>(p);
  const int warps = static_cast<int>(grid.slice_channels / kWarp);
  launch(kernel, grid_for(grid.count), dim3(warps * kWarp), warps * sizeof(WarpSums<Acc>), stream,
         params, arguments..., grid);
}

}  // namespace
}  // namespace visops
