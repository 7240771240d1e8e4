// The nearest pixels of a smaller image: as cv2.resize with INTER_NEAREST there and back.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/numbers/elementary.h"

namespace visops {

// One side of the image.
struct DownscaledSide {
  int64_t side, reduced;
  double up, down;  // pixels of the smaller image for each of the larger, and the other way round

  // The pixel that stands for pixel `i`.
  VISOPS_DEVICE int64_t position(int64_t i) const {
    const auto nearest = static_cast<int64_t>(floor(static_cast<double>(i) * up));
    const int64_t at = nearest < reduced ? nearest : reduced - 1;
    const auto back = static_cast<int64_t>(floor(static_cast<double>(at) * down));
    return back < side ? back : side - 1;
  }
};

VISOPS_FN DownscaledSide downscaled_side(int64_t side, double factor) {
  const auto rounded = static_cast<int64_t>(nearest_integer(static_cast<double>(side) * factor));
  const int64_t reduced = rounded > 1 ? rounded : 1;
  // As cv2.resize, by the inverse of the inverse: where a pixel lies between two, this decides.
  const double up = 1.0 / (static_cast<double>(side) / static_cast<double>(reduced));
  return {side, reduced, up, 1.0 / factor};
}

}  // namespace visops
