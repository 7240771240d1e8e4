// Weighted sums of bytes and of 16-bit words, in 32 bits: exact, so that their order is free.
//
//   byte_sums   kByteBlock sums over rows of bytes, rounded to 16 bits
//   word_sums   sums along four runs of words, in up to four planes; Blocks = 0 reads their length
//   window_sums, where kWordWindows: the same for sixteen runs that lie near each other
//   pixel_sums, where kPixelRuns: the same for eight runs of pixels of three or four words
#pragma once

#include <cstdint>
#include <cstring>

#include "core/platform.h"
#include "cpu/simd/arm.h"

#if VISOPS_ISA_SLOT > 0
#include <immintrin.h>
#endif

namespace visops {
namespace {

constexpr int kWordBlock = 8;  // words that word_sums() takes at a time

// Rows of bytes and their weights.
struct ByteRows {
  const uint8_t* data;
  int64_t stride;       // bytes from one row to the next
  int count;            // rows
  const int32_t* pair;  // [(count + 1) / 2] weights of two rows, the first in the low 16 bits
  int32_t start;        // of every sum
  int shift;            // out = sum >> shift, saturated

  VISOPS_ALWAYS_INLINE int16_t weight(int row) const {
    return static_cast<int16_t>(static_cast<uint32_t>(pair[row / 2]) >> row % 2 * 16);
  }
};

VISOPS_ALWAYS_INLINE int16_t saturate_words(int32_t v) {
  return static_cast<int16_t>(v > -32768 ? (v < 32767 ? v : 32767) : -32768);
}

// Runs of words, [blocks * kWordBlock] each.
struct WordRuns {
  const int16_t* plane[4];
  const int32_t* first;   // [4] where the runs begin, in every plane
  const int16_t* weight;  // [4, blocks * kWordBlock]
  int blocks;
};

// Sixteen runs within a window of 64 words: where kWordWindows, shuffles of two registers bring a
// pair of words to each run.
struct WordWindow {
  const int16_t* plane[4];  // where the window begins
  const int16_t* index;     // [32] each pixel's first two words
  const int16_t* weight;    // [pairs, 32]
  int pairs;
};

// Eight runs of pixels, 2 * pairs each.
struct PixelRuns {
  const int16_t* pixels;
  const int32_t* first;   // [8] the word where each run begins
  const int16_t* weight;  // [4, pairs, 16] of the runs i and i + 4: each pair of taps four times
  int pairs;
};
constexpr int kPixelSums = 8;

#if VISOPS_ISA_SLOT == 2

constexpr int kByteBlock = 128;

// Unpacking works within blocks of 16 bytes, and so does packing: they cancel.
VISOPS_ALWAYS_INLINE void add_bytes(__m512i a, __m512i b, __m512i weight, __m512i (&sum)[4]) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
  const __m512i pairs[4] = {_mm512_unpacklo_epi8(low, zero), _mm512_unpackhi_epi8(low, zero),
                            _mm512_unpacklo_epi8(high, zero), _mm512_unpackhi_epi8(high, zero)};
  for (int i = 0; i < 4; ++i)
    sum[i] = _mm512_add_epi32(sum[i], _mm512_madd_epi16(pairs[i], weight));
}

// Masks of ones: GCC 12 warns that the plain shift uses what its own header leaves undefined.
VISOPS_ALWAYS_INLINE void store_sums(const __m512i (&sum)[4], int shift, int16_t* out) {
  const __m128i by = _mm_cvtsi32_si128(shift);
  const __m512i even = _mm512_packs_epi32(_mm512_maskz_sra_epi32(0xffff, sum[0], by),
                                          _mm512_maskz_sra_epi32(0xffff, sum[1], by));
  const __m512i odd = _mm512_packs_epi32(_mm512_maskz_sra_epi32(0xffff, sum[2], by),
                                         _mm512_maskz_sra_epi32(0xffff, sum[3], by));
  const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  _mm512_storeu_si512(out, _mm512_permutex2var_epi64(even, front, odd));
  _mm512_storeu_si512(out + 32, _mm512_permutex2var_epi64(even, back, odd));
}

inline void byte_sums(const ByteRows& rows, int64_t at, int16_t* out) {
  __m512i sum[2][4];
  for (auto& block : sum) {
    for (__m512i& s : block) s = _mm512_set1_epi32(rows.start);
  }
  const uint8_t* row = rows.data + at;
  const auto add = [&](int64_t to_second, int pair) {
    const __m512i weight = _mm512_set1_epi32(rows.pair[pair]);
    for (int u = 0; u < 2; ++u) {
      const uint8_t* from = row + 64 * u;
      add_bytes(_mm512_loadu_si512(from), _mm512_loadu_si512(from + to_second), weight, sum[u]);
    }
  };
  for (int k = 0; k < rows.count / 2; ++k, row += 2 * rows.stride) add(rows.stride, k);
  if (rows.count % 2 != 0) add(0, rows.count / 2);
  for (int u = 0; u < 2; ++u) store_sums(sum[u], rows.shift, out + 64 * u);
}

// A lane of four sums for each plane.
template <int Planes>
VISOPS_ALWAYS_INLINE __m512i load_runs(const WordRuns& runs, int32_t at) {
  const auto load = [&](int c) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(runs.plane[c] + at));
  };
  __m512i v = _mm512_castsi128_si512(load(0));
  if (Planes > 1) v = _mm512_mask_broadcast_i32x4(v, 0x00f0, load(1));
  if (Planes > 2) v = _mm512_mask_broadcast_i32x4(v, 0x0f00, load(2));
  if (Planes > 3) v = _mm512_mask_broadcast_i32x4(v, 0xf000, load(3));
  return v;
}

