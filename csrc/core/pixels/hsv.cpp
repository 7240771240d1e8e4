#include "core/pixels/hsv.h"

#include <algorithm>
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
  for (int i = 0; i < 256; ++i) {
    const double turned = std::fmod(i + hue * 180.0, 180.0);  // below 180 as in NumPy
    p.hue_table[i] = static_cast<int32_t>(turned < 0.0 ? turned + 180.0 : turned);
    p.saturation_table[i] = static_cast<int32_t>(std::clamp(i * (saturation + 1.0), 0.0, 255.0));
    p.value_table[i] = static_cast<int32_t>(std::clamp(i * (value + 1.0), 0.0, 255.0));
    const auto ratio = [i](double full) {
      return i == 0 ? 0 : static_cast<int32_t>(std::nearbyint(full * 4096.0 / i));
    };
    p.saturation_factor[i] = ratio(255.0);
    p.hue_factor[i] = ratio(30.0);
  }
  p.saturation_table[0] = 0;  // greys stay grey
  return p;
}

}  // namespace visops
