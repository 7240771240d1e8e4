// How RoIAlign's kernels are run: on the CPU with lists of all bins' pixels, and in slices.
#pragma once

#include "torch/roi/front.h"

namespace visops {

// The mean, in place or by blocks of channels.
void run_roi_align(RoiCall& call, const Tensor& on);
// A kernel that is cut by boxes.
void run_over_boxes(const KernelStub<RoiAlignParams>& stub, RoiCall& call, const Tensor& on);
// A kernel that gives the gradient of maps.
void run_over_maps(const KernelStub<RoiAlignParams>& stub, RoiCall& call, const Tensor& on);

}  // namespace visops
