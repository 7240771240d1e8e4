// Gains in HSV on the CPU.
//
// NOTE [ HSV on the CPU ]
// Without jumps and tables: which channel is the largest, and which sixth of the circle a hue is
// in, are choices between values, and OpenCV's tables are computed again for each pixel, so that
// compilers vectorize the loops. Split: by pixels.
#include "core/pixels/hsv.h"

#include <cstring>

namespace visops {
namespace {

struct Rgb {
  float r, g, b;
};

// hue: in sixths of a turn, [0, 6). A channel is at `value` in two sixths of the circle, at its
// least in two others, and goes straight from one to the other between them.
VISOPS_ALWAYS_INLINE Rgb from_hsv(float hue, float saturation, float value) {
  const auto channel = [&](float way) {
    return value * (1.0f - saturation * limited(way, 0.0f, 1.0f));
  };
  return {channel(smaller(hue - 1.0f, 5.0f - hue)), channel(larger(1.0f - hue, hue - 3.0f)),
          channel(larger(3.0f - hue, hue - 5.0f))};
}

constexpr int kChunk = 64;

// OpenCV's fixed-point factor, 4096 x full / divisor, rounded. A float's quotient lies close enough
// to the exact one for every divisor from 1 to 255 (tests/transforms/test_operations.py).
VISOPS_ALWAYS_INLINE int32_t factor_of(float full, int32_t divisor) {
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
  const auto saturation_gain = static_cast<Real>(p.saturation_gain);
  const auto value_gain = static_cast<Real>(p.value_gain);
  int32_t hue[kChunk], saturation[kChunk], value[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    const int32_t r = red[i], g = green[i], b = blue[i];
    const int32_t most = larger(r, larger(g, b)), span = most - smaller(r, smaller(g, b));
    const int32_t of_red = g - b, of_green = b - r + 2 * span, of_blue = r - g + 4 * span;
    const int32_t sixths = most == r ? of_red : most == g ? of_green : of_blue;
    const int32_t around = (sixths * factor_of(30.0f, span) + 2048) >> 12;
    hue[i] = around < 0 ? around + 180 : around;
    saturation[i] = (span * factor_of(255.0f, most) + 2048) >> 12;
    value[i] = most;
  }
  for (int i = 0; i < kChunk; ++i) {
    hue[i] = turned_hue(hue[i], hue_shift);
    saturation[i] = gained_level(saturation[i], saturation_gain);
    value[i] = gained_level(value[i], value_gain);
  }
  for (int i = 0; i < kChunk; ++i) {
    const float h = static_cast<float>(hue[i]) * (6.0f / 180.0f);
    const float s = static_cast<float>(saturation[i]) * (1.0f / 255.0f);
    const float v = static_cast<float>(value[i]) * (1.0f / 255.0f);
    const Rgb out = from_hsv(h, s, v);
    red[i] = byte_of(out.r);
    green[i] = byte_of(out.g);
    blue[i] = byte_of(out.b);
  }
}

template <class Real>
void change_bytes(const HsvParams& p, int64_t begin, int64_t end) {
  uint8_t* const red = static_cast<uint8_t*>(p.data);
  uint8_t *const green = red + p.pixels, *const blue = green + p.pixels;
  int64_t first = begin;
  for (; first + kChunk <= end; first += kChunk) {
    change_chunk<Real>(p, red + first, green + first, blue + first);
  }
  if (first == end) return;
  const auto rest = static_cast<size_t>(end - first);
  uint8_t last[3][kChunk] = {};
  std::memcpy(last[0], red + first, rest);
  std::memcpy(last[1], green + first, rest);
  std::memcpy(last[2], blue + first, rest);
  change_chunk<Real>(p, last[0], last[1], last[2]);
  std::memcpy(red + first, last[0], rest);
  std::memcpy(green + first, last[1], rest);
  std::memcpy(blue + first, last[2], rest);
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
    const Rgb out =
        from_hsv(hue, limited(saturation, 0.0f, 1.0f), limited(value * value_gain, 0.0f, 1.0f));
    red[i] = out.r;
    green[i] = out.g;
    blue[i] = out.b;
  }
}

void hsv_kernel(const HsvParams& p, int64_t begin, int64_t end) {
  if (p.dtype != DType::kUInt8) return change_floats(p, begin, end);
  p.in_float ? change_bytes<float>(p, begin, end) : change_bytes<double>(p, begin, end);
}

const bool registered = hsv_stub.set(kIsaSlot, hsv_kernel);

}  // namespace
}  // namespace visops
