// Operations of chains that read neighbours: blurs, sharpening, CLAHE, downscaling,
// JPEG.
#pragma once

#include "core/pixels/operations.h"

namespace visops {

// False: the operation is of another kind.
bool run_neighbourhood(const PixelOperation& operation, const PixelImage& image);

// Medians of a square of odd side, with the rim repeated.
void median_blur(const PixelImage& image, int64_t side);

// OpenCV's contrast limited adaptive histogram equalization; of three channels, of the lightness of
// CIE Lab in 8 bits.
void clahe(const PixelImage& image, double clip_limit, int64_t rows, int64_t columns);

}  // namespace visops
