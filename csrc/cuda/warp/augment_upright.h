// Which samples augment_filter() computes, and which the other kernel.
#pragma once

#include "core/warp/augment_segment.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// Launches with antialias pass over each other's tiles, and need not start a block for each.
constexpr int64_t kStridingBlocks = 4096;

inline dim3 grid_over(const AugmentParams& p, int64_t tiles) {
  return grid_for(p.antialias && tiles > kStridingBlocks ? kStridingBlocks : tiles);
}

// load_matrix() by the first nine threads of the block, an element each.
__device__ inline void share_matrix(const AugmentParams& p, int64_t sample, double given[9]) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= 9) return;
  given[i] = i < 3 * p.matrix_rows ? load_matrix_element(p.matrix, sample, i / 3, i % 3)
                                   : static_cast<double>(i == 8);
}

// Whether a sample's map is upright and shrinks; with bicubic, or enlarges, which takes another
// kernel too. Seen from the given matrix, with a margin: every such sample has `antialias`, unless
// it is fill. Few instructions, because all threads of a block ask.
__device__ inline bool filters_upright(const AugmentParams& p, const double given[9]) {
  if (given[1] != 0.0 || given[3] != 0.0 || given[6] != 0.0 || given[7] != 0.0) return false;
  const double whole = fabs(given[8]);
  bool found = false;
  for (int i = 0; i <= 4; i += 4) {
    const double step = fabs(given[i]);
    const double source = p.inverse_map ? step : whole, output = p.inverse_map ? whole : step;
    found = found || source > 1.01 * output;
    // Not an integer, so the sample is no copy.
    const bool enlarges = source < 0.99 * output && source > 1e-6 * output;
    found = found || (p.mode == Interpolation::kBicubic && enlarges);
  }
  return found;
}

// augment_sample() where filters_upright(). It has no perspective, and the compiler sees that.
__device__ inline AugmentSample upright_sample(const AugmentParams& p, int64_t sample,
                                               const AugmentImage& image, const double given[9]) {
  // The zeros may be -0, which changes nothing.
  double m[9] = {given[0], 0.0, given[2], 0.0, given[4], given[5], 0.0, 0.0, given[8]};
  return sample_of_map(p, sample, image, map_of_matrix(p, m));
}

}  // namespace
}  // namespace visops
