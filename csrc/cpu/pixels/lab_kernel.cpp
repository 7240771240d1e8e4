// CIE Lab on the CPU: NOTE [ Lab ] (core/pixels/colors/lab.h).
//
// NOTE [ Lab on the CPU ]
// Pixels go in chunks through small arrays, a step at a time, so that loops are vectorized. Tables
// are read in loops that do nothing else: in one with arithmetic, compilers leave both scalar.
// Results are rounded half to even and saturate; no value depends on another pixel's.
#include "core/pixels/colors/lab.h"

#include <cstring>

namespace visops {
namespace {

constexpr int kChunk = 64;

using Chunk = float[kChunk];

VISOPS_ALWAYS_INLINE void look_up(const float* table, Chunk& values) {
  int32_t steps[kChunk];
  for (int i = 0; i < kChunk; ++i) steps[i] = lab_step(values[i]);
  for (int i = 0; i < kChunk; ++i) values[i] = table[steps[i]];
}

// Chunks of L, a, b from red, green, blue.
void to_lab(const LabParams& p, const uint8_t (&bytes)[3][kChunk], uint8_t (&out)[3][kChunk]) {
  Chunk r, g, b, x, y, z;
  for (int i = 0; i < kChunk; ++i) r[i] = p.linear[bytes[0][i]];
  for (int i = 0; i < kChunk; ++i) g[i] = p.linear[bytes[1][i]];
  for (int i = 0; i < kChunk; ++i) b[i] = p.linear[bytes[2][i]];
  for (int i = 0; i < kChunk; ++i) {
    x[i] = lab_x(r[i], g[i], b[i]);
    y[i] = lab_y(r[i], g[i], b[i]);
    z[i] = lab_z(r[i], g[i], b[i]);
  }
  look_up(p.root, x);
  look_up(p.root, y);
  look_up(p.root, z);
  for (int i = 0; i < kChunk; ++i) {
    store_lab(x[i], y[i], z[i], &out[0][i], &out[1][i], &out[2][i]);
  }
}

void from_lab(const LabParams& p, const uint8_t (&bytes)[3][kChunk], uint8_t (&out)[3][kChunk]) {
  Chunk r, g, b;
  for (int i = 0; i < kChunk; ++i) {
    const LinearColor color = linear_of_lab(bytes[0][i], bytes[1][i], bytes[2][i]);
    r[i] = color.r;
    g[i] = color.g;
    b[i] = color.b;
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

void lab_kernel(const LabParams& p, Workspace&) {
  uint8_t* const planes[3] = {p.first, p.second, p.third};
  for (int64_t at = 0; at < p.pixels; at += kChunk) {
    const auto count = static_cast<size_t>(p.pixels - at < kChunk ? p.pixels - at : kChunk);
    uint8_t from[3][kChunk] = {}, to[3][kChunk];
    for (int c = 0; c < 3; ++c) std::memcpy(from[c], planes[c] + at, count);
    p.back ? from_lab(p, from, to) : to_lab(p, from, to);
    for (int c = 0; c < 3; ++c) std::memcpy(planes[c] + at, to[c], count);
  }
}

const bool registered = lab_stub.set(kIsaSlot, lab_kernel);

}  // namespace
}  // namespace visops
