// ps_roi_align: every bin pools from a channel of its own. A problem is RoiAlignParams with one
// map, aligned. `channels` counts the channels of the bins; the map has one of each for every bin:
//
//     bins[k, c, bin_y, bin_x] = mean over the bin's samples of
//                                map[image, (c * bins_y + bin_y) * bins_x + bin_x]
//
// Samples and sums: NOTE [ RoIAlign samples ] in core/roi/geometry.h. Each pixel of the map's
// gradient is the sum over boxes by index of w(c) * (w(r) * grad[k, c, bin_y, bin_x]).
//
// Li et al., "Light-Head R-CNN" (2017), after Dai et al., "R-FCN" (NeurIPS 2016).
#pragma once

#include "core/roi/align.h"

namespace visops {

VISOPS_FN int64_t ps_channel(const RoiAlignParams& p, int64_t channel, int64_t bin_y,
                             int64_t bin_x) {
  return (channel * p.bins_y + bin_y) * p.bins_x + bin_x;
}

inline KernelStub<RoiAlignParams> ps_roi_align_stub{"ps_roi_align"};
inline KernelStub<RoiAlignParams> ps_roi_align_backward_stub{"ps_roi_align_backward"};

}  // namespace visops
