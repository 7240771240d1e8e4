// Noise and HSV gains as operations of chains.
#pragma once

#include "core/pixels/noise.h"
#include "core/pixels/operations.h"

namespace visops {

VISOPS_FN bool is_noise(PixelKind kind) {
  return kind == PixelKind::kGaussianNoise || kind == PixelKind::kShotNoise ||
         kind == PixelKind::kSaltAndPepper;
}

// The noise of an operation that is_noise().
inline NoiseParams noise_of(const PixelOperation& operation, const PixelImage& image) {
  const double amount = operation.amount;
  const double* const more = operation.more;
  NoiseParams p = {};
  p.data = image.data;
  p.dtype = image.dtype;
  p.count = image.size();
  p.plane = image.height * image.width;
  p.clip = true;
  double key = more[1];
  switch (operation.kind) {
    case PixelKind::kGaussianNoise:
      p.kind = NoiseKind::kGaussian;
      p.first = more[0];
      p.second = amount;
      p.clip = more[1] != 0.0;
      key = more[2];
      break;
    case PixelKind::kShotNoise:
      p.kind = NoiseKind::kShot;
      p.first = amount;
      key = more[0];
      break;
    default:
      p.kind = NoiseKind::kSaltAndPepper;
      p.first = amount * more[0];
      p.second = amount * (1.0 - more[0]);
  }
  p.key = key_of(key);
  return p;
}

// False: the operation is of another kind.
bool run_noise(const PixelOperation& operation, const PixelImage& image);

}  // namespace visops
