#include "core/pixels/operations.h"

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/plain_kernel.h"
#include "core/pixels/dropouts.h"
#include "core/pixels/filters/neighbourhoods.h"
#include "core/pixels/noise.h"
#include "core/pixels/shading.h"

namespace visops {

KernelStub<PixelOperationParams> pixel_operation_stub{"pixel_operation"};

void run_pixel_operation(const PixelOperation& operation, const PixelImage& image, void* scratch) {
  if (image.size() == 0) return;
  if (run_noise(operation, image) || run_dropout(operation, image)) return;
  if (run_neighbourhood(operation, image) || run_shading(operation, image)) return;
  run_plain(pixel_operation_stub, {operation, image, scratch});
}

}  // namespace visops
