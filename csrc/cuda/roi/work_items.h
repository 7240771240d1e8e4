// How a box's bins and channels are divided among threads and blocks.
#pragma once

#include "cuda/launch.h"
#include "cuda/reload.h"
#include "cuda/roi/map_layout.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 4;              // channels of an item
constexpr int kMostRounds = 4;         // items of a thread
constexpr int64_t kManyBlocks = 8192;  // enough to keep the largest GPUs busy

// One bin of some channels: `count` of them, `step` apart.
struct Item {
  int64_t channel;
  int32_t bin_y, bin_x;
  int step, count;
};

VISOPS_FN int64_t item_count(const RoiAlignParams& p, bool on_channels) {
  const int64_t bins = p.bins_y * p.bins_x;
  return on_channels ? bins * parts_of(p.channels, kWarp * kGroup) * kWarp
                     : bins * parts_of(p.channels, kGroup);
}

// Blocks of work: slices of a box's items fastest, then boxes.
struct ItemPlan {
  int64_t slices, blocks;
  int slice_size;
};

// A slice, in shared memory: its box, and where its items begin. Items go over bins, then groups of
// channels; if lanes are channels, a warp's are alike but for the channel.
struct ItemSlice {
  int64_t box, group;
  int32_t bin_y, bin_x, count;
};

__device__ inline ItemSlice slice_of_box(const RoiAlignParams& p, const ItemPlan& plan, int64_t k,
                                         int64_t number, bool on_channels) {
  ItemSlice slice;
  slice.box = k;
  const int64_t first = number * plan.slice_size;
  const int64_t left = item_count(p, on_channels) - first;
  slice.count =
      left > 0 ? static_cast<int32_t>(left < plan.slice_size ? left : plan.slice_size) : 0;
  const int64_t line = on_channels ? first / kWarp : first, row = line / p.bins_x;
  slice.group = row / p.bins_y;
  slice.bin_y = static_cast<int32_t>(row - slice.group * p.bins_y);
  slice.bin_x = static_cast<int32_t>(line - row * p.bins_x);
  return slice;
}

// Item i of a slice. It divides 32-bit numbers alone.
__device__ inline Item item_at(const RoiAlignParams& p, const ItemSlice& slice, bool on_channels,
                               uint32_t i) {
  const auto bins_y = static_cast<uint32_t>(p.bins_y), bins_x = static_cast<uint32_t>(p.bins_x);
  const uint32_t line = on_channels ? i / kWarp : i;
  const uint32_t x = static_cast<uint32_t>(reload(slice.bin_x)) + line, rows = x / bins_x;
  const uint32_t y = static_cast<uint32_t>(reload(slice.bin_y)) + rows, groups = y / bins_y;
  Item item;
  item.bin_x = static_cast<int32_t>(x - rows * bins_x);
  item.bin_y = static_cast<int32_t>(y - groups * bins_y);
  const int64_t group = reload(slice.group) + groups;
  item.channel = on_channels ? group * (kGroup * kWarp) + i % kWarp : group * kGroup;
  item.step = on_channels ? kWarp : 1;
  const int64_t left = p.channels - item.channel;
  item.count = at_most<kGroup>(on_channels ? parts_of(left, kWarp) : left);
  return item;
}

// Where the channels of bins lie on a map: each has one of its own.
struct SameChannels {
  VISOPS_DEVICE static bool are_lanes(const RoiAlignParams& p, const RoiMap& map) {
    return lanes_are_channels(map, p.channels);
  }
  VISOPS_DEVICE static int64_t first_of(const RoiAlignParams&, const Item& item) {
    return item.channel;
  }
  VISOPS_DEVICE static int64_t step(const RoiAlignParams&) { return 1; }
};

template <class Channels>
ItemPlan plan_items(const RoiAlignParams& p) {
  int64_t items = 0;
  for (int64_t level = 0; level < p.levels; ++level) {
    const int64_t count = item_count(p, Channels::are_lanes(p, p.maps[level]));
    if (count > items) items = count;
  }
  const bool is_many = p.boxes.count * parts_of(items, kThreads) >= kManyBlocks;
  ItemPlan plan;
  plan.slice_size = is_many ? kMostRounds * kThreads : kThreads;
  plan.slices = parts_of(items, plan.slice_size);
  plan.blocks = p.boxes.count * plan.slices;
  return plan;
}

// Loads a block's slice; load(k) loads box k to shared memory and returns its Roi. Called by all
// threads of the block, which synchronise here.
template <class Channels, class Load>
__device__ void load_slice(const RoiAlignParams& p, const ItemPlan& plan, int64_t block,
                           const Load& load, ItemSlice* slice) {
  if (threadIdx.x == 0) {
    const int64_t k = block / plan.slices;
    const bool on_channels = Channels::are_lanes(p, p.maps[load(k).level]);
    *slice = slice_of_box(p, plan, k, block - k * plan.slices, on_channels);
  }
  __syncthreads();
}

// f(item) for the items of a slice that are this thread's.
template <class F>
__device__ void for_items(const RoiAlignParams& p, const ItemSlice& slice, bool on_channels,
                          const F& f) {
  for (int i = static_cast<int>(threadIdx.x); i < reload(slice.count); i += kThreads) {
    const Item item = item_at(p, slice, on_channels, static_cast<uint32_t>(i));
    if (item.count > 0) f(item);
  }
}

// Where the first bin of an item lies among those of its box.
template <class Offset>
__device__ Offset item_offset(const RoiAlignParams& p, const Item& item) {
  return static_cast<Offset>(bin_offset(p, 0, item.channel, item.bin_y, item.bin_x));
}

// Stores the values of an item of box k, given its item_offset().
template <class T, class Acc>
__device__ void store_item(const RoiAlignParams& p, int64_t k, const Item& item, int64_t offset,
                           const Acc* values) {
  T* out = static_cast<T*>(p.bins) + k * p.roi_stride + offset;
#pragma unroll
  for (int c = 0; c < kGroup; ++c) {
    if (c < item.count) store_element(out + c * item.step * p.channel_stride, values[c]);
  }
}

}  // namespace
}  // namespace visops
