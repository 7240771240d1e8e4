// Long sums of few results, cut into slices: each is summed by blocks of its own, and a second
// kernel adds the slices in order. How they are cut depends on the shapes alone.
#pragma once

#include <cstdint>

#include "core/parts.h"
#include "core/platform.h"

namespace visops {
namespace {

struct DepthSlices {
  int64_t count, each;  // of the depth
};

struct DepthLimits {
  int64_t blocks;  // wanted, some for each multiprocessor
  int64_t least;   // of the depth in a slice
  int64_t bytes;   // of scratch, at most, unless one slice takes more
};

// `tiles` blocks sum a slice, whose sums take `slice_bytes`.
VISOPS_FN DepthSlices cut_depth(int64_t depth, int64_t tiles, int64_t slice_bytes,
                                const DepthLimits& limits) {
  const auto least_of = [](int64_t a, int64_t b) { return a < b ? a : b; };
  int64_t count = least_of(parts_of(limits.blocks, tiles), limits.bytes / slice_bytes);
  count = least_of(count, parts_of(depth, limits.least));
  if (count < 1) count = 1;
  const int64_t each = parts_of(depth, count);
  return {each > 0 ? parts_of(depth, each) : 0, each};
}

}  // namespace
}  // namespace visops
