// The nearest warp: moves elements by size, whatever they mean.
#pragma once

#include "core/warp/affine_pixel.h"
#include "cpu/warp/affine_rows.h"
#include "cpu/warp/copied_rows.h"
#include "cpu/warp/image_end.h"

namespace visops {
namespace {

inline PixelLayout pixel_layout(const AffineParams& p, const AffineMap& map) {
  const int64_t size = element_size(p.dtype);
  const Strides &in = p.image_stride, &out = p.output_stride;
  return {p.channels,
          size,
          in.channel * size,
          in.column * size,
          out.channel * size,
          out.column * size,
          run_of(map.integral, map.m),
          end_of(p.image, in, p.batch, p.channels, p.height, p.width, size)};
}

inline CopiedSample copied_sample(const AffineParams& p, const AffineMap& map, int64_t sample) {
  const int64_t size = element_size(p.dtype);
  return {pixel_layout(p, map),
          static_cast<const char*>(p.image) + sample * p.image_stride.batch * size,
          static_cast<char*>(p.output) + sample * p.output_stride.batch * size,
          p.image_stride.row * size,
          p.output_stride.row * size,
          map.m,
          {0, p.width - 1},
          {0, p.height - 1},
          p.dtype,
          p.fill,
          p.fill_count};
}

// What copy_sample() of cpu/warp/copied_rows.h does not take.
template <class CoordType>
struct CopySampler {
  using Coord = CoordType;
  static constexpr auto kMode = Interpolation::kNearest;

  const AffineParams& p;
  const AffineMap& map;
  PixelLayout layout;
  int64_t size;  // of an element, in bytes
  bool has_inside;
  int32_t row_bytes, column_bytes;  // where has_inside

  CopySampler(const AffineParams& params, const AffineMap& m)
      : p(params),
        map(m),
        layout(pixel_layout(params, m)),
        size(layout.element),
        has_inside(sizeof(Coord) == sizeof(float) &&
                   fits_taps(map.m, p.image_stride.row * size, layout.column_bytes)),
        row_bytes(static_cast<int32_t>(p.image_stride.row * size)),
        column_bytes(static_cast<int32_t>(layout.column_bytes)) {}

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
              const SegmentTaps& taps, int64_t, int64_t begin, int64_t end) const {
    const char* image = image_of(sample) + origin.y * row_bytes + origin.x * column_bytes;
    copy_run(layout, image, taps.offset, static_cast<int>(end - begin),
             output_of(sample, y, begin));
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
