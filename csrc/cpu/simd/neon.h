// Vectors of four floats: any 64-bit ARM processor. Included by cpu/simd/floats.h.
#pragma once

#include "cpu/simd/arm.h"

namespace visops {
namespace {

struct Floats {
  static constexpr int kWidth = 4;
  float32x4_t v;
  Floats() = default;
  VISOPS_ALWAYS_INLINE explicit Floats(float x) : v(vdupq_n_f32(x)) {}
  VISOPS_ALWAYS_INLINE explicit Floats(float32x4_t x) : v(x) {}
  static VISOPS_ALWAYS_INLINE Floats load(const float* p) { return Floats(vld1q_f32(p)); }
  VISOPS_ALWAYS_INLINE void store(float* p) const { vst1q_f32(p, v); }
};
using Quad = Floats;

VISOPS_ALWAYS_INLINE Floats operator+(Floats a, Floats b) { return Floats(vaddq_f32(a.v, b.v)); }
VISOPS_ALWAYS_INLINE Floats operator-(Floats a, Floats b) { return Floats(vsubq_f32(a.v, b.v)); }
VISOPS_ALWAYS_INLINE Floats operator*(Floats a, Floats b) { return Floats(vmulq_f32(a.v, b.v)); }

// a * b, and 0 where a is NaN.
VISOPS_ALWAYS_INLINE Floats multiply_unless_nan(Floats a, Floats b) {
  const uint32x4_t product = vreinterpretq_u32_f32(vmulq_f32(a.v, b.v));
  return Floats(vreinterpretq_f32_u32(vandq_u32(vceqq_f32(a.v, a.v), product)));
}

// kWidth / 4 quads, from base + offset.
VISOPS_ALWAYS_INLINE Floats load_quads(const float* base, const int32_t* offset) {
  return Floats::load(base + offset[0]);
}

// Clamps to [0, 1]; NaN stays NaN.
VISOPS_ALWAYS_INLINE Floats clamp_unit(Floats v) {
  // FMAX would make +0 of -0.
  const float32x4_t zero = vdupq_n_f32(0.0f);
  const float32x4_t above = vbslq_f32(vcltq_f32(v.v, zero), zero, v.v);
  return Floats(vminq_f32(above, vdupq_n_f32(1.0f)));
}

// kWidth adjacent elements.
VISOPS_ALWAYS_INLINE uint8x8_t load_four(const void* p) {
  uint32_t four;
  memcpy(&four, p, 4);
  return vreinterpret_u8_u32(vdup_n_u32(four));
}
VISOPS_ALWAYS_INLINE Floats convert_four(uint8x8_t bytes) {
  return Floats(vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes)))));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const uint8_t* p) { return convert_four(load_four(p)); }
VISOPS_ALWAYS_INLINE Floats load_floats(const Truth* p) {
  return convert_four(vmin_u8(load_four(p), vdup_n_u8(1)));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const uint16_t* p) {
  return Floats(vcvtq_f32_u32(vmovl_u16(vld1_u16(p))));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const int16_t* p) {
  return Floats(vcvtq_f32_s32(vmovl_s16(vld1_s16(p))));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const Half* p) {
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(p));
  return Floats(vcvt_f32_f16(vreinterpret_f16_u16(bits)));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const BFloat16* p) {
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(p));
  return Floats(vreinterpretq_f32_u32(vshll_n_u16(bits, 16)));
}
VISOPS_ALWAYS_INLINE Floats load_floats(const float* p) { return Floats::load(p); }

// Transposes a 4 x 4 block.
VISOPS_ALWAYS_INLINE void transpose(Quad (&q)[4]) {
  const float32x4_t a = vtrn1q_f32(q[0].v, q[1].v), b = vtrn2q_f32(q[0].v, q[1].v);
  const float32x4_t c = vtrn1q_f32(q[2].v, q[3].v), d = vtrn2q_f32(q[2].v, q[3].v);
  q[0].v = vcombine_f32(vget_low_f32(a), vget_low_f32(c));
  q[1].v = vcombine_f32(vget_low_f32(b), vget_low_f32(d));
  q[2].v = vcombine_f32(vget_high_f32(a), vget_high_f32(c));
  q[3].v = vcombine_f32(vget_high_f32(b), vget_high_f32(d));
}

