// The launch that gathers an image's gradient, as those of augment_modes.h; it takes scratch.
#pragma once

#include "core/dispatch/workspace.h"
#include "cuda/warp/augment_modes.h"

namespace visops {

// `segments` and `grad_sampled` are read.
template <Slot slot, Interpolation mode>
void launch_augment_gather(const AugmentBackwardParams& b, const void* segments,
                           const void* grad_sampled, Workspace& workspace);

}  // namespace visops
