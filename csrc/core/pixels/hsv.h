// Gains in HSV: what fronts and kernels share.
//
// NOTE [ HSV ]
// For uint8 as YOLO has it with OpenCV: hue in 180 steps, saturation and value in 255, each changed
// as YOLO's tables do, which are in float64; where float32 gives the same for all levels, as it
// nearly always does, kernels compute in that; and back. The way there is in OpenCV's fixed point,
// the way back in float32. float32 images take the same formulas without steps.
#pragma once

#include <cstdint>

#include "core/element.h"
#include "core/kernel_stub.h"

namespace visops {

struct HsvParams {
  void* data;   // [3, pixels], red first; in place
  DType dtype;  // uint8 or float32
  int64_t pixels;
  double hue, saturation, value;  // shift in turns; gains minus 1
  // Of uint8: a shift in [-180, 180] steps, and gains.
  double hue_shift, saturation_gain, value_gain;
  bool in_float;
};

template <class T>
VISOPS_HOT_FN T larger(T a, T b) {
  return a > b ? a : b;
}

template <class T>
VISOPS_HOT_FN T smaller(T a, T b) {
  return a < b ? a : b;
}

template <class T>
VISOPS_HOT_FN T limited(T value, T low, T high) {
  return smaller(larger(value, low), high);
}

// A level times a gain, cut off as by NumPy's conversion to uint8.
template <class Real>
VISOPS_HOT_FN int32_t gained_level(int32_t level, Real gain) {
  return static_cast<int32_t>(limited(static_cast<Real>(level) * gain, Real{0}, Real{255}));
}

// A hue in 180 steps, after a shift.
template <class Real>
VISOPS_HOT_FN int32_t turned_hue(int32_t hue, Real shift) {
  const Real moved = static_cast<Real>(hue) + shift;
  const Real below = moved - (moved >= Real{180} ? Real{180} : Real{0});
  return static_cast<int32_t>(below + (below < Real{0} ? Real{180} : Real{0}));
}

HsvParams make_hsv(void* data, DType dtype, int64_t pixels, double hue, double saturation,
                   double value);

// CPU kernels take ranges of pixels.
extern KernelStub<HsvParams> hsv_stub;

}  // namespace visops
