// Gains in HSV on the CPU.
//
// NOTE [ HSV on the CPU ]
// Without jumps: which channel is the largest, and which sixth of the circle a hue is in, are
// choices between values, so that compilers vectorize the loops. Split: by pixels.
#include "core/pixels/hsv.h"

namespace visops {
namespace {

struct Rgb {
  float r, g, b;
};

// hue: in sixths of a turn, [0, 6).
VISOPS_ALWAYS_INLINE Rgb from_hsv(float hue, float saturation, float value) {
  const auto sector = static_cast<int32_t>(hue);
  const float rest = hue - static_cast<float>(sector);
  const float least = value * (1.0f - saturation);
  const float falling = value * (1.0f - saturation * rest);
  const float rising = value * (1.0f - saturation * (1.0f - rest));
  const bool s0 = sector == 0, s1 = sector == 1, s2 = sector == 2, s3 = sector == 3;
  const bool s4 = sector == 4;
  const float r = s1 ? falling : (s2 | s3) ? least : s4 ? rising : value;
  const float g = s0 ? rising : (s1 | s2) ? value : s3 ? falling : least;
  const float b = (s0 | s1) ? least : s2 ? rising : (s3 | s4) ? value : falling;
  return {r, g, b};
}

VISOPS_ALWAYS_INLINE int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
VISOPS_ALWAYS_INLINE int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
VISOPS_ALWAYS_INLINE float larger(float a, float b) { return a > b ? a : b; }
VISOPS_ALWAYS_INLINE float smaller(float a, float b) { return a < b ? a : b; }

void change_bytes(const HsvParams& p, int64_t begin, int64_t end) {
  uint8_t* VISOPS_RESTRICT const red = static_cast<uint8_t*>(p.data);
  uint8_t* VISOPS_RESTRICT const green = red + p.pixels;
  uint8_t* VISOPS_RESTRICT const blue = green + p.pixels;
  for (int64_t i = begin; i < end; ++i) {
    const int32_t r = red[i], g = green[i], b = blue[i];
    const int32_t value = larger(r, larger(g, b)), span = value - smaller(r, smaller(g, b));
    const int32_t saturation = (span * p.saturation_factor[value] + 2048) >> 12;
    const int32_t of_red = g - b, of_green = b - r + 2 * span, of_blue = r - g + 4 * span;
    const int32_t sixths = value == r ? of_red : value == g ? of_green : of_blue;
    const int32_t turned = (sixths * p.hue_factor[span] + 2048) >> 12;
    const int32_t hue = turned < 0 ? turned + 180 : turned;
    const float h = static_cast<float>(p.hue_table[hue]) * (6.0f / 180.0f);
    const float s = static_cast<float>(p.saturation_table[saturation]) * (1.0f / 255.0f);
    const float v = static_cast<float>(p.value_table[value]) * (1.0f / 255.0f);
    const Rgb out = from_hsv(h, s, v);
    store_element(red + i, out.r * 255.0f);
    store_element(green + i, out.g * 255.0f);
    store_element(blue + i, out.b * 255.0f);
  }
}

void change_floats(const HsvParams& p, int64_t begin, int64_t end) {
  float* VISOPS_RESTRICT const red = static_cast<float*>(p.data);
  float* VISOPS_RESTRICT const green = red + p.pixels;
  float* VISOPS_RESTRICT const blue = green + p.pixels;
  const float shift = static_cast<float>(p.hue) * 6.0f;
  const float saturation_gain = static_cast<float>(p.saturation) + 1.0f;
  const float value_gain = static_cast<float>(p.value) + 1.0f;
  for (int64_t i = begin; i < end; ++i) {
    const float r = red[i], g = green[i], b = blue[i];
    const float value = larger(r, larger(g, b)), span = value - smaller(r, smaller(g, b));
    const float share = span > 0.0f ? 1.0f / span : 0.0f;
    const float of_red = (g - b) * share, of_green = (b - r) * share + 2.0f;
    const float of_blue = (r - g) * share + 4.0f;
    float hue = (value == r ? of_red : value == g ? of_green : of_blue) + shift;
    hue -= 6.0f * static_cast<float>(static_cast<int32_t>(hue * (1.0f / 6.0f) + 64.0f) - 64);
    hue = hue < 0.0f ? 0.0f : hue >= 6.0f ? hue - 6.0f : hue;
    const float saturation = value > 0.0f ? span / value * saturation_gain : 0.0f;
    const Rgb out = from_hsv(hue, smaller(larger(saturation, 0.0f), 1.0f),
                             smaller(larger(value * value_gain, 0.0f), 1.0f));
    red[i] = out.r;
    green[i] = out.g;
    blue[i] = out.b;
  }
}

void hsv_kernel(const HsvParams& p, int64_t begin, int64_t end) {
  p.dtype == DType::kUInt8 ? change_bytes(p, begin, end) : change_floats(p, begin, end);
}

const bool registered = hsv_stub.set(kIsaSlot, hsv_kernel);

}  // namespace
}  // namespace visops
