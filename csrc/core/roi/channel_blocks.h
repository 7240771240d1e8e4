// How CPU kernels split the gradient of a map when each channel of an image is independent.
#pragma once

#include "core/roi/align.h"

namespace visops {

constexpr int64_t kChannelBlock = 16;  // a cache line of float32

// Pieces of work of an image; a task may take neighbouring pieces together.
VISOPS_FN int64_t channel_blocks(const RoiAlignParams& p) {
  return (p.channels + kChannelBlock - 1) / kChannelBlock;
}

}  // namespace visops
