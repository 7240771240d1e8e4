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
  kCount
};

struct PixelOperation {
  PixelKind kind;
  double amount = 0.0;
  double matrix[6] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
};

}  // namespace visops
