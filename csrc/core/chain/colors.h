// Colour matrices, for steps.
#pragma once

#include "core/chain/plan.h"

namespace visops {

// Brightness and contrast (`scale`), saturation and hue, of images of one channel or three.
ColorMatrix jitter_matrix(double scale, const double* saturation, const double* hue,
                          int64_t channels);

}  // namespace visops
