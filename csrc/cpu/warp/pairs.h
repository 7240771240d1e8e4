// Samples of pixels in vectors where 8 bytes hold a pixel's taps along x.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/images/pixel.h"
#include "core/warp/affine.h"
#include "cpu/simd/floats.h"
#include "cpu/simd/window.h"
#include "cpu/warp/affine_rows.h"

namespace visops {
namespace {

// One channel of kWidth pixels from 2 rows of 2 taps, vertically first.
template <class T, int Channels, int Channel>
VISOPS_ALWAYS_INLINE Floats bilinear(const PixelPairs (&rows)[2], const FloatPairs& wy, Floats wx) {
  const FloatPairs top = channel_pairs<T, Channels, Channel>(rows[0]);
  const FloatPairs bottom = channel_pairs<T, Channels, Channel>(rows[1]);
  const FloatPairs t = top + wy * (bottom - top);
  const Floats left = first_of_pairs(t);
  return left + wx * (second_of_pairs(t) - left);
}

// One channel of kWidth pixels from 4 rows of 4 taps, two pairs a row.
template <class T, int Channels, int Channel>
VISOPS_ALWAYS_INLINE Floats bicubic(const PixelPairs (&rows)[2][4], const FloatPairs (&wy)[4],
                                    const Floats (&wx)[4]) {
  FloatPairs v[2];
  for (int half = 0; half < 2; ++half) {
    v[half] = wy[0] * channel_pairs<T, Channels, Channel>(rows[half][0]);
    for (int i = 1; i < 4; ++i) {
      v[half] = v[half] + wy[i] * channel_pairs<T, Channels, Channel>(rows[half][i]);
    }
  }
  return ((wx[0] * first_of_pairs(v[0]) + wx[1] * second_of_pairs(v[0])) +
          wx[2] * first_of_pairs(v[1])) +
         wx[3] * second_of_pairs(v[1]);
}

// All channels of kWidth pixels. The first taps are at image + offset, weights are per pixel.
template <class T, int Channels, Interpolation mode>
VISOPS_ALWAYS_INLINE void sample_pairs(const char* image, int64_t row_bytes, const int32_t* offset,
                                       const float* weight_x, const float* weight_y,
                                       Floats (&result)[Channels]) {
  const Floats x = Floats::load(weight_x), y = Floats::load(weight_y);
  if constexpr (mode == Interpolation::kBilinear) {
    PixelPairs rows[2];
    load_pairs({image, image + row_bytes}, offset, rows);
    const FloatPairs wy = spread(y);
    result[0] = bilinear<T, Channels, 0>(rows, wy, x);
    if constexpr (Channels > 1) result[1] = bilinear<T, Channels, 1>(rows, wy, x);
    if constexpr (Channels > 2) result[2] = bilinear<T, Channels, 2>(rows, wy, x);
    if constexpr (Channels > 3) result[3] = bilinear<T, Channels, 3>(rows, wy, x);
  } else {
    constexpr int kPairBytes = 2 * Channels * sizeof(T);
    const char* const row[4] = {image, image + row_bytes, image + 2 * row_bytes,
                                image + 3 * row_bytes};
    PixelPairs rows[2][4];  // columns -1, 0 and columns 1, 2
    load_pairs(row, offset, rows[0]);
    load_pairs({row[0] + kPairBytes, row[1] + kPairBytes, row[2] + kPairBytes, row[3] + kPairBytes},
               offset, rows[1]);
    Floats wx[4], weights[4];
    cubic_weights(x, wx);
    cubic_weights(y, weights);
    const FloatPairs wy[4] = {spread(weights[0]), spread(weights[1]), spread(weights[2]),
                              spread(weights[3])};
    result[0] = bicubic<T, Channels, 0>(rows, wy, wx);
    if constexpr (Channels > 1) result[1] = bicubic<T, Channels, 1>(rows, wy, wx);
    if constexpr (Channels > 2) result[2] = bicubic<T, Channels, 2>(rows, wy, wx);
    if constexpr (Channels > 3) result[3] = bicubic<T, Channels, 3>(rows, wy, wx);
  }
}

// Where an image's memory ends, for kernels that read in vectors.

// One past the highest byte of a [batch, channels, height, width] tensor.
VISOPS_ALWAYS_INLINE const char* end_of(const void* data, const Strides& stride, int64_t batch,
                                        int64_t channels, int64_t height, int64_t width,
                                        int64_t element) {
  const auto reach = [](int64_t size, int64_t step) {
    return size > 1 && step > 0 ? (size - 1) * step : 0;
  };
  const int64_t last = reach(batch, stride.batch) + reach(channels, stride.channel) +
                       reach(height, stride.row) + reach(width, stride.column);
  return static_cast<const char*>(data) + (last + 1) * element;
}

// Samples runs of pixels in vectors where 8 bytes hold a pixel's taps along x.

// Samples pixels of any layout one at a time: borders, and what no vector path takes.

template <class T, Interpolation mode>
struct PixelSampler {
  using Coord = typename Accumulate<T>::type;
  static constexpr bool has_inside = false;
  static constexpr int32_t row_bytes = 0, column_bytes = 0;

  const AffineParams& p;
  const AffineMap& map;

  PixelSampler(const AffineParams& params, const AffineMap& m) : p(params), map(m) {}

  bool inside(int64_t, int64_t, const SegmentOrigin<Coord>&, const SegmentTaps&, int64_t, int64_t,
              int64_t) const {
    return false;
  }

