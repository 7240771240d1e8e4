// CIE Lab of 8 bits, there and back: what fronts and kernels share.
//
// NOTE [ Lab ]
// sRGB with D65's white and OpenCV's scales, in float32, where OpenCV has fixed point. The cube
// root and the display's curve come from tables of kLabSteps steps.
#pragma once

#include <cstdint>

#include "core/kernel_stub.h"

namespace visops {

constexpr int kLabSteps = 16384;  // of tables of functions on [0, 1]

struct LabParams {
  uint8_t *first, *second, *third;  // red, green, blue and L, a, b: in place
  bool back;
  const float* linear;   // [256]
  const float* root;     // [kLabSteps + 1]
  const float* display;  // [kLabSteps + 1]
};

// CPU kernels take ranges of pixels.
extern KernelStub<LabParams> lab_stub;

}  // namespace visops
