// antialias of uint8 images in integers.
//
// NOTE [ Integer filter ]
// Where filters_integers(), antialias is evaluated in 16-bit weights and 32-bit sums, which every
// processor has instructions for and which no order of summation changes. From the float32 weights
// w_k of filter_tap(), per axis and output pixel:
//
//   weights   q_k = round(W_k N) - round(W_(k-1) N) with W_k = w_0 + ... + w_k: their sum is N, so
//             a constant image stays constant, and their errors cancel where an image is smooth.
//             N = level 2^shift, with the largest shift that keeps q_k in 16 bits and sums in 32.
//   columns   v = round(sum_i qy_i (p_ij - 128) / 2^shift_y), halves up, in 16 bits; in steps of
//             1 / level. level is 256 for bilinear; bicubic overshoots by up to an eighth of the
//             range at either end, so there it is 192; Lanczos by up to 0.28 of it, so 128.
//   rows      value = (sum_j qx_j v_j) / (N_x level) + 128, in float32; N_x is a power of two
//
// With at most kMostIntegerTaps taps an axis, the value is within 0.4 of the exact one, whatever
// the image: a weight is off by less than 1 / N, a column by 1 / (2 level).
#pragma once

#include "core/warp/filter_taps.h"

namespace visops {

template <Interpolation mode>
struct IntegerLevel {
  static constexpr int32_t value = mode == Interpolation::kBilinear  ? 256
                                   : mode == Interpolation::kBicubic ? 192
                                                                     : 128;
};

// The weights of FilterTaps as integers, which next_weight() yields in order.
struct IntegerTaps {
  int32_t total;  // their sum, N; 0 without taps
  int shift;
  float scale;    // of running sums of filter_tap()
  float sum;      // so far
  int32_t until;  // weights so far
};

// total = level 2^shift, shift <= most_shift. `peak` is the largest filter_tap(), by size.
VISOPS_FN IntegerTaps integer_taps(const FilterTaps<float>& taps, float peak, int32_t level,
                                   int most_shift) {
  // 32767, less what rounding running sums may add.
  constexpr uint32_t kLargest = 0x46ff7800;  // 32700, as a float
  // The largest shift with 2^shift x peak x norm x level <= 32700.
  const auto largest = bit_cast<uint32_t>(peak * taps.norm * static_cast<float>(level));
  constexpr uint32_t kFraction = (1u << 23) - 1;
  const int fits = static_cast<int>(kLargest >> 23) - static_cast<int>(largest >> 23) -
                   ((largest & kFraction) > (kLargest & kFraction) ? 1 : 0);
  IntegerTaps t;
  t.shift = fits > 0 ? (fits < most_shift ? fits : most_shift) : 0;
  t.total = taps.count > 0 ? level << t.shift : 0;
  t.scale = taps.norm * static_cast<float>(t.total);
  t.sum = 0.0f;
  t.until = 0;
  return t;
}

template <Interpolation mode>
VISOPS_FN float filter_peak(const FilterTaps<float>& taps) {
  float peak = 0.0f;
  for (int32_t i = 0; i < taps.count; ++i) {
    const float weight = filter_tap<mode>(taps, taps.first + i);
    const float size = weight < 0.0f ? -weight : weight;
    peak = size > peak ? size : peak;
  }
  return peak;
}

// The weights of tap rows, and of tap columns.
template <Interpolation mode>
VISOPS_FN IntegerTaps integer_rows(const FilterTaps<float>& taps, float peak) {
  return integer_taps(taps, peak, IntegerLevel<mode>::value, 13);
}
template <Interpolation mode>
VISOPS_FN IntegerTaps integer_rows(const FilterTaps<float>& taps) {
  return integer_rows<mode>(taps, filter_peak<mode>(taps));
}
template <Interpolation mode>
VISOPS_FN IntegerTaps integer_columns(const FilterTaps<float>& taps, float peak) {
  return integer_taps(taps, peak, 1, 15);
}
template <Interpolation mode>
VISOPS_FN IntegerTaps integer_columns(const FilterTaps<float>& taps) {
  return integer_columns<mode>(taps, filter_peak<mode>(taps));
}

// The sum of all weights up to a tap, from the one of filter_tap() and IntegerTaps::scale.
VISOPS_HOT_FN int32_t weight_until(float scale, float sum) {
  return static_cast<int32_t>(floor(sum * scale + 0.5f));
}

// The weight of tap `i` of 0, 1, 2 ...
template <Interpolation mode>
VISOPS_HOT_FN int32_t next_weight(const FilterTaps<float>& taps, int32_t i, IntegerTaps* t) {
  t->sum = t->sum + filter_tap<mode>(taps, taps.first + i);
  const int32_t before = t->until;
  const bool last = i + 1 == taps.count;
  t->until = last ? t->total : weight_until(t->scale, t->sum);
  return t->until - before;
}

// What a sum over tap rows becomes, in 16 bits.
VISOPS_HOT_FN int32_t round_column(int32_t sum, int shift) {
  const int32_t v = (sum + ((1 << shift) >> 1)) >> shift;
  return v > -32768 ? (v < 32767 ? v : 32767) : -32768;
}

// What one unit of a sum over tap columns is worth. 1 / 192 is not exact, but near enough for
// multiples of 192 / 2^n to come out exact.
template <Interpolation mode>
VISOPS_HOT_FN float integer_unit(const IntegerTaps& columns) {
  const int32_t most = columns.total > 0 ? columns.total : 1;
  return 1.0f / (static_cast<float>(IntegerLevel<mode>::value) * static_cast<float>(most));
}

// `count` channels of one pixel, at most Channels, before they are blended with fill. `image` is
// the plane of the first.
template <Interpolation mode, int Channels>
VISOPS_FN void integer_pixels(const AugmentSample& s, const SegmentAxes<float>& axes,
                              const uint8_t* image, int count, const FilterTaps<float>& x,
                              const FilterTaps<float>& y, float* value) {
  IntegerTaps columns = integer_columns<mode>(x);
  const IntegerTaps rows = integer_rows<mode>(y);
  int32_t sum[Channels] = {};
  for (int32_t j = 0; j < x.count; ++j) {
    const uint8_t* column =
        image + filter_index(axes.x, s.x, Padding::kConstant, x.first + j) * s.image.column_stride;
    IntegerTaps t = rows;
    int32_t v[Channels] = {};
    for (int32_t i = 0; i < y.count; ++i) {
      const uint8_t* at =
          column + filter_index(axes.y, s.y, Padding::kConstant, y.first + i) * s.image.row_stride;
      const int32_t weight = next_weight<mode>(y, i, &t);
      for (int c = 0; c < Channels; ++c) {
        if (c >= count) break;
        v[c] +=
            weight * (static_cast<int32_t>(load_readonly(at + c * s.image.channel_stride)) - 128);
      }
    }
    const int32_t weight = next_weight<mode>(x, j, &columns);
    for (int c = 0; c < Channels; ++c) sum[c] += weight * round_column(v[c], rows.shift);
  }
  const float unit = integer_unit<mode>(columns);
  for (int c = 0; c < Channels; ++c) value[c] = static_cast<float>(sum[c]) * unit + 128.0f;
}

}  // namespace visops
