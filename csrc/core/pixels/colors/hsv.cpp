#include "core/pixels/colors/hsv.h"

namespace visops {

KernelStub<HsvParams> hsv_stub{"hsv"};

HsvParams make_hsv(void* data, DType dtype, int64_t pixels, const HsvChange& change) {
  HsvParams p;
  p.data = data;
  p.dtype = dtype;
  p.pixels = pixels;
  p.change = change;
  p.hue_shift = hue_shift(change.hue);
  p.saturation = level_change<double>(change.saturation, change.saturation_shift);
  p.value = level_change<double>(change.value, change.value_shift);
  p.in_float = dtype == DType::kUInt8;
  for (int32_t i = 0; i < 256 && p.in_float; ++i) {
    const auto same = [i](const LevelChange<double>& own) {
      return changed_level(i, own) == changed_level(i, in_real<float>(own));
    };
    const int32_t moved = turned_hue(i, p.hue_shift);
    p.in_float = same(p.saturation) && same(p.value) &&
                 (i >= 180 || moved == turned_hue(i, static_cast<float>(p.hue_shift)));
  }
  return p;
}

}  // namespace visops
