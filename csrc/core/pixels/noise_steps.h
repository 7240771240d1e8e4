// Noise and HSV gains as operations of chains.
#pragma once

#include "core/pixels/operations.h"

namespace visops {

// False: the operation is of another kind.
bool run_noise(const PixelOperation& operation, const PixelImage& image);

}  // namespace visops
