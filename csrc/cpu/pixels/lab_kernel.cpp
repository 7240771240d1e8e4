// CIE Lab on the CPU: NOTE [ Lab ] (core/pixels/lab.h).
//
// NOTE [ Lab on the CPU ]
// Pixels go in chunks through small arrays, a step at a time, so that loops are vectorized. Tables
// are read in loops that do nothing else: in one with arithmetic, compilers leave both scalar.
// Results are rounded half to even and saturate; no value depends on another pixel's.
#include "core/pixels/lab.h"

#include <cstring>

#include "core/element.h"
#include "core/platform.h"

namespace visops {
namespace {

constexpr int kChunk = 64;

using Chunk = float[kChunk];

VISOPS_ALWAYS_INLINE int32_t step_of(float value) {
  const float positive = value > 0.0f ? value : 0.0f;
  const float share = positive < 1.0f ? positive : 1.0f;
  return static_cast<int32_t>(share * static_cast<float>(kLabSteps) + 0.5f);
}

VISOPS_ALWAYS_INLINE void look_up(const float* table, Chunk& values) {
  int32_t steps[kChunk];
  for (int i = 0; i < kChunk; ++i) steps[i] = step_of(values[i]);
  for (int i = 0; i < kChunk; ++i) values[i] = table[steps[i]];
}

VISOPS_ALWAYS_INLINE float cubed(float f) {
  const float low = (116.0f * f - 16.0f) * (27.0f / 24389.0f);
  return f > 6.0f / 29.0f ? f * f * f : low;
}

// Chunks of L, a, b from red, green, blue.
void to_lab(const LabParams& p, const uint8_t (&bytes)[3][kChunk], uint8_t (&out)[3][kChunk]) {
  Chunk r, g, b, x, y, z;
  for (int i = 0; i < kChunk; ++i) r[i] = p.linear[bytes[0][i]];
  for (int i = 0; i < kChunk; ++i) g[i] = p.linear[bytes[1][i]];
  for (int i = 0; i < kChunk; ++i) b[i] = p.linear[bytes[2][i]];
  for (int i = 0; i < kChunk; ++i) {
    x[i] = (0.412453f * r[i] + 0.357580f * g[i] + 0.180423f * b[i]) / 0.950456f;
    y[i] = 0.212671f * r[i] + 0.715160f * g[i] + 0.072169f * b[i];
    z[i] = (0.019334f * r[i] + 0.119193f * g[i] + 0.950227f * b[i]) / 1.088754f;
  }
  look_up(p.root, x);
  look_up(p.root, y);
  look_up(p.root, z);
  for (int i = 0; i < kChunk; ++i) {
    store_element(&out[0][i], (116.0f * y[i] - 16.0f) * 2.55f);
    store_element(&out[1][i], 500.0f * (x[i] - y[i]) + 128.0f);
    store_element(&out[2][i], 200.0f * (y[i] - z[i]) + 128.0f);
  }
}

void from_lab(const LabParams& p, const uint8_t (&bytes)[3][kChunk], uint8_t (&out)[3][kChunk]) {
  Chunk r, g, b;
  for (int i = 0; i < kChunk; ++i) {
    const float fy = (static_cast<float>(bytes[0][i]) * (1.0f / 2.55f) + 16.0f) * (1.0f / 116.0f);
    const float fx = fy + (static_cast<float>(bytes[1][i]) - 128.0f) * (1.0f / 500.0f);
    const float fz = fy - (static_cast<float>(bytes[2][i]) - 128.0f) * (1.0f / 200.0f);
    const float x = cubed(fx) * 0.950456f, y = cubed(fy), z = cubed(fz) * 1.088754f;
    r[i] = 3.240479f * x - 1.53715f * y - 0.498535f * z;
    g[i] = -0.969256f * x + 1.875991f * y + 0.041556f * z;
    b[i] = 0.055648f * x - 0.204043f * y + 1.057311f * z;
  }
  look_up(p.display, r);
  look_up(p.display, g);
  look_up(p.display, b);
  for (int i = 0; i < kChunk; ++i) {
    store_element(&out[0][i], r[i]);
    store_element(&out[1][i], g[i]);
    store_element(&out[2][i], b[i]);
  }
}

void lab_kernel(const LabParams& p, int64_t begin, int64_t end) {
  uint8_t* const planes[3] = {p.first, p.second, p.third};
  for (int64_t at = begin; at < end; at += kChunk) {
    const auto count = static_cast<size_t>(end - at < kChunk ? end - at : kChunk);
    uint8_t from[3][kChunk] = {}, to[3][kChunk];
    for (int c = 0; c < 3; ++c) std::memcpy(from[c], planes[c] + at, count);
    p.back ? from_lab(p, from, to) : to_lab(p, from, to);
    for (int c = 0; c < 3; ++c) std::memcpy(planes[c] + at, to[c], count);
  }
}

const bool registered = lab_stub.set(kIsaSlot, lab_kernel);

}  // namespace
}  // namespace visops
