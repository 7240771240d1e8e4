// Samples pixels of any layout one at a time: borders, and what no vector path takes.
#pragma once

#include "core/warp/affine_pixel.h"
#include "cpu/warp/affine_rows.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
