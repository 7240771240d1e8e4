// Operations on the pixels of one image that no matrix expresses. A sample of a chain takes a list
// of them, one after another (core/pixels).
#pragma once

#include "core/numbers/philox.h"

namespace visops {

enum class PixelKind {
  kIdentity,
  kAffine,      // matrix, half-pixel convention, source to destination
  kBrightness,  // amount: factor
  kContrast,    // factor
  kSaturation,  // factor
  kSharpness,   // factor: 0 blurs, 1 keeps
  kPosterize,   // bits
  kSolarize,    // threshold, as a share of white
  kAutocontrast,
  kEqualize,
  kInvert,
  kGamma,       // exponent
  kSolarizeAt,  // threshold, in the image's units
  // Noise, of a key in [0, 1): csrc/core/pixels/noise.h. Behind the amount, what `more` holds.
  kGaussianNoise,  // standard deviation, with white at 1; mean, whether it is clipped, key
  kShotNoise,      // scale; key
  kSaltAndPepper,  // share of pixels; share of white among them, key
  // Shift of the hue, in turns; gains of saturation and value, minus 1, and their shifts in levels.
  kHsv,
  kDropChannels,  // fill; fewest and most channels, key
  // fill; key, fewest and most holes, least and greatest heights and widths, as shares of the
  // image's below 1, kind of fill
  kHoles,
  // fill; key, share of a cell's sides, whether each hole has its own shift, kind of grid and its
  // two numbers, shifts x and y, kind of fill
  kGridHoles,
  // Neighbourhoods, mirrored at the rim.
  kBoxBlur,       // side
  kGaussianBlur,  // sigma; width and height of the kernel
  kMedianBlur,    // side
  kMotionBlur,    // side; angle in degrees, direction, shifts x and y
  kUnsharpMask,   // share; side, sigma, threshold in levels
  kEmboss,        // share; strength
  kSharpen,       // share; lightness
  kClahe,         // clip limit; rows and columns of tiles
  kDownscale,     // factor
  kSolarizeAdd,   // levels of 255 that are added below the middle one, 128
  kJpeg,          // quality
  kToneCurve,     // standard deviation of its handles; whether each channel has its own, key
  kBleach,        // factor of the lightness; below which lightness
  kAdvancedBlur,  // side; two sigmas, their angle, place and limits of the exponent, of noise, key
  kIllumination,  // strength; kind, its three numbers (core/pixels/shading.cpp), whether it darkens
  kShadows,  // their number; key, left, top, right, bottom as shares, corners, least and most dark
  kMorphology,  // whether it dilates; width and height of the ellipse
  kCount
};

constexpr int kMoreNumbers = 9;

struct PixelOperation {
  PixelKind kind;
  double amount = 0.0;
  double matrix[6] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
  double more[kMoreNumbers] = {};
};

// The same operation on another of a sample's images, or frames: noise of its own, from the
// sample's key. The rest is the same for all of them; number 0 is what was drawn.
inline PixelOperation of_image(PixelOperation operation, int64_t number) {
  const PixelKind kind = operation.kind;
  const int at = kind == PixelKind::kGaussianNoise   ? 2
                 : kind == PixelKind::kSaltAndPepper ? 1
                 : kind == PixelKind::kShotNoise     ? 0
                                                     : -1;
  if (at < 0 || number == 0) return operation;
  // Steps by an odd number reach every key of 53 bits once.
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
  const uint64_t key = key_of(operation.more[at]);
  const uint64_t moved = (key + static_cast<uint64_t>(number) * kStep) & ((uint64_t{1} << 53) - 1);
  operation.more[at] = static_cast<double>(moved) * 0x1p-53;
  return operation;
}

}  // namespace visops
