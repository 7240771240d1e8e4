// A box's gradient while it is being summed: the lanes of NOTE [ Gradient of the boxes ].
#pragma once

#include "core/roi/gradient.h"
#include "cpu/lane_sum.h"

namespace visops {
namespace {

template <class Acc>
struct alignas(64) BoxLanes {
  Acc x1[kSumLanes], y1[kSumLanes], x2[kSumLanes], y2[kSumLanes];
};

// Adds a row of bins to the total.
template <class Acc>
void add_lanes(const BoxLanes<Acc>& row, BoxLanes<Acc>* total) {
  for (int64_t l = 0; l < kSumLanes; ++l) {
    total->x1[l] += row.x1[l];
    total->y1[l] += row.y1[l];
    total->x2[l] += row.x2[l];
    total->y2[l] += row.y2[l];
  }
}

// Sums the lanes, which it overwrites, and stores the gradient.
template <class Acc>
void store_lanes_sum(const RoiAlignParams& p, int64_t k, int64_t level, BoxLanes<Acc>* total) {
  const Acc sums[4] = {sum_lanes(total->x1), sum_lanes(total->y1), sum_lanes(total->x2),
                       sum_lanes(total->y2)};
  store_box_gradient(p, k, static_cast<Acc>(p.maps[level].scale), sums);
}

}  // namespace
}  // namespace visops
