#include "core/pixels/noise_steps.h"

#include "core/pixels/hsv.h"
#include "core/pixels/noise.h"
#include "core/plain_kernel.h"

namespace visops {
namespace {

void add_noise(const PixelImage& image, NoiseKind kind, double key, double first, double second,
               bool clip) {
  const int64_t plane = image.height * image.width;
  const NoiseParams p = {image.data, image.dtype, image.size(),
                         plane,      kind,        static_cast<uint64_t>(key * 0x1p53),
                         first,      second,      clip};
  plain_kernel(noise_stub)(p, 0, noise_blocks(p));
}

}  // namespace

bool run_noise(const PixelOperation& operation, const PixelImage& image) {
  const double amount = operation.amount;
  const double* const more = operation.more;
  switch (operation.kind) {
    case PixelKind::kGaussianNoise:
      add_noise(image, NoiseKind::kGaussian, more[2], more[0], amount, more[1] != 0.0);
      return true;
    case PixelKind::kShotNoise:
      add_noise(image, NoiseKind::kShot, more[0], amount, 0.0, true);
      return true;
    case PixelKind::kSaltAndPepper:
      add_noise(image, NoiseKind::kSaltAndPepper, more[1], amount * more[0],
                amount * (1.0 - more[0]), true);
      return true;
    case PixelKind::kHsv:
      if (image.channels == 3) {
        const HsvParams p =
            make_hsv(image.data, image.dtype, image.height * image.width, amount, more[0], more[1]);
        plain_kernel(hsv_stub)(p, 0, p.pixels);
      }
      return true;
    default: return false;
  }
}

}  // namespace visops
