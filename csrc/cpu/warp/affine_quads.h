// Samples float32 images with interleaved channels: vectors over channels.
#pragma once

#include "cpu/simd/floats.h"
#include "cpu/warp/affine_pixels.h"
#include "cpu/warp/affine_rows.h"
#include "cpu/warp/image_end.h"

namespace visops {
namespace {

template <Interpolation mode>
struct QuadSampler {
  using Coord = float;
  static constexpr bool has_inside = true;
  static constexpr int kTaps = tap_count(mode);

  const AffineParams& p;
  const AffineMap& map;
  const char* image_end;
  int32_t row_bytes, column_bytes;

  static bool accepts(const AffineParams& p, const AffineMap& map) {
    return p.channels >= 3 && p.image_stride.channel == 1 && p.output_stride.channel == 1 &&
           p.output_stride.column == p.channels &&
           fits_taps(map.m, p.image_stride.row * int64_t{sizeof(float)},
                     p.image_stride.column * int64_t{sizeof(float)});
  }

  QuadSampler(const AffineParams& params, const AffineMap& m)
      : p(params),
        map(m),
        image_end(
            end_of(p.image, p.image_stride, p.batch, p.channels, p.height, p.width, sizeof(float))),
        row_bytes(static_cast<int32_t>(p.image_stride.row * int64_t{sizeof(float)})),
        column_bytes(static_cast<int32_t>(p.image_stride.column * int64_t{sizeof(float)})) {}

  void border(int64_t sample, int64_t y, const SegmentOrigin<float>& origin, int64_t x0,
              int64_t begin, int64_t end) const {
    PixelSampler<float, mode>(p, map).border(sample, y, origin, x0, begin, end);
  }

  bool inside(int64_t sample, int64_t y, const SegmentOrigin<float>& origin,
              const SegmentTaps& taps, int64_t, int64_t begin, int64_t end) const {
    const int count = static_cast<int>(end - begin);
    const int64_t first = sample * p.image_stride.batch * int64_t{sizeof(float)} +
                          (origin.y + first_tap(mode)) * row_bytes +
                          (origin.x + first_tap(mode)) * column_bytes;
    const int64_t last_row = row_bytes > 0 ? (kTaps - 1) * int64_t{row_bytes} : 0;
    const int64_t last_column = column_bytes > 0 ? (kTaps - 1) * int64_t{column_bytes} : 0;
    const int64_t channels = p.channels > 4 ? p.channels : 4;  // a quad reads four
    const int64_t last =
        first + taps.highest + last_row + last_column + channels * int64_t{sizeof(float)};
    const char* image = static_cast<const char*>(p.image);
    if (last > image_end - image) return false;

    float* out = static_cast<float*>(p.output) + sample * p.output_stride.batch +
                 y * p.output_stride.row + begin * p.output_stride.column;
    for (int i = 0; i < count; ++i) {
      const char* pixel_taps = image + first + taps.offset[i];
      float* pixel = out + i * p.channels;
      if (p.channels == 3) {
        // Stores four floats: the next pixel overwrites the fourth.
        const Quad value = blend<Quad>(pixel_taps, 0, taps.wx[i], taps.wy[i]);
        if (i + 1 < count) {
          value.store(pixel);
        } else {
          float rest[4];
          value.store(rest);
          memcpy(pixel, rest, 3 * sizeof(float));
        }
      } else {
        int64_t c = 0;
        for (; c + Floats::kWidth <= p.channels; c += Floats::kWidth) {
          blend<Floats>(pixel_taps, c, taps.wx[i], taps.wy[i]).store(pixel + c);
        }
        for (; c < p.channels; c += 4) {
          if (c > p.channels - 4) c = p.channels - 4;  // the last quad overlaps the previous one
          blend<Quad>(pixel_taps, c, taps.wx[i], taps.wy[i]).store(pixel + c);
        }
      }
    }
    return true;
  }

  template <class V>
  VISOPS_ALWAYS_INLINE V tap(const char* taps, int64_t channel, int row, int column) const {
    return V::load(reinterpret_cast<const float*>(taps + int64_t{row} * row_bytes +
                                                  int64_t{column} * column_bytes) +
                   channel);
  }

  template <class V>
  VISOPS_ALWAYS_INLINE V blend(const char* taps, int64_t channel, float x, float y) const {
    if constexpr (mode == Interpolation::kBilinear) {
      const V wx(x), wy(y);
      const V a = tap<V>(taps, channel, 0, 0), b = tap<V>(taps, channel, 0, 1);
      const V c = tap<V>(taps, channel, 1, 0), e = tap<V>(taps, channel, 1, 1);
      const V t0 = a + wy * (c - a), t1 = b + wy * (e - b);
      return t0 + wx * (t1 - t0);
    } else {
      float wx[4], wy[4];
      cubic_weights(x, wx);
      cubic_weights(y, wy);
      V v[4];
      for (int j = 0; j < 4; ++j) {
        v[j] = V(wy[0]) * tap<V>(taps, channel, 0, j);
        for (int i = 1; i < 4; ++i) v[j] = v[j] + V(wy[i]) * tap<V>(taps, channel, i, j);
      }
      return ((V(wx[0]) * v[0] + V(wx[1]) * v[1]) + V(wx[2]) * v[2]) + V(wx[3]) * v[3];
    }
  }
};

}  // namespace
}  // namespace visops
