// NEON for x86: SIMDe's functions under NEON's names, and those that SIMDe 0.7 lacks in plain C++.
// A build with VISOPS_EMULATE_NEON=1 finds this file as <arm_neon.h> and compiles the default
// slot's ARM code with it, to run at native speed (`make test-neon`).
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace neon_emulation {

template <class Vector, class Element>
struct Lanes {
  static constexpr int kCount = sizeof(Vector) / sizeof(Element);
  Element lane[kCount];
  Lanes() = default;
  explicit Lanes(Vector v) { memcpy(lane, &v, sizeof(v)); }
  Vector vector() const {
    Vector v;
    memcpy(&v, lane, sizeof(v));
    return v;
  }
};

// Rounded half to even, saturated; 0 for NaN.
template <class Integer, class Vector>
Vector rounded(float32x4_t from, double low, double high) {
  const Lanes<float32x4_t, float> value(from);
  Lanes<Vector, Integer> to;
  for (int i = 0; i < 4; ++i) {
    const double v = std::nearbyint(static_cast<double>(value.lane[i]));
    to.lane[i] = static_cast<Integer>(v != v ? 0.0 : v < low ? low : v > high ? high : v);
  }
  return to.vector();
}

// The low n bits of lanes of a, above them those of b.
template <class Integer, class Vector>
Vector insert_left(Vector a, Vector b, int n) {
  const Lanes<Vector, Integer> low(a), high(b);
  Lanes<Vector, Integer> to;
  for (int i = 0; i < to.kCount; ++i) {
    const uint64_t kept = low.lane[i] & ((uint64_t{1} << n) - 1);
    to.lane[i] = static_cast<Integer>(kept | static_cast<uint64_t>(high.lane[i]) << n);
  }
  return to.vector();
}

}  // namespace neon_emulation

static inline int32x4_t vcvtnq_s32_f32(float32x4_t v) {
  return neon_emulation::rounded<int32_t, int32x4_t>(v, -2147483648.0, 2147483647.0);
}
static inline uint32x4_t vcvtnq_u32_f32(float32x4_t v) {
  return neon_emulation::rounded<uint32_t, uint32x4_t>(v, 0.0, 4294967295.0);
}
static inline uint32x4_t vsliq_n_u32(uint32x4_t a, uint32x4_t b, int n) {
  return neon_emulation::insert_left<uint32_t>(a, b, n);
}
static inline uint8x16_t vsliq_n_u8(uint8x16_t a, uint8x16_t b, int n) {
  return neon_emulation::insert_left<uint8_t>(a, b, n);
}
