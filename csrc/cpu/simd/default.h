// Vectors of four floats in plain C++: any processor, any compiler.
#pragma once

namespace visops {
namespace {

struct Floats {
  static constexpr int kWidth = 4;
  float v[4];
  Floats() = default;
  explicit Floats(float x) : v{x, x, x, x} {}
  static Floats load(const float* p) {
    Floats r;
    memcpy(r.v, p, sizeof(r.v));
    return r;
  }
  void store(float* p) const { memcpy(p, v, sizeof(v)); }
};
using Quad = Floats;

VISOPS_ALWAYS_INLINE Floats operator+(const Floats& a, const Floats& b) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = a.v[i] + b.v[i];
  return r;
}
VISOPS_ALWAYS_INLINE Floats operator-(const Floats& a, const Floats& b) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = a.v[i] - b.v[i];
  return r;
}
VISOPS_ALWAYS_INLINE Floats operator*(const Floats& a, const Floats& b) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = a.v[i] * b.v[i];
  return r;
}

// a * b, and 0 where a is NaN.
VISOPS_ALWAYS_INLINE Floats multiply_unless_nan(const Floats& a, const Floats& b) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = a.v[i] == a.v[i] ? a.v[i] * b.v[i] : 0.0f;
  return r;
}

// kWidth / 4 quads, from base + offset.
VISOPS_ALWAYS_INLINE Floats load_quads(const float* base, const int32_t* offset) {
  return Floats::load(base + offset[0]);
}

// Clamps to [0, 1]; NaN stays NaN.
VISOPS_ALWAYS_INLINE Floats clamp_unit(const Floats& v) {
  Floats r;
  for (int i = 0; i < 4; ++i) {
    const float above = v.v[i] < 0.0f ? 0.0f : v.v[i];
    r.v[i] = above > 1.0f ? 1.0f : above;
  }
  return r;
}

// kWidth adjacent elements.
template <class T>
VISOPS_ALWAYS_INLINE Floats load_floats(const T* p) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = load_element(p + i);
  return r;
}

// Transposes a 4 x 4 block.
VISOPS_ALWAYS_INLINE void transpose(Quad (&q)[4]) {
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < i; ++j) {
      const float t = q[i].v[j];
      q[i].v[j] = q[j].v[i];
      q[j].v[i] = t;
    }
  }
}

struct RawPairs {
  unsigned char bytes[2][8];
};
struct PixelPairs {
  RawPairs low, high;
};

template <int Rows>
VISOPS_ALWAYS_INLINE void load_pairs(const char* const (&row)[Rows], const int32_t* offset,
                                     PixelPairs (&pairs)[Rows]) {
  for (int r = 0; r < Rows; ++r) {
    memcpy(pairs[r].low.bytes[0], row[r] + offset[0], 8);
    memcpy(pairs[r].low.bytes[1], row[r] + offset[1], 8);
    memcpy(pairs[r].high.bytes[0], row[r] + offset[2], 8);
    memcpy(pairs[r].high.bytes[1], row[r] + offset[3], 8);
  }
}

template <int A, int B, class T>
VISOPS_ALWAYS_INLINE Floats convert_pairs(const RawPairs& raw, const T*) {
  Floats r;
  for (int i = 0; i < 2; ++i) {
    T a, b;
    memcpy(&a, raw.bytes[i] + A * sizeof(T), sizeof(T));
    memcpy(&b, raw.bytes[i] + B * sizeof(T), sizeof(T));
    r.v[2 * i] = load_element(&a);
    r.v[2 * i + 1] = load_element(&b);
  }
  return r;
}

VISOPS_ALWAYS_INLINE Floats even(const Floats& a, const Floats& b) {
  Floats r;
  r.v[0] = a.v[0], r.v[1] = a.v[2], r.v[2] = b.v[0], r.v[3] = b.v[2];
  return r;
}
VISOPS_ALWAYS_INLINE Floats odd(const Floats& a, const Floats& b) {
  Floats r;
  r.v[0] = a.v[1], r.v[1] = a.v[3], r.v[2] = b.v[1], r.v[3] = b.v[3];
  return r;
}
VISOPS_ALWAYS_INLINE Floats unpack_low(const Floats& a) {
  Floats r;
  r.v[0] = r.v[1] = a.v[0];
  r.v[2] = r.v[3] = a.v[1];
  return r;
}
VISOPS_ALWAYS_INLINE Floats unpack_high(const Floats& a) {
  Floats r;
  r.v[0] = r.v[1] = a.v[2];
  r.v[2] = r.v[3] = a.v[3];
  return r;
}

// kWidth pixels of Channels adjacent elements.
template <class T, int Channels>
VISOPS_ALWAYS_INLINE void store_pixels(T* p, const Floats (&c)[Channels]) {
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < Channels; ++k) store_element(p + i * Channels + k, c[k].v[i]);
  }
}

}  // namespace
}  // namespace visops
