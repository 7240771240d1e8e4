// The nearest warp: moves elements by size, whatever they mean.
#pragma once

#include "core/warp/affine_pixel.h"
#include "cpu/copies.h"
#include "cpu/warp/affine_rows.h"

namespace visops {
namespace {

template <class CoordType>
struct CopySampler {
  using Coord = CoordType;
  static constexpr auto kMode = Interpolation::kNearest;

  const AffineParams& p;
  const AffineMap& map;
  int64_t size;       // of an element, in bytes
  bool whole_pixels;  // interleaved channels on both sides: one move for all of them
  bool straight;      // an output row is a run of an image row
  bool has_inside;
  int32_t row_bytes, column_bytes;  // where has_inside
  const char* image_end;

  CopySampler(const AffineParams& params, const AffineMap& m)
      : p(params),
        map(m),
        size(element_size(p.dtype)),
        whole_pixels(p.channels == 1 ||
                     (p.image_stride.channel == 1 && p.output_stride.channel == 1)),
        straight(map.integral && map.m[0] == 1.0 && map.m[3] == 0.0 &&
                 p.image_stride.column == p.output_stride.column &&
                 p.image_stride.column == (whole_pixels ? p.channels : 1)),
        has_inside(sizeof(Coord) == sizeof(float) &&
                   fits_taps(map.m, p.image_stride.row * size, p.image_stride.column * size)),
        row_bytes(static_cast<int32_t>(p.image_stride.row * size)),
        column_bytes(static_cast<int32_t>(p.image_stride.column * size)),
        image_end(end_of(p.image, p.image_stride, p.batch, p.channels, p.height, p.width, size)) {}

  const char* image_of(int64_t sample) const {
    return static_cast<const char*>(p.image) + sample * p.image_stride.batch * size;
  }
  char* output_of(int64_t sample, int64_t y, int64_t x) const {
    return static_cast<char*>(p.output) +
           (sample * p.output_stride.batch + y * p.output_stride.row + x * p.output_stride.column) *
               size;
  }

  bool inside(int64_t, int64_t, const SegmentOrigin<double>&, const SegmentTaps&, int64_t, int64_t,
              int64_t) const {
    return false;  // float64 coordinates have no SegmentTaps
  }

  bool inside(int64_t sample, int64_t y, const SegmentOrigin<float>& origin,
              const SegmentTaps& taps, int64_t x0, int64_t begin, int64_t end) const {
    const int count = static_cast<int>(end - begin);
    const char* image = image_of(sample) + origin.y * row_bytes + origin.x * column_bytes;
    char* out = output_of(sample, y, begin);
    const int64_t planes = whole_pixels ? 1 : p.channels;
    const int64_t pixel = whole_pixels ? p.channels * size : size;
    for (int64_t c = 0; c < planes; ++c) {
      const char* plane = image + c * p.image_stride.channel * size;
      char* to = out + c * p.output_stride.channel * size;
      const int64_t step = p.output_stride.column * size;
      if (straight) {
        memcpy(to, plane + (begin - x0 - kSegment / 2) * column_bytes,
               static_cast<size_t>(count * pixel));
        continue;
      }
      switch (pixel) {
        case 1: copy_pixels<1>(plane, taps.offset, count, to, step); break;
        case 2: copy_pixels<2>(plane, taps.offset, count, to, step); break;
        case 3:
          if (step == 3 && plane + taps.highest + 4 <= image_end) {
            copy_triples(plane, taps.offset, count, to);
          } else {
            copy_pixels<3>(plane, taps.offset, count, to, step);
          }
          break;
        case 4: copy_pixels<4>(plane, taps.offset, count, to, step); break;
        case 8: copy_pixels<8>(plane, taps.offset, count, to, step); break;
        case 12: copy_pixels<12>(plane, taps.offset, count, to, step); break;
        case 16: copy_pixels<16>(plane, taps.offset, count, to, step); break;
        default:
          for (int i = 0; i < count; ++i) {
            memcpy(to + i * step, plane + taps.offset[i], static_cast<size_t>(pixel));
          }
      }
    }
    return true;
  }

  void border(int64_t sample, int64_t y, const SegmentOrigin<Coord>& origin, int64_t x0,
              int64_t begin, int64_t end) const {
    const char* image = image_of(sample);
    // Only float64 images have float64 coordinates; a size that is known is one move.
    const int64_t bytes = sizeof(Coord) == sizeof(double) ? int64_t{8} : size;
    for (int64_t x = begin; x < end; ++x) {
      const auto taps = pixel_taps<kMode>(p, map, origin, static_cast<int>(x - x0));
      char* out = output_of(sample, y, x);
      const bool outside = taps.outside();
      const char* from =
          image +
          (taps.y.index[0] * p.image_stride.row + taps.x.index[0] * p.image_stride.column) * bytes;
      for (int64_t c = 0; c < p.channels; ++c) {
        char* to = out + c * p.output_stride.channel * bytes;
        if (outside) {
          const uint64_t bits = fill_bits(p.dtype, affine_fill(p, c));
          memcpy(to, &bits, static_cast<size_t>(bytes));
        } else {
          memcpy(to, from + c * p.image_stride.channel * bytes, static_cast<size_t>(bytes));
        }
      }
    }
  }
};

}  // namespace
}  // namespace visops
