// Samples the lanes of a segment into planes, for the layout of one image.
#pragma once

#include "cpu/affine_pairs.h"
#include "cpu/augment_lanes.h"
#include "cpu/simd.h"

namespace visops {
namespace {

// How an image's elements lie, as far as loads of 8 bytes are concerned.
enum class Layout {
  kPixels,        // any strides: one element at a time
  kPlanes,        // columns adjacent
  kInterleaved3,  // three or four uint8 channels side by side
  kInterleaved4,
};

template <class T>
Layout layout_of(const AugmentParams& p, const AugmentImage& image) {
  if (sizeof(T) > 4) return Layout::kPixels;
  if (image.column_stride == 1) return Layout::kPlanes;
  if (sizeof(T) == 1 && image.channel_stride == 1 && image.column_stride == p.channels) {
    if (p.channels == 3) return Layout::kInterleaved3;
    if (p.channels == 4) return Layout::kInterleaved4;
  }
  return Layout::kPixels;
}

template <class T>
struct LaneSampler {
  const AugmentParams& p;
  const AugmentSample& s;
  Layout layout;
  bool fits;  // 32-bit offsets reach all of the image
  int32_t row_bytes, column_bytes;
  int64_t channel_bytes;
  int64_t end;  // bytes from the image's first element to the end of the last

  LaneSampler(const AugmentParams& params, const AugmentSample& sample)
      : p(params), s(sample), layout(layout_of<T>(params, sample.image)) {
    const AugmentImage& image = s.image;
    constexpr int64_t size = sizeof(T);
    const double bytes =
        (static_cast<double>(image.height) * fabs(static_cast<double>(image.row_stride)) +
         static_cast<double>(image.width) * fabs(static_cast<double>(image.column_stride))) *
        static_cast<double>(size);
    fits = bytes < 1073741824.0;
    row_bytes = fits ? static_cast<int32_t>(image.row_stride * size) : 0;
    column_bytes = fits ? static_cast<int32_t>(image.column_stride * size) : 0;
    channel_bytes = image.channel_stride * size;
    const Strides stride = {0, image.channel_stride, image.row_stride, image.column_stride};
    const char* data = static_cast<const char*>(image.data);
    end = end_of(data, stride, 1, p.channels, image.height, image.width, size) - data;
  }

  // Bilinear or bicubic taps at `lanes`, which all lie in the image.
  template <Interpolation mode>
  void sample(const AugmentLanes& lanes, int begin, int padded, int64_t first, int64_t channels,
              Planes& planes) const {
    constexpr int kTaps = tap_count(mode);
    const char* image = static_cast<const char*>(s.image.data) + first * channel_bytes;
    const int from = begin & -kMaxWidth;
    if (layout != Layout::kPixels) {
      // A load reads 8 bytes, more than the taps may have: not past the end of the image.
      const int64_t rows = row_bytes > 0 ? (kTaps - 1) * int64_t{row_bytes} : 0;
      const int64_t planes_after = layout == Layout::kPlanes && channel_bytes > 0
                                       ? (first + channels - 1) * channel_bytes
                                       : 0;
      const int64_t last = highest_offset(lanes, from, padded) + rows + planes_after +
                           (kTaps - 2) * int64_t{column_bytes} + 8;
      if (last <= end) {
        switch (layout) {
          case Layout::kInterleaved3:
            if constexpr (sizeof(T) == 1)
              sample_pairs_run<3, mode>(image, lanes, from, padded, planes.v);
            return;
          case Layout::kInterleaved4:
            if constexpr (sizeof(T) == 1)
              sample_pairs_run<4, mode>(image, lanes, from, padded, planes.v);
            return;
          default:
            for (int64_t c = 0; c < channels; ++c) {
              sample_pairs_run<1, mode>(image + c * channel_bytes, lanes, from, padded,
                                        planes.v + c);
            }
            return;
        }
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      sample_pixels<mode>(image + c * channel_bytes, lanes, from, padded, planes.v[c]);
    }
  }

  template <int Channels, Interpolation mode>
  VISOPS_ALWAYS_INLINE void sample_pairs_run(const char* image, const AugmentLanes& lanes,
                                             int begin, int end_lane, float (*v)[kLanes]) const {
    for (int i = begin; i < end_lane; i += Floats::kWidth) {
      Floats result[Channels];
      sample_pairs<T, Channels, mode>(image, row_bytes, lanes.offset + i, lanes.wx + i,
                                      lanes.wy + i, result);
      for (int c = 0; c < Channels; ++c) result[c].store(v[c] + i);
    }
  }

  // The elements at `lanes`.
  void copy(const AugmentLanes& lanes, int count, int64_t first, int64_t channels,
            Planes& planes) const {
    for (int64_t c = 0; c < channels; ++c) {
      const char* plane = static_cast<const char*>(s.image.data) + (first + c) * channel_bytes;
      T element[kLanes];
      for (int i = 0; i < count; ++i) memcpy(element + i, plane + lanes.offset[i], sizeof(T));
      for (int i = 0; i < count; i += Floats::kWidth) {
        load_floats(element + i).store(planes.v[c] + i);
      }
    }
  }

  // Any layout, one element at a time.
  template <Interpolation mode>
  void sample_pixels(const char* plane, const AugmentLanes& lanes, int begin, int end_lane,
                     float* v) const {
    constexpr int kTaps = tap_count(mode);
    const int64_t row = row_bytes, column = column_bytes;
    for (int i = begin; i < end_lane; ++i) {
      PixelTaps<mode, float> taps;
      taps.x.t = lanes.wx[i];
      taps.y.t = lanes.wy[i];
      tap_weights<mode>(taps.x.t, taps.x.weight);
      tap_weights<mode>(taps.y.t, taps.y.weight);
      const char* first = plane + lanes.offset[i];
      float value[kTaps][kTaps];
      for (int r = 0; r < kTaps; ++r) {
        for (int k = 0; k < kTaps; ++k) {
          value[r][k] = load_element(reinterpret_cast<const T*>(first + r * row + k * column));
        }
      }
      v[i] = blend_taps<mode>(taps, value);
    }
  }
};

}  // namespace
}  // namespace visops
