// Channels and rectangles that are filled, as operations of chains.
#pragma once

#include "core/pixels/operations.h"

namespace visops {

// False: the operation is of another kind.
bool run_dropout(const PixelOperation& operation, const PixelImage& image);

}  // namespace visops
