// The image gradient of the affine warp, which schedules itself.
#pragma once

#include "core/dispatch/workspace.h"
#include "core/warp/affine.h"

namespace visops {

extern KernelStub<AffineBackwardImageParams> affine_image_gradient_stub;

}  // namespace visops
