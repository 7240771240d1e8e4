// Gains in HSV: what fronts and kernels share.
//
// NOTE [ HSV ]
// For uint8 as YOLO has it with OpenCV: hue in 180 steps, saturation and value in 255, each changed
// as YOLO's tables do, which are in float64; where float32 gives the same for all levels, as it
// nearly always does, kernels compute in that; and back. The way there is in OpenCV's fixed point,
// the way back in float32. float32 images take the same formulas without steps.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

struct HsvParams {
  void* data;   // [3, pixels], red first; in place
  DType dtype;  // uint8 or float32
  int64_t pixels;
  double hue, saturation, value;  // shift in turns; gains minus 1
  // uint8 images take a shift in [-180, 180] steps, and gains.
  double hue_shift, saturation_gain, value_gain;
  bool in_float;  // whether float32 gives all their levels
};

HsvParams make_hsv(void* data, DType dtype, int64_t pixels, double hue, double saturation,
                   double value);

extern KernelStub<HsvParams> hsv_stub;

}  // namespace visops
