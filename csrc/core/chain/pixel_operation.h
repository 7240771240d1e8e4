// Operations on the pixels of one image that no matrix expresses. A sample of a chain takes a list
// of them, one after another (core/pixels).
#pragma once

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
  kHsv,            // shift of the hue, in turns; gains of saturation and value, minus 1
  kDropChannels,   // fill; fewest and most channels, key
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
  kCount
};

constexpr int kMoreNumbers = 9;

struct PixelOperation {
  PixelKind kind;
  double amount = 0.0;
  double matrix[6] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
  double more[kMoreNumbers] = {};
};

}  // namespace visops
