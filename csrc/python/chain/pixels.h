// Pixel operations of chains, in place: each sample takes its own list of them.
#pragma once

#include <vector>

#include "core/pixels/operations.h"
#include "python/augment.h"

namespace visops {

// How the operations that move pixels read them.
struct PixelSampling {
  Interpolation mode;
  std::vector<double> fill;
};

// Runs a sample's operations on its image, contiguous, of uint8 or float32.
void run_pixel_list(const std::vector<PixelOperation>& operations, const PixelImage& image,
                    const PixelSampling& sampling, Threads threads);

}  // namespace visops
