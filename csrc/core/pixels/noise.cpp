#include "core/pixels/noise.h"

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/plain_kernel.h"
#include "core/pixels/colors/hsv.h"

namespace visops {
bool run_noise(const PixelOperation& operation, const PixelImage& image) {
  if (is_noise(operation.kind)) {
    const NoiseParams p = noise_of(operation, image);
    run_plain(noise_stub, p);
    return true;
  }
  if (operation.kind != PixelKind::kHsv) return false;
  if (image.channels == 3) {
    const HsvParams p = make_hsv(image.data, image.dtype, image.height * image.width,
                                 hsv_change(operation.amount, operation.more));
    run_plain(hsv_stub, p);
  }
  return true;
}

}  // namespace visops