using RawPairs = uint8x16_t;
struct PixelPairs {
  RawPairs low, high;
};

VISOPS_ALWAYS_INLINE uint8x16_t load_two(const char* a, const char* b) {
  return vcombine_u8(vld1_u8(reinterpret_cast<const uint8_t*>(a)),
                     vld1_u8(reinterpret_cast<const uint8_t*>(b)));
}

template <int Rows>
VISOPS_ALWAYS_INLINE void load_pairs(const char* const (&row)[Rows], const int32_t* offset,
                                     PixelPairs (&pairs)[Rows]) {
  for (int r = 0; r < Rows; ++r) {
    pairs[r].low = load_two(row[r] + offset[0], row[r] + offset[1]);
    pairs[r].high = load_two(row[r] + offset[2], row[r] + offset[3]);
  }
}

// For each byte of a vector, where TBL takes it from. It writes 0 for places behind the last one.
struct Positions {
  static constexpr uint8_t kNone = 255;
  uint8_t position[16];
};
// Elements A and B of each 8-byte half, in the low or the high bytes of 32-bit lanes.
template <int A, int B, int Size, bool is_high>
constexpr Positions pair_positions() {
  Positions p = {};
  for (int lane = 0; lane < 4; ++lane) {
    for (int byte = 0; byte < 4; ++byte) {
      const int in = is_high ? byte - (4 - Size) : byte;
      const int element = (lane % 2 == 0 ? A : B) * Size + lane / 2 * 8;
      p.position[4 * lane + byte] =
          static_cast<uint8_t>(in >= 0 && in < Size ? element + in : Positions::kNone);
    }
  }
  return p;
}
template <int A, int B, int Size, bool is_high>
VISOPS_ALWAYS_INLINE uint8x16_t look_up_pairs(uint8x16_t raw) {
  static constexpr Positions kPositions = pair_positions<A, B, Size, is_high>();
  return vqtbl1q_u8(raw, vld1q_u8(kPositions.position));
}

