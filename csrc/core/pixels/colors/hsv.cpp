#include "core/pixels/colors/hsv.h"

#include "core/pixels/colors/hsv_values.h"

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
  p.hue_shift = hue_shift(hue);
  p.saturation_gain = saturation + 1.0;
  p.value_gain = value + 1.0;
  p.in_float = dtype == DType::kUInt8;
  for (int32_t i = 0; i < 256 && p.in_float; ++i) {
    const auto same = [i](double gain) {
      return gained_level(i, gain) == gained_level(i, static_cast<float>(gain));
    };
    const int32_t moved = turned_hue(i, p.hue_shift);
    p.in_float = same(p.saturation_gain) && same(p.value_gain) &&
                 (i >= 180 || moved == turned_hue(i, static_cast<float>(p.hue_shift)));
  }
  return p;
}

}  // namespace visops
