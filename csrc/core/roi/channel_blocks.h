// How the gradients of maps are cut on the CPU where every channel of an image is by itself.
#pragma once

#include "core/roi/align.h"

namespace visops {

constexpr int64_t kChannelBlock = 16;  // a cache line of float32

// Pieces of work, image by image; neighbours may be done together.
VISOPS_FN int64_t channel_blocks(const RoiAlignParams& p) {
  return (p.channels + kChannelBlock - 1) / kChannelBlock;
}

}  // namespace visops
