// Gradients of maps by blocks of channels: a pixel belongs to one task, which zeroes it once.
#pragma once

#include "core/dispatch/grain.h"
#include "core/dispatch/workspace.h"
#include "core/roi/align.h"

namespace visops {
namespace {

constexpr int64_t kChannelBlock = 16;  // a cache line of float32

constexpr int64_t kMostChannels = 256;  // taken together; more would not make runs any faster

// use(image, first channel, end) for all blocks of channels of all images, in parallel. An image's
// neighbouring blocks are taken together, up to `most` channels, so that channels_last maps are
// read in long runs.
template <class Use>
void for_each_channel_run(const RoiAlignParams& p, Workspace& workspace, int64_t most,
                          const Use& use) {
  const int64_t blocks = (p.channels + kChannelBlock - 1) / kChannelBlock;
  const int64_t cost = p.maps[0].height * p.maps[0].width * kChannelBlock;
  parallel_for(workspace, p.images * blocks, grain_of(cost), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t left = blocks - i % blocks;
      int64_t count = end - i < left ? end - i : left;
      count = count < most / kChannelBlock ? count : most / kChannelBlock;
      const int64_t first = i % blocks * kChannelBlock, last = first + count * kChannelBlock;
      use(i / blocks, first, last < p.channels ? last : p.channels);
      i += count;
    }
  });
}

// Zeroes channels [first, last) of an image. `map` is its channel 0; all pixels, also across rows,
// are column_stride apart.
template <class Acc>
void zero_channels(const RoiMap& m, Acc* map, int64_t first, int64_t last) {
  const int64_t pixels = m.height * m.width;
  if (m.channel_stride == 1) {
    for (int64_t i = 0; i < pixels; ++i) {
      for (int64_t c = first; c < last; ++c) map[i * m.column_stride + c] = static_cast<Acc>(0);
    }
    return;
  }
  for (int64_t c = first; c < last; ++c) {
    Acc* plane = map + c * m.channel_stride;
    for (int64_t i = 0; i < pixels; ++i) plane[i] = static_cast<Acc>(0);
  }
}

}  // namespace
}  // namespace visops
