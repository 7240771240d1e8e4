#pragma once

#include "core/workspace.h"
#include "cuda/warp/augment_modes.h"

namespace visops {

// `grad_sampled` is read.
template <Slot slot, Interpolation mode>
void launch_augment_gather(const AugmentBackwardParams& b, const void* grad_sampled,
                           Workspace& workspace);

}  // namespace visops
