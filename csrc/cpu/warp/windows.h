// Samples runs of pixels of a plane whose taps lie side by side.
//
// NOTE [ Windows ]
// Where an output row runs along an image row (crops, flips, shifts and scales, but no rotation),
// the taps of a vector of pixels lie within two vectors of adjacent elements, up to a scale of
// about two. Two loads and a permutation per column of taps then take the place of a load per
// pixel. The sums are those of cpu/warp/affine_pairs.h, in the same order.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/pixel.h"
#include "cpu/simd/window.h"

namespace visops {
namespace {

// Whether windows are worth a try. sample_window() looks at the offsets themselves.
inline bool runs_along_rows(const double* m) { return m[3] == 0.0 && fabs(m[0]) <= 2.0; }

#if VISOPS_ISA_SLOT > 0 || VISOPS_NEON

// The taps of one row: column k holds each pixel's k-th tap.
template <int Taps>
struct TapColumns {
  Floats column[Taps];
};

template <class T, int Taps>
VISOPS_ALWAYS_INLINE TapColumns<Taps> window_columns(const char* row, const WindowIndex& index) {
  const T* from = reinterpret_cast<const T*>(row);
  const FloatWindow window = {load_floats(from), load_floats(from + Floats::kWidth)};
  TapColumns<Taps> taps;
  for (int k = 0; k < Taps; ++k) taps.column[k] = window.at(index + k);
  return taps;
}

template <class T, Interpolation mode>
VISOPS_ALWAYS_INLINE bool sample_window_of(const char* image, const char* end, int64_t row_bytes,
                                           const int32_t* offset, const float* weight_x,
                                           const float* weight_y, Floats& result) {
  constexpr int kTaps = tap_count(mode), kLast = Floats::kWidth - 1;
  constexpr int kElements = 2 * Floats::kWidth;
  const int32_t first = offset[0] < offset[kLast] ? offset[0] : offset[kLast];
  const int64_t last_row = row_bytes > 0 ? (kTaps - 1) * row_bytes : 0;
  if (end - image < first + last_row + kElements * int64_t{sizeof(T)}) return false;
  const WindowIndex index = window_index<sizeof(T)>(offset, first);
  if (!all_below(index, kElements - kTaps + 1)) return false;

  const char* row = image + first;
  const Floats x = Floats::load(weight_x), y = Floats::load(weight_y);
  if constexpr (mode == Interpolation::kBilinear) {
    const TapColumns<2> top = window_columns<T, 2>(row, index);
    const TapColumns<2> bottom = window_columns<T, 2>(row + row_bytes, index);
    const Floats left = top.column[0] + y * (bottom.column[0] - top.column[0]);
    const Floats right = top.column[1] + y * (bottom.column[1] - top.column[1]);
    result = left + x * (right - left);
  } else {
    Floats wx[4], wy[4], sum[4];
    cubic_weights(x, wx);
    cubic_weights(y, wy);
    for (int r = 0; r < 4; ++r) {
      const TapColumns<4> taps = window_columns<T, 4>(row + r * row_bytes, index);
      for (int k = 0; k < 4; ++k) {
        const Floats product = wy[r] * taps.column[k];
        sum[k] = r == 0 ? product : sum[k] + product;
      }
    }
    result = ((wx[0] * sum[0] + wx[1] * sum[1]) + wx[2] * sum[2]) + wx[3] * sum[3];
  }
  return true;
}

// kWidth pixels with first taps at image + offset; false where their taps don't lie within a
// window, or the window would end behind `end`.
template <class T, Interpolation mode>
VISOPS_ALWAYS_INLINE bool sample_window(const char* image, const char* end, int64_t row_bytes,
                                        const int32_t* offset, const float* weight_x,
                                        const float* weight_y, Floats& result) {
  if constexpr (std::is_same<T, int16_t>::value || std::is_same<T, uint16_t>::value) {
    return false;  // rare, and not worth two more conversions
  } else {
    return sample_window_of<T, mode>(image, end, row_bytes, offset, weight_x, weight_y, result);
  }
}

#else

template <class T, Interpolation mode>
bool sample_window(const char*, const char*, int64_t, const int32_t*, const float*, const float*,
                   Floats&) {
  return false;  // without permutations across a vector, pairs are as good
}

#endif

}  // namespace
}  // namespace visops
