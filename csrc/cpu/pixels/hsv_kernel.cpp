// Gains in HSV on the CPU.
//
// NOTE [ HSV on the CPU ]
// Without jumps: which channel is the largest, and which sixth of the circle a hue is in, are
// choices between values, so that compilers vectorize the loops; tables are looked up in loops of
// their own. Split: by pixels.
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
  // One choice after another: of a condition with "or", compilers make a jump.
  float r = value, g = least, b = falling;  // the last sixth
  r = sector == 1 ? falling : r;
  r = sector == 2 ? least : r;
  r = sector == 3 ? least : r;
  r = sector == 4 ? rising : r;
  g = sector == 0 ? rising : g;
  g = sector == 1 ? value : g;
  g = sector == 2 ? value : g;
  g = sector == 3 ? falling : g;
  b = sector == 0 ? least : b;
  b = sector == 1 ? least : b;
  b = sector == 2 ? rising : b;
  b = sector == 3 ? value : b;
  b = sector == 4 ? value : b;
  return {r, g, b};
}

VISOPS_ALWAYS_INLINE int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
VISOPS_ALWAYS_INLINE int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
VISOPS_ALWAYS_INLINE float larger(float a, float b) { return a > b ? a : b; }
VISOPS_ALWAYS_INLINE float smaller(float a, float b) { return a < b ? a : b; }

constexpr int kChunk = 64;

struct Bytes {
  int32_t red[kChunk], green[kChunk], blue[kChunk];
};

void change_chunk(const HsvParams& p, Bytes& pixels) {
  int32_t value[kChunk], span[kChunk], sixths[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    const int32_t r = pixels.red[i], g = pixels.green[i], b = pixels.blue[i];
    const int32_t most = larger(r, larger(g, b)), own = most - smaller(r, smaller(g, b));
    const int32_t of_red = g - b, of_green = b - r + 2 * own, of_blue = r - g + 4 * own;
    value[i] = most;
    span[i] = own;
    sixths[i] = most == r ? of_red : most == g ? of_green : of_blue;
  }
  int32_t hue_factor[kChunk], saturation_factor[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    hue_factor[i] = p.hue_factor[span[i]];
    saturation_factor[i] = p.saturation_factor[value[i]];
  }
  int32_t hue[kChunk], saturation[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    saturation[i] = (span[i] * saturation_factor[i] + 2048) >> 12;
    const int32_t turned = (sixths[i] * hue_factor[i] + 2048) >> 12;
    hue[i] = turned < 0 ? turned + 180 : turned;
  }
  for (int i = 0; i < kChunk; ++i) {
    hue[i] = p.hue_table[hue[i]];
    saturation[i] = p.saturation_table[saturation[i]];
    value[i] = p.value_table[value[i]];
  }
  for (int i = 0; i < kChunk; ++i) {
    const float h = static_cast<float>(hue[i]) * (6.0f / 180.0f);
    const float s = static_cast<float>(saturation[i]) * (1.0f / 255.0f);
    const float v = static_cast<float>(value[i]) * (1.0f / 255.0f);
    const Rgb out = from_hsv(h, s, v);
    pixels.red[i] = round_saturate(out.r * 255.0f, 0.0f, 255.0f);
    pixels.green[i] = round_saturate(out.g * 255.0f, 0.0f, 255.0f);
    pixels.blue[i] = round_saturate(out.b * 255.0f, 0.0f, 255.0f);
  }
}

void change_bytes(const HsvParams& p, int64_t begin, int64_t end) {
  uint8_t* const red = static_cast<uint8_t*>(p.data);
  uint8_t *const green = red + p.pixels, *const blue = green + p.pixels;
  Bytes pixels = {};
  for (int64_t first = begin; first < end; first += kChunk) {
    const int count = end - first < kChunk ? static_cast<int>(end - first) : kChunk;
    for (int i = 0; i < count; ++i) {
      pixels.red[i] = red[first + i];
      pixels.green[i] = green[first + i];
      pixels.blue[i] = blue[first + i];
    }
    change_chunk(p, pixels);
    for (int i = 0; i < count; ++i) {
      red[first + i] = static_cast<uint8_t>(pixels.red[i]);
      green[first + i] = static_cast<uint8_t>(pixels.green[i]);
      blue[first + i] = static_cast<uint8_t>(pixels.blue[i]);
    }
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
