#include "core/pixels/hsv.h"

#include "core/pixels/hsv_values.h"

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
  for (int i = 0; i < 256; ++i) {
    p.hue_table[i] = hue_entry(i, hue);
    p.saturation_table[i] = saturation_entry(i, saturation);
    p.value_table[i] = gain_entry(i, value);
    p.saturation_factor[i] = saturation_ratio(i);
    p.hue_factor[i] = hue_ratio(i);
  }
  return p;
}

}  // namespace visops
