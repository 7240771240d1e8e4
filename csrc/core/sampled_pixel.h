// One sample of one channel, for every interpolation.
#pragma once

#include "core/pixel.h"

namespace visops {

// Nearest copies an element; others blend. The pixel must not be outside().
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc taken(const T* plane, const Strides& stride, const PixelTaps<mode, Acc>& taps,
                    Acc fill) {
  if constexpr (mode == Interpolation::kNearest) {
    const T element =
        load_readonly(plane + taps.y.index[0] * stride.row + taps.x.index[0] * stride.column);
    return static_cast<Acc>(load_element(&element));
  } else {
    return sample_pixel(plane, stride, taps, fill);
  }
}

}  // namespace visops
