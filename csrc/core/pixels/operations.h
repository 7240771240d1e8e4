// Pixel operations on one image: the values of torchvision's functionals.
#pragma once

#include <cstdint>

#include "core/chain/pixel_operation.h"
#include "core/element.h"

namespace visops {

// An image [channels, height, width], contiguous; uint8, or float32 with white at 1.
struct PixelImage {
  void* data;
  DType dtype;
  int64_t channels, height, width;

  int64_t size() const { return channels * height * width; }
};

// Runs an operation in place, but kAffine, which whoever runs lists does. `scratch` has room for
// another image.
void run_pixel_operation(const PixelOperation& operation, const PixelImage& image, void* scratch);

}  // namespace visops