template <int Planes, int Blocks>
VISOPS_ALWAYS_INLINE __m512i run_sums(const WordRuns& runs, int i) {
  const int blocks = Blocks > 0 ? Blocks : runs.blocks;
  const int16_t* weight = runs.weight + i * blocks * kWordBlock;
  const int32_t at = runs.first[i];
  __m512i sum = _mm512_setzero_si512();
  VISOPS_UNROLL
  for (int b = 0; b < blocks; ++b) {
    const __m128i* w = reinterpret_cast<const __m128i*>(weight + b * kWordBlock);
    const __m512i products = _mm512_madd_epi16(load_runs<Planes>(runs, at + b * kWordBlock),
                                               _mm512_broadcast_i32x4(_mm_loadu_si128(w)));
    sum = _mm512_add_epi32(sum, products);
  }
  return sum;
}

// out[c][i] = scale[i] x sum + offset.
template <int Planes, int Blocks>
VISOPS_ALWAYS_INLINE void word_sums(const WordRuns& runs, const float* scale, float offset,
                                    float* const (&out)[4]) {
  const __m512i s0 = run_sums<Planes, Blocks>(runs, 0), s1 = run_sums<Planes, Blocks>(runs, 1);
  const __m512i s2 = run_sums<Planes, Blocks>(runs, 2), s3 = run_sums<Planes, Blocks>(runs, 3);
  const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(s0, s1), _mm512_unpackhi_epi32(s0, s1));
  const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(s2, s3), _mm512_unpackhi_epi32(s2, s3));
  const __m512i sum = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  const __m512 scales = _mm512_broadcast_f32x4(_mm_loadu_ps(scale));
  const __m512 v =
      _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scales), _mm512_set1_ps(offset));
  _mm_storeu_ps(out[0], _mm512_castps512_ps128(v));
  if (Planes > 1) _mm_storeu_ps(out[1], _mm512_extractf32x4_ps(v, 1));
  if (Planes > 2) _mm_storeu_ps(out[2], _mm512_extractf32x4_ps(v, 2));
  if (Planes > 3) _mm_storeu_ps(out[3], _mm512_extractf32x4_ps(v, 3));
}

constexpr bool kWordWindows = true;

// out[c][i] = scale[i] x sum + offset.
template <int Planes>
VISOPS_ALWAYS_INLINE void window_sums(const WordWindow& window, const float* scale, float offset,
                                      float* const (&out)[4]) {
  __m512i low[Planes], high[Planes], sum[Planes];
  for (int c = 0; c < Planes; ++c) {
    low[c] = _mm512_loadu_si512(window.plane[c]);
    high[c] = _mm512_loadu_si512(window.plane[c] + 32);
    sum[c] = _mm512_setzero_si512();
  }
  __m512i index = _mm512_load_si512(window.index);
  for (int k = 0; k < window.pairs; ++k) {
    const __m512i weight = _mm512_load_si512(window.weight + 32 * k);
    for (int c = 0; c < Planes; ++c) {
      const __m512i words = _mm512_permutex2var_epi16(low[c], index, high[c]);
      sum[c] = _mm512_add_epi32(sum[c], _mm512_madd_epi16(words, weight));
    }
    index = _mm512_add_epi16(index, _mm512_set1_epi16(2));
  }
  const __m512 scales = _mm512_loadu_ps(scale), offsets = _mm512_set1_ps(offset);
  for (int c = 0; c < Planes; ++c) {
    const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[c]), scales);
    _mm512_storeu_ps(out[c], _mm512_add_ps(v, offsets));
  }
}

