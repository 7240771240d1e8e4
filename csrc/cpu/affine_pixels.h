// Samples any pixel of any layout, one at a time: borders, and what no vector path takes.
#pragma once

#include "core/affine_pixel.h"

namespace visops {
namespace {

template <class T, Interpolation mode>
struct PixelSampler {
  using Coord = typename Accumulate<T>::type;
  static constexpr bool has_inside = false;

  const AffineParams& p;
  const AffineMap& map;

  PixelSampler(const AffineParams& params, const AffineMap& m) : p(params), map(m) {}

  bool inside(int64_t, int64_t, const SegmentOrigin<Coord>&, int64_t, int64_t, int64_t) const {
    return false;
  }

  void border(int64_t sample, int64_t y, const SegmentOrigin<Coord>& origin, int64_t x0,
              int64_t begin, int64_t end) const {
    const T* image = static_cast<const T*>(p.image) + sample * p.image_stride.batch;
    T* out = static_cast<T*>(p.output) + sample * p.output_stride.batch + y * p.output_stride.row;
    for (int64_t x = begin; x < end; ++x) {
      const auto taps = pixel_taps<mode>(p, map, origin, static_cast<int>(x - x0));
      const bool outside = taps.outside();
      T* pixel = out + x * p.output_stride.column;
      for (int64_t c = 0; c < p.channels; ++c) {
        const double fill = affine_fill(p, c);
        if (outside) {
          pixel[c * p.output_stride.channel] = element_from_bits<T>(fill_bits(p.dtype, fill));
        } else {
          store_element(pixel + c * p.output_stride.channel,
                        sample_pixel(image + c * p.image_stride.channel, p.image_stride, taps,
                                     static_cast<Coord>(fill)));
        }
      }
    }
  }
};

}  // namespace
}  // namespace visops
