// Greedy suppression of a call, for the operators that build on it.
#pragma once

#include "torch/suppression/nms_call.h"

namespace visops {

// The kept candidates, by image and falling score: [K], [K, 2] (image, box) or [K, 3] (image,
// class, box).
Tensor kept_rows(const NmsCall& call);

}  // namespace visops