#elif VISOPS_ISA_SLOT == 1

constexpr int kByteBlock = 64;

VISOPS_ALWAYS_INLINE __m256i load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// Unpacking works within blocks of 16 bytes, and so does packing: they cancel.
VISOPS_ALWAYS_INLINE void add_bytes(__m256i a, __m256i b, __m256i weight, __m256i (&sum)[4]) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
  const __m256i pairs[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                            _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
  for (int i = 0; i < 4; ++i)
    sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs[i], weight));
}

VISOPS_ALWAYS_INLINE void store_sums(const __m256i (&sum)[4], int shift, int16_t* out) {
  const __m128i by = _mm_cvtsi32_si128(shift);
  const __m256i even =
      _mm256_packs_epi32(_mm256_sra_epi32(sum[0], by), _mm256_sra_epi32(sum[1], by));
  const __m256i odd =
      _mm256_packs_epi32(_mm256_sra_epi32(sum[2], by), _mm256_sra_epi32(sum[3], by));
  __m256i* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

inline void byte_sums(const ByteRows& rows, int64_t at, int16_t* out) {
  __m256i sum[2][4];
  for (auto& block : sum) {
    for (__m256i& s : block) s = _mm256_set1_epi32(rows.start);
  }
  const uint8_t* row = rows.data + at;
  const auto add = [&](int64_t to_second, int pair) {
    const __m256i weight = _mm256_set1_epi32(rows.pair[pair]);
    for (int u = 0; u < 2; ++u) {
      const uint8_t* from = row + 32 * u;
      add_bytes(load_bytes(from), load_bytes(from + to_second), weight, sum[u]);
    }
  };
  for (int k = 0; k < rows.count / 2; ++k, row += 2 * rows.stride) add(rows.stride, k);
  if (rows.count % 2 != 0) add(0, rows.count / 2);
  for (int u = 0; u < 2; ++u) store_sums(sum[u], rows.shift, out + 32 * u);
}

// A lane of four sums for planes `First` and `First` + 1.
template <int Planes, int First, int Blocks>
VISOPS_ALWAYS_INLINE __m256i run_sums(const WordRuns& runs, int i) {
  const int blocks = Blocks > 0 ? Blocks : runs.blocks;
  const int16_t* weight = runs.weight + i * blocks * kWordBlock;
  constexpr int kSecond = First + 1 < Planes ? First + 1 : First;
  const int32_t at = runs.first[i];
  __m256i sum = _mm256_setzero_si256();
  VISOPS_UNROLL
  for (int b = 0; b < blocks; ++b) {
    const auto load = [](const int16_t* p) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    };
    const __m256i words = _mm256_inserti128_si256(
        _mm256_castsi128_si256(load(runs.plane[First] + at + b * kWordBlock)),
        load(runs.plane[kSecond] + at + b * kWordBlock), 1);
    const __m256i weights = _mm256_broadcastsi128_si256(load(weight + b * kWordBlock));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, weights));
  }
  return sum;
}

template <int Planes, int First, int Blocks>
VISOPS_ALWAYS_INLINE void word_sums_of(const WordRuns& runs, const float* scale, float offset,
                                       float* const (&out)[4]) {
  const __m256i a = _mm256_hadd_epi32(run_sums<Planes, First, Blocks>(runs, 0),
                                      run_sums<Planes, First, Blocks>(runs, 1));
  const __m256i b = _mm256_hadd_epi32(run_sums<Planes, First, Blocks>(runs, 2),
                                      run_sums<Planes, First, Blocks>(runs, 3));
  const __m256 sum = _mm256_cvtepi32_ps(_mm256_hadd_epi32(a, b));
  const __m256 scales = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(scale));
  const __m256 v = _mm256_add_ps(_mm256_mul_ps(sum, scales), _mm256_set1_ps(offset));
  _mm_storeu_ps(out[First], _mm256_castps256_ps128(v));
  if (First + 1 < Planes) _mm_storeu_ps(out[First + 1], _mm256_extractf128_ps(v, 1));
}

// out[c][i] = scale[i] x sum + offset.
template <int Planes, int Blocks>
VISOPS_ALWAYS_INLINE void word_sums(const WordRuns& runs, const float* scale, float offset,
                                    float* const (&out)[4]) {
  word_sums_of<Planes, 0, Blocks>(runs, scale, offset, out);
  if constexpr (Planes > 2) word_sums_of<Planes, 2, Blocks>(runs, scale, offset, out);
}

constexpr bool kPixelRuns = true;

