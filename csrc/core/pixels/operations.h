// Pixel operations on one image: the values of torchvision's functionals.
#pragma once

#include <cstdint>

#include "core/chain/pixel_operation.h"
#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"
#include "core/platform.h"

namespace visops {

// An image [channels, height, width], contiguous; uint8, or float32 with white at 1.
struct PixelImage {
  void* data;
  DType dtype;
  int64_t channels, height, width;

  VISOPS_ALWAYS_INLINE int64_t size() const { return channels * height * width; }
};

struct PixelOperationParams {
  PixelOperation operation;  // by a pixel's own value, or sharpness or dilation, by neighbours'
  PixelImage image;          // in place
  void* scratch;             // room for another image
};

extern KernelStub<PixelOperationParams> pixel_operation_stub;

// Runs an operation in place, but kAffine, which whoever runs lists does. `scratch` has room for
// another image.
void run_pixel_operation(const PixelOperation& operation, const PixelImage& image, void* scratch);

}  // namespace visops
