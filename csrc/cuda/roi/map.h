// Maps of RoIAlign on CUDA: their pixels, and what the threads of a warp are.
#pragma once

#include "core/element_types.h"
#include "core/roi/layout.h"
#include "core/workspace.h"
#include "cuda/load_number.h"
#include "cuda/parts.h"

namespace visops {
namespace {

constexpr int kWarp = 32;

// Whether the lanes of a warp are channels, so that it reads and writes adjacent elements; else
// they are bins, or pixels of a row.
VISOPS_FN bool lanes_are_channels(const RoiMap& map, int64_t channels) {
  return map.channel_stride == 1 && channels >= kWarp;
}

template <int most>
VISOPS_FN int at_most(int64_t count) {
  return count < most ? static_cast<int>(count) : most;
}

}  // namespace
}  // namespace visops
