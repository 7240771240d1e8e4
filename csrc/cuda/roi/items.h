// How a box's bins and channels are divided among threads and blocks.
#pragma once

#include "cuda/launch.h"
#include "cuda/roi/map.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 4;              // channels of an item
constexpr int kMostRounds = 4;         // items of a thread
constexpr int64_t kManyBlocks = 8192;  // enough to keep the largest GPUs busy

// One bin of some channels: `count` of them, `step` apart.
struct Item {
  int64_t bin_y, bin_x, channel, step;
  int count;
};

VISOPS_FN int64_t item_count(const RoiAlignParams& p, bool on_channels) {
  const int64_t bins = p.bins_y * p.bins_x;
  return on_channels ? bins * parts_of(p.channels, kWarp * kGroup) * kWarp
                     : bins * parts_of(p.channels, kGroup);
}

// Item i of item_count(); consecutive items are adjacent channels, or bins.
__device__ inline Item item_at(const RoiAlignParams& p, bool on_channels, int64_t i) {
  const int64_t bins = p.bins_y * p.bins_x;
  const int64_t step = on_channels ? kWarp : 1;
  const int64_t line = i / step, group = line / bins, bin = line - group * bins;
  Item item;
  item.channel = group * kGroup * step + i - line * step;
  item.step = step;
  item.bin_y = bin / p.bins_x;
  item.bin_x = bin - item.bin_y * p.bins_x;
  const int64_t left = p.channels - item.channel;
  item.count = at_most<kGroup>(left > 0 ? parts_of(left, step) : 0);
  return item;
}

// Blocks of work: slices of a box's items fastest, then boxes.
struct ItemPlan {
  int64_t slices, slice_size, blocks;
};

inline ItemPlan plan_items(const RoiAlignParams& p) {
  int64_t items = 0;
  for (int64_t level = 0; level < p.levels; ++level) {
    const int64_t count = item_count(p, lanes_are_channels(p.maps[level], p.channels));
    if (count > items) items = count;
  }
  const bool is_many = p.boxes.count * parts_of(items, kThreads) >= kManyBlocks;
  ItemPlan plan;
  plan.slice_size = is_many ? kMostRounds * kThreads : kThreads;
  plan.slices = parts_of(items, plan.slice_size);
  plan.blocks = p.boxes.count * plan.slices;
  return plan;
}

// f(item) for the items of one slice that are this thread's.
template <class F>
__device__ void for_items(const RoiAlignParams& p, const ItemPlan& plan, int64_t slice,
                          bool on_channels, const F& f) {
  const int64_t items = item_count(p, on_channels), next = (slice + 1) * plan.slice_size;
  const int64_t end = next < items ? next : items;
  for (int64_t i = slice * plan.slice_size + threadIdx.x; i < end; i += kThreads) {
    const Item item = item_at(p, on_channels, i);
    if (item.count > 0) f(item);
  }
}

template <class T, class Acc>
__device__ void store_item(const RoiAlignParams& p, int64_t k, const Item& item,
                           const Acc* values) {
  T* out = static_cast<T*>(p.bins) + bin_offset(p, k, item.channel, item.bin_y, item.bin_x);
#pragma unroll
  for (int c = 0; c < kGroup; ++c) {
    if (c < item.count) store_element(out + c * item.step * p.channel_stride, values[c]);
  }
}

}  // namespace
}  // namespace visops
