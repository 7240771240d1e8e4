// Gains in HSV on the CPU.
//
// NOTE [ HSV on the CPU ]
// The arithmetic of core/pixels/hsv_values.h, in loops that compilers vectorize; tables are looked
// up in loops of their own. Split: by pixels.
#include "core/pixels/hsv_values.h"

namespace visops {
namespace {

constexpr int kChunk = 64;

struct Bytes {
  int32_t red[kChunk], green[kChunk], blue[kChunk];
};

void change_chunk(const HsvParams& p, Bytes& pixels) {
  int32_t value[kChunk], span[kChunk], sixths[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    const HsvBytes own = hsv_of_bytes(pixels.red[i], pixels.green[i], pixels.blue[i]);
    value[i] = own.value;
    span[i] = own.span;
    sixths[i] = own.sixths;
  }
  int32_t hue_factor[kChunk], saturation_factor[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    hue_factor[i] = p.hue_factor[span[i]];
    saturation_factor[i] = p.saturation_factor[value[i]];
  }
  int32_t hue[kChunk], saturation[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    saturation[i] = by_ratio(span[i], saturation_factor[i]);
    hue[i] = hue_index(by_ratio(sixths[i], hue_factor[i]));
  }
  for (int i = 0; i < kChunk; ++i) {
    hue[i] = p.hue_table[hue[i]];
    saturation[i] = p.saturation_table[saturation[i]];
    value[i] = p.value_table[value[i]];
  }
  for (int i = 0; i < kChunk; ++i) {
    const RgbLevels out = levels_of_hsv(hue[i], saturation[i], value[i]);
    pixels.red[i] = out.r;
    pixels.green[i] = out.g;
    pixels.blue[i] = out.b;
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
  const HsvGains gains = hsv_gains(p.hue, p.saturation, p.value);
  for (int64_t i = begin; i < end; ++i) {
    const Rgb out = with_hsv(gains, red[i], green[i], blue[i]);
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
