// Gains and shifts in HSV on the CPU.
//
// NOTE [ HSV on the CPU ]
// Without jumps and tables: which channel is the largest, and which sixth of the circle a hue is
// in, are choices between values, and OpenCV's tables are computed again for each pixel, so that
// compilers vectorize the loops. Split: by pixels.
#include "core/pixels/colors/hsv.h"

#include <cstring>

namespace visops {
namespace {

constexpr int kChunk = 64;

// An entry of ratio_entry(), 4096 x full / divisor, rounded. A float's quotient lies close enough
// to the exact one for every divisor from 1 to 255 (tests/transforms/pixels/test_operations.py).
VISOPS_ALWAYS_INLINE int32_t ratio_of(float full, int32_t divisor) {
  const float quotient = full * 4096.0f / static_cast<float>(larger(divisor, 1));
  return static_cast<int32_t>(quotient + 0.5f);
}

// 255 times a value in [0, 1], rounded as by round_saturate(), whose limits aren't needed.
VISOPS_ALWAYS_INLINE uint8_t byte_of(float value) {
  return static_cast<uint8_t>(bit_cast<int32_t>(value * 255.0f + 12582912.0f));
}

template <class Real>
void change_chunk(const HsvParams& p, uint8_t* red, uint8_t* green, uint8_t* blue) {
  const auto hue_shift = static_cast<Real>(p.hue_shift);
  const auto of_saturation = in_real<Real>(p.saturation);
  const auto of_value = in_real<Real>(p.value);
  int32_t hue[kChunk], saturation[kChunk], value[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    const HsvBytes own = hsv_of_bytes(red[i], green[i], blue[i]);
    hue[i] = hue_index(by_ratio(own.sixths, ratio_of(30.0f, own.span)));
    saturation[i] = by_ratio(own.span, ratio_of(255.0f, own.value));
    value[i] = own.value;
  }
  for (int i = 0; i < kChunk; ++i) {
    hue[i] = turned_hue(hue[i], hue_shift);
    saturation[i] = changed_saturation(saturation[i], of_saturation);
    value[i] = changed_level(value[i], of_value);
  }
  for (int i = 0; i < kChunk; ++i) {
    const Rgb out = from_hsv_steps(hue[i], saturation[i], value[i]);
    red[i] = byte_of(out.r);
    green[i] = byte_of(out.g);
    blue[i] = byte_of(out.b);
  }
}

template <class Real>
void change_bytes(const HsvParams& p) {
  uint8_t* const red = static_cast<uint8_t*>(p.data);
  uint8_t *const green = red + p.pixels, *const blue = green + p.pixels;
  int64_t first = 0;
  for (; first + kChunk <= p.pixels; first += kChunk) {
    change_chunk<Real>(p, red + first, green + first, blue + first);
  }
  if (first == p.pixels) return;
  const auto rest = static_cast<size_t>(p.pixels - first);
  uint8_t last[3][kChunk] = {};
  std::memcpy(last[0], red + first, rest);
  std::memcpy(last[1], green + first, rest);
  std::memcpy(last[2], blue + first, rest);
  change_chunk<Real>(p, last[0], last[1], last[2]);
  std::memcpy(red + first, last[0], rest);
  std::memcpy(green + first, last[1], rest);
  std::memcpy(blue + first, last[2], rest);
}

void change_floats(const HsvParams& p) {
  float* VISOPS_RESTRICT const red = static_cast<float*>(p.data);
  float* VISOPS_RESTRICT const green = red + p.pixels;
  float* VISOPS_RESTRICT const blue = green + p.pixels;
  const HsvGains gains = hsv_gains(p.change);
  for (int64_t i = 0; i < p.pixels; ++i) {
    const Rgb out = with_hsv(gains, red[i], green[i], blue[i]);
    red[i] = out.r;
    green[i] = out.g;
    blue[i] = out.b;
  }
}

void hsv_kernel(const HsvParams& p, Workspace&) {
  if (p.dtype != DType::kUInt8) return change_floats(p);
  p.in_float ? change_bytes<float>(p) : change_bytes<double>(p);
}

const bool registered = hsv_stub.set(kIsaSlot, hsv_kernel);

}  // namespace
}  // namespace visops
