// Bilinear's four taps where all of them are in the image, as nearly everywhere: their offsets are
// computed once for all channels, and none of them is compared with the border again.
#pragma once

#include "core/pixel.h"

namespace visops {
namespace {

// Offsets in elements, from the first of a plane.
struct WholeTaps {
  bool whole;  // else the others mean nothing
  int64_t first, right, down;

  template <class Acc>
  __device__ WholeTaps(const PixelTaps<Interpolation::kBilinear, Acc>& taps, int64_t row_stride,
                       int64_t column_stride) {
    const int32_t (&y)[2] = taps.y.index;
    const int32_t (&x)[2] = taps.x.index;
    whole = y[0] >= 0 && y[1] >= 0 && x[0] >= 0 && x[1] >= 0;
    first = y[0] * row_stride + x[0] * column_stride;
    right = (x[1] - x[0]) * column_stride;
    down = (y[1] - y[0]) * row_stride;
  }

  // sample_pixel(): its bits.
  template <class T, class Acc>
  __device__ Acc sample(const T* plane,
                        const PixelTaps<Interpolation::kBilinear, Acc>& taps) const {
    const T* const upper = plane + first;
    const T* const lower = upper + down;
    const T element[4] = {load_readonly(upper), load_readonly(upper + right), load_readonly(lower),
                          load_readonly(lower + right)};
    const Acc value[2][2] = {{load_element(&element[0]), load_element(&element[1])},
                             {load_element(&element[2]), load_element(&element[3])}};
    return blend_taps<Interpolation::kBilinear>(taps, value);
  }
};

}  // namespace
}  // namespace visops