  void border(int64_t sample, int64_t y, const SegmentOrigin<Coord>& origin, int64_t x0,
              int64_t begin, int64_t end) const {
    // Copies: the compiler can't know that stores to the output leave *this unchanged.
    const AffineMap m = map;
    const Strides image_stride = p.image_stride, output_stride = p.output_stride;
    const int64_t channels = p.channels, fill_step = p.fill_count == 1 ? 0 : 1;
    const double* fill = p.fill;
    const T* image = static_cast<const T*>(p.image) + sample * image_stride.batch;
    T* out = static_cast<T*>(p.output) + sample * output_stride.batch + y * output_stride.row;
    for (int64_t x = begin; x < end; ++x) {
      const auto taps = pixel_taps<mode>(p, m, origin, static_cast<int>(x - x0));
      T* pixel = out + x * output_stride.column;
      if (taps.outside()) {
        for (int64_t c = 0; c < channels; ++c) {
          const uint64_t bits = fill_bits(p.dtype, fill[c * fill_step]);
          pixel[c * output_stride.channel] = element_from_bits<T>(bits);
        }
        continue;
      }
      for (int64_t c = 0; c < channels; ++c) {
        store_element(pixel + c * output_stride.channel,
                      sample_pixel(image + c * image_stride.channel, image_stride, taps,
                                   static_cast<Coord>(fill[c * fill_step])));
      }
    }
  }
};

// Samples runs of pixels of a plane whose taps lie side by side.
//
// NOTE [ Windows ]
// Where an output row runs along an image row (crops, flips, shifts and scales, but no rotation),
// the taps of a vector of pixels lie within two vectors of adjacent elements, up to a scale of
// about two. Two loads and a permutation per column of taps then take the place of a load per
// pixel. The sums are those of pairs, in the same order.

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

// Channels > 1: interleaved in image and output. Channels == 1: planes.
template <class T, int Channels, Interpolation mode>
struct PairSampler {
  using Coord = float;
  static constexpr bool has_inside = true;
  static constexpr int kTaps = tap_count(mode);
  static constexpr int32_t column_bytes = Channels * int32_t{sizeof(T)};

  const AffineParams& p;
  const AffineMap& map;
  const char* image_end;
  int32_t row_bytes;
  bool along_rows;

  static bool accepts(const AffineParams& p, const AffineMap& map) {
    const bool adjacent = p.image_stride.column == Channels && p.output_stride.column == Channels;
    const bool interleaved =
        p.channels == Channels && p.image_stride.channel == 1 && p.output_stride.channel == 1;
    return adjacent && (Channels == 1 || interleaved) &&
           fits_taps(map.m, p.image_stride.row * int64_t{sizeof(T)}, Channels * int64_t{sizeof(T)});
  }

  PairSampler(const AffineParams& params, const AffineMap& m)
      : p(params),
        map(m),
        image_end(
            end_of(p.image, p.image_stride, p.batch, p.channels, p.height, p.width, sizeof(T))),
        row_bytes(static_cast<int32_t>(p.image_stride.row * int64_t{sizeof(T)})),
        along_rows(Channels == 1 && runs_along_rows(map.m)) {}

  void border(int64_t sample, int64_t y, const SegmentOrigin<float>& origin, int64_t x0,
              int64_t begin, int64_t end) const {
    PixelSampler<T, mode>(p, map).border(sample, y, origin, x0, begin, end);
  }

  bool inside(int64_t sample, int64_t y, const SegmentOrigin<float>& origin,
              const SegmentTaps& taps, int64_t, int64_t begin, int64_t end) const {
    const int count = static_cast<int>(end - begin);
    const int64_t size = sizeof(T);
    const int64_t first = sample * p.image_stride.batch * size +
                          (origin.y + first_tap(mode)) * row_bytes +
                          (origin.x + first_tap(mode)) * column_bytes;
    // A load reads 8 bytes, which may be more than the taps: stay within the tensor.
    const int64_t last_row = row_bytes > 0 ? (kTaps - 1) * int64_t{row_bytes} : 0;
    const int64_t last_plane =
        Channels == 1 && p.image_stride.channel > 0 ? (p.channels - 1) * p.image_stride.channel : 0;
    const int64_t last =
        first + taps.highest + last_row + (kTaps - 2) * column_bytes + last_plane * size + 8;
    const char* image = static_cast<const char*>(p.image);
    if (last > image_end - image) return false;

    T* out = static_cast<T*>(p.output) + sample * p.output_stride.batch + y * p.output_stride.row +
             begin * p.output_stride.column;
    if constexpr (Channels == 1) {
      for (int64_t c = 0; c < p.channels; ++c) {
        sample_run(image + first + c * p.image_stride.channel * size, taps, count,
                   out + c * p.output_stride.channel);
      }
    } else {
      sample_run(image + first, taps, count, out);
    }
    return true;
  }

  VISOPS_ALWAYS_INLINE void sample_run(const char* image, const SegmentTaps& taps, int count,
                                       T* out) const {
    constexpr int kWidth = Floats::kWidth;
    for (int i = 0; i < count; i += kWidth) {
      Floats result[Channels];
      if (!along_rows || !sample_window<T, mode>(image, image_end, row_bytes, taps.offset + i,
                                                 taps.wx + i, taps.wy + i, result[0])) {
        sample_pairs<T, Channels, mode>(image, row_bytes, taps.offset + i, taps.wx + i, taps.wy + i,
                                        result);
      }
      if (count - i >= kWidth) {
        store_pixels(out + i * Channels, result);
      } else {
        T rest[kWidth * Channels];
        store_pixels(rest, result);
        copy_part(out + i * Channels, rest, sizeof(T) * Channels * static_cast<size_t>(count - i));
      }
    }
  }
};

}  // namespace
}  // namespace visops
