// Gains and shifts in HSV: what fronts and kernels share.
//
// NOTE [ HSV ]
// For uint8 as YOLO has it with OpenCV: hue in 180 steps, saturation and value in 255, each changed
// as YOLO's tables do, which are in float64; where float32 gives the same for all levels, as it
// nearly always does, kernels compute in that; and back. The way there is in OpenCV's fixed point,
// the way back in float32. float32 images take the same formulas without steps. Saturation and
// value may be shifted too, in levels, which are rounded; grey stays grey.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

// A shift of the hue in turns, gains minus 1, and shifts in levels of 255.
struct HsvChange {
  double hue, saturation, value, saturation_shift, value_shift;
};

// A level becomes gain * level + shift, cut off.
template <class Real>
struct LevelChange {
  Real gain, shift;
};

struct HsvParams {
  void* data;   // [3, pixels], red first; in place
  DType dtype;  // uint8 or float32
  int64_t pixels;
  HsvChange change;
  // uint8 images take a shift in [-180, 180] steps, and what levels become.
  double hue_shift;
  LevelChange<double> saturation, value;
  bool in_float;  // whether float32 gives all their levels
};

// The change that an operation's numbers say.
VISOPS_FN HsvChange hsv_change(double amount, const double* more) {
  return {amount, more[0], more[1], more[2], more[3]};
}

HsvParams make_hsv(void* data, DType dtype, int64_t pixels, const HsvChange& change);

extern KernelStub<HsvParams> hsv_stub;

}  // namespace visops
