// Gradients of maps by blocks of channels: no pixel belongs to two tasks, and none is zeroed twice.
#pragma once

#include "core/roi/channel_blocks.h"

namespace visops {
namespace {

constexpr int64_t kMostChannels = 256;  // that there is a use of doing together

// use(image, first channel, last) for blocks `begin` to `end`; neighbours of an image are taken
// together, up to `most` channels, so that what lies channels_last is read in long runs.
template <class Use>
void for_each_channel_run(const RoiAlignParams& p, int64_t begin, int64_t end, int64_t most,
                          const Use& use) {
  const int64_t blocks = channel_blocks(p);
  for (int64_t i = begin; i < end;) {
    const int64_t left = blocks - i % blocks;
    int64_t count = end - i < left ? end - i : left;
    count = count < most / kChannelBlock ? count : most / kChannelBlock;
    const int64_t first = i % blocks * kChannelBlock, last = first + count * kChannelBlock;
    use(i / blocks, first, last < p.channels ? last : p.channels);
    i += count;
  }
}

// `map` is channel 0 of an image of a gradient, whose pixels are `column_stride` apart throughout.
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