// The words of two pixels in each half, channel by channel.
template <int Channels>
VISOPS_ALWAYS_INLINE __m256i pair_channels(__m256i pixels) {
  const __m128i order = Channels == 3
                            ? _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1)
                            : _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
  return _mm256_shuffle_epi8(pixels, _mm256_broadcastsi128_si256(order));
}

// Sums of the runs i and i + 4, a channel in each lane of a half. Pairs = 0 reads their number.
template <int Channels, int Pairs>
VISOPS_ALWAYS_INLINE __m256i pixel_run_sums(const PixelRuns& runs, int i) {
  const int pairs = Pairs > 0 ? Pairs : runs.pairs;
  const int16_t* low = runs.pixels + runs.first[i];
  const int16_t* high = runs.pixels + runs.first[i + 4];
  const auto* weight = reinterpret_cast<const __m256i*>(runs.weight) + i * pairs;
  __m256i sum = _mm256_setzero_si256();
  VISOPS_UNROLL
  for (int k = 0; k < pairs; ++k) {
    const __m256i pixels = _mm256_inserti128_si256(
        _mm256_castsi128_si256(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(low + 2 * k * Channels))),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(high + 2 * k * Channels)), 1);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pair_channels<Channels>(pixels), weight[k]));
  }
  return sum;
}

// out[c][i] = scale[i] x sum + offset. Reads eight words from each tap on.
template <int Channels, int Pairs>
VISOPS_ALWAYS_INLINE void pixel_sums(const PixelRuns& runs, const float* scale, float offset,
                                     float* const (&out)[4]) {
  const __m256i s0 = pixel_run_sums<Channels, Pairs>(runs, 0);
  const __m256i s1 = pixel_run_sums<Channels, Pairs>(runs, 1);
  const __m256i s2 = pixel_run_sums<Channels, Pairs>(runs, 2);
  const __m256i s3 = pixel_run_sums<Channels, Pairs>(runs, 3);
  const __m256i a = _mm256_unpacklo_epi32(s0, s1), b = _mm256_unpacklo_epi32(s2, s3);
  const __m256i c = _mm256_unpackhi_epi32(s0, s1), d = _mm256_unpackhi_epi32(s2, s3);
  const __m256i sums[4] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b),
                           _mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d)};
  const __m256 scales = _mm256_loadu_ps(scale), offsets = _mm256_set1_ps(offset);
  for (int k = 0; k < Channels; ++k) {
    const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[k]), scales);
    _mm256_storeu_ps(out[k], _mm256_add_ps(v, offsets));
  }
}

#elif !VISOPS_NEON

constexpr int kByteBlock = 64;

inline void byte_sums(const ByteRows& rows, int64_t at, int16_t* out) {
  int32_t sum[kByteBlock];
  for (int e = 0; e < kByteBlock; ++e) sum[e] = rows.start;
  const uint8_t* row = rows.data + at;
  for (int k = 0; k < rows.count; ++k, row += rows.stride) {
    const int16_t weight = rows.weight(k);
    for (int e = 0; e < kByteBlock; ++e) sum[e] += weight * static_cast<int16_t>(row[e]);
  }
  for (int e = 0; e < kByteBlock; ++e) out[e] = saturate_words(sum[e] >> rows.shift);
}

// out[c][i] = scale[i] x sum + offset.
template <int Planes, int Blocks>
VISOPS_ALWAYS_INLINE void word_sums(const WordRuns& runs, const float* scale, float offset,
                                    float* const (&out)[4]) {
  const int count = (Blocks > 0 ? Blocks : runs.blocks) * kWordBlock;
  for (int i = 0; i < 4; ++i) {
    const int16_t* weight = runs.weight + i * count;
    for (int c = 0; c < Planes; ++c) {
      const int16_t* word = runs.plane[c] + runs.first[i];
      int32_t sum = 0;
      for (int k = 0; k < count; ++k) sum += weight[k] * word[k];
      out[c][i] = static_cast<float>(sum) * scale[i] + offset;
    }
  }
}

#endif

}  // namespace
}  // namespace visops

#if VISOPS_NEON
#include "cpu/simd/neon_sums.h"
#endif

namespace visops {
namespace {

// What a kind of kernel lacks is declared, for code that `if constexpr` leaves out.
#if VISOPS_ISA_SLOT != 1 && !VISOPS_NEON
constexpr bool kPixelRuns = false;
template <int Channels, int Pairs>
void pixel_sums(const PixelRuns&, const float*, float, float* const (&)[4]);
#endif
#if VISOPS_ISA_SLOT != 2
constexpr bool kWordWindows = false;
template <int Planes>
void window_sums(const WordWindow&, const float*, float, float* const (&)[4]);
#endif

}  // namespace
}  // namespace visops
