// Maps of RoIAlign on CUDA: their pixels, and what the threads of a warp are.
#pragma once

#include "core/element_types.h"
#include "core/parts.h"
#include "core/roi/layout.h"
#include "core/workspace.h"

namespace visops {
namespace {

constexpr int kWarp = 32;

// Whether the lanes of a warp are channels, so that it reads and writes adjacent elements; else
// they are bins, or pixels of a row.
VISOPS_FN bool lanes_are_channels(const RoiMap& map, int64_t channels) {
  return map.channel_stride == 1 && channels >= kWarp;
}

// Box k. One that is not valid is on level 0: level_of_box() may have found none.
template <class Acc>
__device__ Roi<Acc> load_box(const RoiAlignParams& p, int64_t k) {
  Roi<Acc> roi = load_roi<Acc>(p, k);
  if (!roi.valid) roi.level = 0;
  return roi;
}

// How far the last of `count` elements is from the first.
inline int64_t stretch(int64_t count, int64_t stride) {
  return count > 0 ? (count - 1) * stride : 0;
}

// As much for a box's bins, and a channel beyond them.
inline int64_t stretch_of_bins(const RoiAlignParams& p) {
  return stretch(p.channels + 1, p.channel_stride) + stretch(p.bins_y, p.bin_row_stride) +
         stretch(p.bins_x, p.bin_column_stride);
}

VISOPS_FN int64_t stride_of(const RoiMap& map, bool of_rows) {
  return of_rows ? map.row_stride : map.column_stride;
}

template <int most>
VISOPS_FN int at_most(int64_t count) {
  return count < most ? static_cast<int>(count) : most;
}

}  // namespace
}  // namespace visops