template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(uint8x16_t raw, const uint8_t*) {
  const uint8x16_t bytes = look_up_pairs<A, B, 1, false>(raw);
  return Floats(vcvtq_f32_u32(vreinterpretq_u32_u8(bytes)));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(uint8x16_t raw, const Truth*) {
  const uint8x16_t truths = vminq_u8(raw, vdupq_n_u8(1));
  return convert_pairs<A, B>(truths, static_cast<const uint8_t*>(nullptr));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(uint8x16_t raw, const uint16_t*) {
  const uint8x16_t words = look_up_pairs<A, B, 2, false>(raw);
  return Floats(vcvtq_f32_u32(vreinterpretq_u32_u8(words)));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(uint8x16_t raw, const int16_t*) {
  const uint8x16_t words = look_up_pairs<A, B, 2, true>(raw);
  return Floats(vcvtq_f32_s32(vshrq_n_s32(vreinterpretq_s32_u8(words), 16)));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(uint8x16_t raw, const BFloat16*) {
  const uint8x16_t words = look_up_pairs<A, B, 2, true>(raw);
  return Floats(vreinterpretq_f32_u8(words));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(uint8x16_t raw, const Half*) {
  static_assert(A == 0 && B == 1, "halves are paired in planes only");
  const uint32x4_t pairs = vreinterpretq_u32_u8(raw);
  const uint32x2_t firsts = vget_low_u32(vuzp1q_u32(pairs, pairs));
  return Floats(vcvt_f32_f16(vreinterpret_f16_u16(vreinterpret_u16_u32(firsts))));
}
template <int A, int B>
VISOPS_ALWAYS_INLINE Floats convert_pairs(uint8x16_t raw, const float*) {
  static_assert(A == 0 && B == 1, "8 bytes hold two floats");
  return Floats(vreinterpretq_f32_u8(raw));
}

VISOPS_ALWAYS_INLINE Floats even(Floats a, Floats b) { return Floats(vuzp1q_f32(a.v, b.v)); }
VISOPS_ALWAYS_INLINE Floats odd(Floats a, Floats b) { return Floats(vuzp2q_f32(a.v, b.v)); }
VISOPS_ALWAYS_INLINE Floats unpack_low(Floats a) { return Floats(vzip1q_f32(a.v, a.v)); }
VISOPS_ALWAYS_INLINE Floats unpack_high(Floats a) { return Floats(vzip2q_f32(a.v, a.v)); }

// Integers from 0 on, rounded half to even. Conversions saturate, and so do narrowings.
VISOPS_ALWAYS_INLINE uint32x4_t to_integers(Floats f) { return vcvtnq_u32_f32(f.v); }
VISOPS_ALWAYS_INLINE uint32x4_t to_bytes(Floats f) {
  return vminq_u32(to_integers(f), vdupq_n_u32(255));
}

// kWidth pixels of one or more adjacent elements.
VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[1]) {
  const uint16x4_t words = vqmovn_u32(to_integers(c[0]));
  const uint8x8_t bytes = vqmovn_u16(vcombine_u16(words, words));
  const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
  memcpy(p, &four, 4);
}
VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[3]) {
  static constexpr uint8_t kDropFourth[16] = {0,  1,  2,  4,  5,   6,   8,   9,
                                              10, 12, 13, 14, 255, 255, 255, 255};
  const uint32x4_t rg = vsliq_n_u32(to_bytes(c[0]), to_bytes(c[1]), 8);
  const uint32x4_t rgb0 = vsliq_n_u32(rg, to_bytes(c[2]), 16);
  const uint8x16_t rgb = vqtbl1q_u8(vreinterpretq_u8_u32(rgb0), vld1q_u8(kDropFourth));
  vst1_u8(p, vget_low_u8(rgb));
  const uint32_t last = vgetq_lane_u32(vreinterpretq_u32_u8(rgb), 2);
  memcpy(p + 8, &last, 4);
}
VISOPS_ALWAYS_INLINE void store_pixels(uint8_t* p, const Floats (&c)[4]) {
  const uint32x4_t rg = vsliq_n_u32(to_bytes(c[0]), to_bytes(c[1]), 8);
  const uint32x4_t rgb = vsliq_n_u32(rg, to_bytes(c[2]), 16);
  vst1q_u8(p, vreinterpretq_u8_u32(vsliq_n_u32(rgb, to_bytes(c[3]), 24)));
}
VISOPS_ALWAYS_INLINE void store_pixels(uint16_t* p, const Floats (&c)[1]) {
  vst1_u16(p, vqmovn_u32(to_integers(c[0])));
}
VISOPS_ALWAYS_INLINE void store_pixels(int16_t* p, const Floats (&c)[1]) {
  // NaN becomes the least number, as in round_saturate().
  const float32x4_t low = vdupq_n_f32(-32768.0f);
  const float32x4_t above = vbslq_f32(vcgtq_f32(c[0].v, low), c[0].v, low);
  vst1_s16(p, vqmovn_s32(vcvtnq_s32_f32(above)));
}
VISOPS_ALWAYS_INLINE void store_pixels(Half* p, const Floats (&c)[1]) {
  vst1_u16(reinterpret_cast<uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32(c[0].v)));
}
VISOPS_ALWAYS_INLINE void store_pixels(BFloat16* p, const Floats (&c)[1]) {
  const uint32x4_t bits = vreinterpretq_u32_f32(c[0].v);
  const uint32x4_t odd_bit = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t up = vaddq_u32(bits, vaddq_u32(odd_bit, vdupq_n_u32(0x7fff)));
  const uint32x4_t is_number = vceqq_f32(c[0].v, c[0].v);
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  vst1_u16(reinterpret_cast<uint16_t*>(p), vshrn_n_u32(vbslq_u32(is_number, up, quiet), 16));
}
VISOPS_ALWAYS_INLINE void store_pixels(float* p, const Floats (&c)[1]) { c[0].store(p); }

}  // namespace
}  // namespace visops
