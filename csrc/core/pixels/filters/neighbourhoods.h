// Operations of chains that read neighbours: blurs, sharpening, CLAHE, downscaling,
// JPEG.
#pragma once

#include <cmath>

#include "core/numbers/elementary.h"
#include "core/pixels/operations.h"

namespace visops {

// False: the operation is of another kind.
bool run_neighbourhood(const PixelOperation& operation, const PixelImage& image);

// Medians of a square of odd side, with the rim repeated.
void median_blur(const PixelImage& image, int64_t side);

// OpenCV's contrast limited adaptive histogram equalization; of three channels, of the lightness of
// CIE Lab in 8 bits.
void clahe(const PixelImage& image, double clip_limit, int64_t rows, int64_t columns);

// Dilation and erosion by an ellipse: what all backends share.
//
// NOTE [ Dilation ]
// A result is the greatest, or the least, of the values under the ellipse, OpenCV's. What lies
// outside of the image doesn't count.

constexpr int kMostEllipseSide = 255;

// Its rows, which reach as far to the left as to the right of the middle; one of an even width has
// a pixel less on the right.
struct Ellipse {
  int16_t left, right, above, height;
  uint8_t reach[kMostEllipseSide];

  VISOPS_DEVICE int right_of(int row) const { return reach[row] < right ? reach[row] : right; }
};

// That of an operation's width and height.
static inline Ellipse ellipse_of(const PixelOperation& operation) {
  const int width = static_cast<int>(operation.more[0]);
  const int height = static_cast<int>(operation.more[1]);
  Ellipse ellipse = {};
  ellipse.left = static_cast<int16_t>(width / 2);
  ellipse.right = static_cast<int16_t>((width - 1) / 2);
  ellipse.above = static_cast<int16_t>(height / 2);
  ellipse.height = static_cast<int16_t>(height);
  const double radius = height / 2;
  for (int i = 0; i < height && height > 1; ++i) {
    const double y = i - height / 2, square = radius * radius;
    const double share = std::sqrt((square - y * y) / square);
    ellipse.reach[i] = static_cast<uint8_t>(nearest_integer(ellipse.left * share));
  }
  return ellipse;
}

// The greater of two values or the lesser; NaN wins in any order.
template <class T>
VISOPS_FN T chosen(T a, T b, bool dilates) {
  const bool takes = dilates ? a < b : b < a;
  return takes || b != b ? b : a;
}

// The same bits in whatever order 0 and -0 come.
template <class T>
VISOPS_FN T one_zero(T value) {
  return sizeof(T) == 1 ? value : static_cast<T>(value + 0.0f);
}

}  // namespace visops
