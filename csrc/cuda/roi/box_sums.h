// The sums of NOTE [ Gradient of the boxes ] (core/roi/gradient.h) on CUDA: a block has a box, a
// warp one row of its bins at a time, and lane l the channels l, l + 32, ...
#pragma once

#include "core/roi/gradient.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kSumWarps = 8;
constexpr int kSumThreads = kSumWarps * kWarpLanes;

template <class Acc>
struct BoxSums {
  Acc x1, y1, x2, y2;
};

// What the warps of a block pass to the first one.
template <class Acc>
struct RowSums {
  BoxSums<Acc> of_row[kSumWarps][kWarpLanes];
};

// Writes the gradient of box k. row_sums(y) returns this lane's sums of one row of bins. Called by
// all threads of the block, which synchronise here.
template <class Acc, class F>
__device__ void sum_rows(const RoiAlignParams& p, int64_t k, const Roi<Acc>& roi,
                         RowSums<Acc>* shared, const F& row_sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  BoxSums<Acc> total = {};  // of the first warp
  for (int64_t first = 0; roi.valid && first < p.bins_y; first += kSumWarps) {
    if (first + warp < p.bins_y)
      shared->of_row[warp][lane] = row_sums(static_cast<int32_t>(first + warp));
    __syncthreads();
    for (int w = 0; warp == 0 && w < kSumWarps && first + w < p.bins_y; ++w) {
      const BoxSums<Acc>& row = shared->of_row[w][lane];
      total.x1 += row.x1;
      total.y1 += row.y1;
      total.x2 += row.x2;
      total.y2 += row.y2;
    }
    __syncthreads();
  }
  if (warp != 0) return;
  const Acc sums[4] = {sum_lanes(total.x1), sum_lanes(total.y1), sum_lanes(total.x2),
                       sum_lanes(total.y2)};
  if (lane == 0) store_box_gradient(p, k, static_cast<Acc>(p.maps[roi.level].scale), sums);
}

}  // namespace
}  // namespace visops
