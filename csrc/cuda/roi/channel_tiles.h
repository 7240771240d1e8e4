// How the kernels of roi_pool, ps_roi_align and roi_align_rotated divide their work.
//
// Forward: a thread has an element of the bins, in the order of their memory.
//
// NOTE [ Gradients of maps by tiles ]
// A block is one warp. It has a tile of the gradient's pixels, and each lane has a channel, whose
// sums are in shared memory. Boxes are taken by index, 32 at a time: every lane tests whether one
// of them can reach the tile, and all lanes then take those that can one after another. A lane adds
// to its own channel only: there are no atomics, every sum has one order, and each number of the
// gradient is written once.
#pragma once

#include "core/element_types.h"
#include "core/roi/layout.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kTileSide = 8;
constexpr int kTilePixels = kTileSide * kTileSide;

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

// `channels` of the map: groups of a warp's, fastest, then tiles of each image.
struct ChannelTiles {
  int64_t channels, groups, columns, rows, count;
};

inline ChannelTiles channel_tiles(const RoiAlignParams& p, int64_t channels) {
  const auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  ChannelTiles tiles;
  tiles.channels = channels;
  tiles.groups = parts(channels, kWarp);
  tiles.columns = parts(p.maps[0].width, kTileSide);
  tiles.rows = parts(p.maps[0].height, kTileSide);
  tiles.count = tiles.groups * tiles.columns * tiles.rows * p.images;
  return tiles;
}

// One of them. This lane's sums of its channel; lanes beyond the last one have some too.
template <class Acc>
struct ChannelTile {
  int64_t image, channel;
  int64_t top, bottom, left, right;  // rows and columns of pixels; from the first to below the last
  Acc* sums;

  __device__ bool has(int64_t y, int64_t x) const {
    return y >= top && y < bottom && x >= left && x < right;
  }
  // Pixel (y, x) is in the tile.
  __device__ void add(int64_t y, int64_t x, Acc value) const {
    sums[((y - top) * kTileSide + (x - left)) * (kWarp + 1)] += value;
  }
};

// The map is the gradient, of Acc. touches(tile, k) says for box k whether add(tile, k) has
// anything to add; that is called by whole warps.
template <class Acc, class Touches, class Add>
__device__ void sum_channel_tiles(const RoiAlignParams& p, const ChannelTiles& tiles,
                                  const Touches& touches, const Add& add) {
  __shared__ Acc sums[kTilePixels * (kWarp + 1)];
  const RoiMap& m = p.maps[0];
  const int lane = static_cast<int>(threadIdx.x);
  for (int64_t i = blockIdx.x; i < tiles.count; i += gridDim.x) {
    const int64_t at = i / tiles.groups, row = at / tiles.columns;
    ChannelTile<Acc> tile;
    const int64_t first = (i - at * tiles.groups) * kWarp;
    tile.channel = first + lane;
    tile.image = row / tiles.rows;
    tile.top = (row - tile.image * tiles.rows) * kTileSide;
    tile.left = (at - row * tiles.columns) * kTileSide;
    tile.bottom = m.height - tile.top < kTileSide ? m.height : tile.top + kTileSide;
    tile.right = m.width - tile.left < kTileSide ? m.width : tile.left + kTileSide;
    tile.sums = sums + lane;
    for (int j = 0; j < kTilePixels; ++j) tile.sums[j * (kWarp + 1)] = static_cast<Acc>(0);

    for (int64_t box = 0; box < p.boxes.count; box += kWarp) {
      const int64_t own = box + lane;
      unsigned left = __ballot_sync(kWholeWarp, own < p.boxes.count && touches(tile, own));
      for (; left != 0; left &= left - 1) {
        add(tile, box + __ffs(static_cast<int>(left)) - 1);
      }
    }

    __syncwarp();
    // Lanes write side by side: channels where those are adjacent, else pixels.
    Acc* out = static_cast<Acc*>(m.data) + tile.image * m.image_stride + first * m.channel_stride;
    const bool by_channels = m.channel_stride == 1;
    for (int j = lane; j < kTilePixels * kWarp; j += kWarp) {
      const int pixel = by_channels ? j / kWarp : j % kTilePixels;
      const int channel = by_channels ? j % kWarp : j / kTilePixels;
      const int64_t y = tile.top + pixel / kTileSide, x = tile.left + pixel % kTileSide;
      if (first + channel < tiles.channels && y < tile.bottom && x < tile.right) {
        out[channel * m.channel_stride + y * m.row_stride + x * m.column_stride] =
            sums[pixel * (kWarp + 1) + channel];
      }
    }
    __syncwarp();
  }
}

}  // namespace
}  // namespace visops
