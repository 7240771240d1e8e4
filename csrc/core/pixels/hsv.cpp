#include "core/pixels/hsv.h"

#include <cmath>

namespace visops {

KernelStub<HsvParams> hsv_stub{"hsv"};

HsvParams make_hsv(void* data, DType dtype, int64_t pixels, double hue, double saturation,
                   double value) {
  HsvParams p;
  p.data = data;
  p.dtype = dtype;
  p.pixels = pixels;
  p.hue = hue;
  p.saturation = saturation;
  p.value = value;
  const double steps = hue * 180.0;
  p.hue_shift = std::fabs(steps) > 180.0 ? std::fmod(steps, 180.0) : steps;
  p.saturation_gain = saturation + 1.0;
  p.value_gain = value + 1.0;
  return p;
}

}  // namespace visops
