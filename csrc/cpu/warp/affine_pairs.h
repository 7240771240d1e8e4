// Samples runs of pixels in vectors where 8 bytes hold a pixel's taps along x.
#pragma once

#include "cpu/warp/affine_pixels.h"
#include "cpu/warp/affine_rows.h"
#include "cpu/warp/image_end.h"
#include "cpu/warp/pairs.h"
#include "cpu/warp/windows.h"

namespace visops {
namespace {

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
