// What a chain has drawn for one sample, before any pixel is read: ops/transforms/engine/direct.py.
#pragma once

#include <algorithm>

#include "core/warp/chain.h"

namespace visops {

struct Drawn {
  ChainPlan plan;
  int64_t height, width;  // of the source

  const Placement& placement() const { return plan.placements[0]; }
  int64_t new_height() const { return static_cast<int64_t>(placement().height); }
  int64_t new_width() const { return static_cast<int64_t>(placement().width); }

  // Whether no pixel moves.
  bool is_still() const {
    constexpr double kIdentity[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0};
    return height == new_height() && width == new_width() &&
           std::equal(kIdentity, kIdentity + 9, placement().matrix);
  }
};

}  // namespace visops
