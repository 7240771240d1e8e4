// The sums of cpu/simd/integer_sums.h with NEON, which multiplies words by a word of a vector.
#pragma once

#include "cpu/simd/integer_sums.h"

namespace visops {
namespace {

constexpr int kByteBlock = 64;

// sum[0..3] += weight x sixteen bytes.
VISOPS_ALWAYS_INLINE void add_bytes(uint8x16_t bytes, int16_t weight, int32x4_t (&sum)[4]) {
  const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
  const int16x8_t high = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
  sum[0] = vmlal_n_s16(sum[0], vget_low_s16(low), weight);
  sum[1] = vmlal_high_n_s16(sum[1], low, weight);
  sum[2] = vmlal_n_s16(sum[2], vget_low_s16(high), weight);
  sum[3] = vmlal_high_n_s16(sum[3], high, weight);
}

inline void byte_sums(const ByteRows& rows, int64_t at, int16_t* out) {
  int32x4_t sum[4][4];
  for (auto& block : sum) {
    for (int32x4_t& s : block) s = vdupq_n_s32(rows.start);
  }
  const uint8_t* row = rows.data + at;
  for (int k = 0; k < rows.count; ++k, row += rows.stride) {
    for (int u = 0; u < 4; ++u) add_bytes(vld1q_u8(row + 16 * u), rows.weight(k), sum[u]);
  }
  const int32x4_t by = vdupq_n_s32(-rows.shift);  // shifts left: there is none to the right
  for (int u = 0; u < 4; ++u) {
    for (int i = 0; i < 4; i += 2) {
      const int16x4_t low = vqmovn_s32(vshlq_s32(sum[u][i], by));
      const int16x4_t high = vqmovn_s32(vshlq_s32(sum[u][i + 1], by));
      vst1q_s16(out + 16 * u + 4 * i, vcombine_s16(low, high));
    }
  }
}

VISOPS_ALWAYS_INLINE void store_scaled(int32x4_t sum, float32x4_t scale, float32x4_t offset,
                                       float* out) {
  vst1q_f32(out, vaddq_f32(vmulq_f32(vcvtq_f32_s32(sum), scale), offset));
}

// Four parts of the sum of run i in one plane.
template <int Blocks>
VISOPS_ALWAYS_INLINE int32x4_t run_sums(const WordRuns& runs, int plane, int i) {
  const int blocks = Blocks > 0 ? Blocks : runs.blocks;
  const int16_t* weight = runs.weight + i * blocks * kWordBlock;
  const int16_t* from = runs.plane[plane] + runs.first[i];
  int32x4_t sum = vdupq_n_s32(0);
  VISOPS_UNROLL
  for (int b = 0; b < blocks; ++b) {
    const int16x8_t words = vld1q_s16(from + b * kWordBlock);
    const int16x8_t weights = vld1q_s16(weight + b * kWordBlock);
    sum = vmlal_s16(sum, vget_low_s16(words), vget_low_s16(weights));
    sum = vmlal_high_s16(sum, words, weights);
  }
  return sum;
}

// out[c][i] = scale[i] x sum + offset.
template <int Planes, int Blocks>
VISOPS_ALWAYS_INLINE void word_sums(const WordRuns& runs, const float* scale, float offset,
                                    float* const (&out)[4]) {
  const float32x4_t scales = vld1q_f32(scale), offsets = vdupq_n_f32(offset);
  for (int c = 0; c < Planes; ++c) {
    const int32x4_t a = vpaddq_s32(run_sums<Blocks>(runs, c, 0), run_sums<Blocks>(runs, c, 1));
    const int32x4_t b = vpaddq_s32(run_sums<Blocks>(runs, c, 2), run_sums<Blocks>(runs, c, 3));
    store_scaled(vpaddq_s32(a, b), scales, offsets, out[c]);
  }
}

constexpr bool kPixelRuns = true;

// Sums of run i, a channel in each lane. Pairs = 0 reads their number.
template <int Channels, int Pairs>
VISOPS_ALWAYS_INLINE int32x4_t pixel_run_sums(const PixelRuns& runs, int i) {
  const int pairs = Pairs > 0 ? Pairs : runs.pairs;
  const int16_t* from = runs.pixels + runs.first[i];
  const int16_t* weight = runs.weight + (i % 4 * pairs * 2 + i / 4) * kWordBlock;
  int32x4_t sum = vdupq_n_s32(0);
  VISOPS_UNROLL
  for (int k = 0; k < pairs; ++k, from += 2 * Channels, weight += 2 * kWordBlock) {
    const int16x4_t weights = vld1_s16(weight);
    sum = vmlal_lane_s16(sum, vld1_s16(from), weights, 0);
    sum = vmlal_lane_s16(sum, vld1_s16(from + Channels), weights, 1);
  }
  return sum;
}

// out[c][i] = scale[i] x sum + offset. Reads four words from each tap on.
template <int Channels, int Pairs>
VISOPS_ALWAYS_INLINE void pixel_sums(const PixelRuns& runs, const float* scale, float offset,
                                     float* const (&out)[4]) {
  const float32x4_t offsets = vdupq_n_f32(offset);
  VISOPS_UNROLL
  for (int first = 0; first < kPixelSums; first += 4) {
    const int32x4_t s0 = pixel_run_sums<Channels, Pairs>(runs, first);
    const int32x4_t s1 = pixel_run_sums<Channels, Pairs>(runs, first + 1);
    const int32x4_t s2 = pixel_run_sums<Channels, Pairs>(runs, first + 2);
    const int32x4_t s3 = pixel_run_sums<Channels, Pairs>(runs, first + 3);
    const int32x4_t a = vtrn1q_s32(s0, s1), b = vtrn2q_s32(s0, s1);
    const int32x4_t c = vtrn1q_s32(s2, s3), d = vtrn2q_s32(s2, s3);
    const int32x4_t sums[4] = {vcombine_s32(vget_low_s32(a), vget_low_s32(c)),
                               vcombine_s32(vget_low_s32(b), vget_low_s32(d)),
                               vcombine_s32(vget_high_s32(a), vget_high_s32(c)),
                               vcombine_s32(vget_high_s32(b), vget_high_s32(d))};
    const float32x4_t scales = vld1q_f32(scale + first);
    for (int k = 0; k < Channels; ++k) store_scaled(sums[k], scales, offsets, out[k] + first);
  }
}

}  // namespace
}  // namespace visops
