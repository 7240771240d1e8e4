// CIE Lab of 8 bits, there and back: what fronts and kernels share.
//
// NOTE [ Lab ]
// sRGB with D65's white and OpenCV's scales, in float32, where OpenCV has fixed point. The cube
// root and the display's curve come from tables of kLabSteps steps. Tables and pixels are those of
// lab_values.h on all devices.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"

namespace visops {

struct LabParams {
  uint8_t *first, *second, *third;  // red, green, blue and L, a, b: in place
  int64_t pixels;
  bool back;
  const float* linear;   // tables of lab_linear_entry(),
  const float* root;     // lab_root_entry(),
  const float* display;  // lab_display_entry()
};

extern KernelStub<LabParams> lab_stub;

}  // namespace visops
