// Samples the lanes of a segment into planes, by the layout of the image.
#pragma once

#include <type_traits>

#include "cpu/simd/floats.h"
#include "cpu/warp/augment_lanes.h"
#include "cpu/warp/pairs.h"

namespace visops {
namespace {

// How an image's elements lie, as loads of 8 bytes see them.
enum class Layout {
  kPixels,        // any strides: one element at a time
  kPlanes,        // columns adjacent
  kInterleaved3,  // three or four interleaved uint8 channels
  kInterleaved4,
  kQuads,  // three or four interleaved float32 channels
};

inline Layout layout_of(const AugmentParams& p, const AugmentImage& image) {
  if (p.dtype == DType::kFloat64) return Layout::kPixels;
  if (image.column_stride == 1) return Layout::kPlanes;
  const bool few = p.channels == 3 || p.channels == 4;
  if (few && image.channel_stride == 1 && image.column_stride == p.channels) {
    if (p.dtype == DType::kUInt8) {
      return p.channels == 3 ? Layout::kInterleaved3 : Layout::kInterleaved4;
    }
    if (p.dtype == DType::kFloat32) return Layout::kQuads;
  }
  return Layout::kPixels;
}

// How the bytes of one sample's image are reached.
struct LaneImage {
  const AugmentParams& p;
  const AugmentSample& s;
  Layout layout;
  bool fits;  // 32-bit offsets reach the whole image
  int32_t row_bytes, column_bytes;
  int64_t channel_bytes;
  int64_t end;  // bytes from the image's first element to the end of the last

  LaneImage(const AugmentParams& params, const AugmentSample& sample)
      : p(params), s(sample), layout(layout_of(params, sample.image)) {
    const AugmentImage& image = s.image;
    const int64_t size = element_size(p.dtype);
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

  // Whether the loads stay before the end of the image, for first taps up to `highest` and channels
  // up to `last_channel`. They take 8 bytes (16 for quads), more than the taps may have.
  VISOPS_ALWAYS_INLINE bool reads_within(int32_t highest, int rows, int columns,
                                         int64_t last_channel) const {
    if (layout == Layout::kPixels) return true;
    const bool quads = layout == Layout::kQuads;
    const int64_t rows_after = row_bytes > 0 ? (rows - 1) * int64_t{row_bytes} : 0;
    const int64_t planes_after =
        layout == Layout::kPlanes && channel_bytes > 0 ? (last_channel - 1) * channel_bytes : 0;
    const int64_t columns_after = (columns - (quads ? 1 : 2)) * int64_t{column_bytes};
    return highest + rows_after + planes_after + columns_after + (quads ? 16 : 8) <= end;
  }
};

// Its elements, as float32 planes.
template <class T>
struct LaneSampler : LaneImage {
  explicit LaneSampler(const LaneImage& image) : LaneImage(image) {}

  // Bilinear or bicubic: the taps at `lanes`, which all lie in the image.
  template <Interpolation mode>
  void sample(const AugmentLanes& lanes, int begin, int padded, int64_t first, int64_t channels,
              Planes& planes) const {
    constexpr int kTaps = tap_count(mode);
    const char* image = static_cast<const char*>(s.image.data) + first * channel_bytes;
    const int from = begin & -kMaxWidth;
    const int32_t highest = highest_offset(lanes, from, padded);
    if (!reads_within(highest, kTaps, kTaps, first + channels)) {
      return sample_pixels_of<mode>(image, lanes, from, padded, channels, planes);
    }
    switch (layout) {
      case Layout::kPixels:
        return sample_pixels_of<mode>(image, lanes, from, padded, channels, planes);
      case Layout::kQuads:
        if constexpr (mode == Interpolation::kBilinear) {
          return sample_quads(image, lanes, from, padded, planes);
        }
        return sample_pixels_of<mode>(image, lanes, from, padded, channels, planes);
      case Layout::kInterleaved3:
        if constexpr (sizeof(T) == 1) {
          sample_pairs_run<3, mode>(image, lanes, from, padded, planes.v);
        }
        return;
      case Layout::kInterleaved4:
        if constexpr (sizeof(T) == 1) {
          sample_pairs_run<4, mode>(image, lanes, from, padded, planes.v);
        }
        return;
      case Layout::kPlanes:
        for (int64_t c = 0; c < channels; ++c) {
          sample_pairs_run<1, mode>(image + c * channel_bytes, lanes, from, padded, planes.v + c);
        }
    }
  }

  // All channels at once, one pixel after another.
  void sample_quads(const char* image, const AugmentLanes& lanes, int begin, int end_lane,
                    Planes& planes) const {
    const auto quad = [](const char* tap) {
      return Quad::load(reinterpret_cast<const float*>(tap));
    };
    const int64_t row = row_bytes, column = column_bytes;
    for (int i = begin; i < end_lane; i += 4) {
      Quad q[4];
      for (int l = 0; l < 4; ++l) {
        const char* tap = image + lanes.offset[i + l];
        const Quad wx(lanes.wx[i + l]), wy(lanes.wy[i + l]);
        const Quad a = quad(tap), b = quad(tap + column);
        const Quad t0 = a + wy * (quad(tap + row) - a),
                   t1 = b + wy * (quad(tap + row + column) - b);
        q[l] = t0 + wx * (t1 - t0);
      }
      transpose(q);
      for (int c = 0; c < kGroup; ++c) q[c].store(planes.v[c] + i);
    }
  }

  template <Interpolation mode>
  void sample_pixels_of(const char* image, const AugmentLanes& lanes, int begin, int end_lane,
                        int64_t channels, Planes& planes) const {
    for (int64_t c = 0; c < channels; ++c) {
      sample_pixels<mode>(image + c * channel_bytes, lanes, begin, end_lane, planes.v[c]);
    }
  }

  template <int Channels, Interpolation mode>
  VISOPS_ALWAYS_INLINE void sample_pairs_run(const char* image, const AugmentLanes& lanes,
                                             int begin, int end_lane,
                                             float (*v)[kPaddedSegment]) const {
    const bool along_rows = Channels == 1 && runs_along_rows(s.map.m);
    const char* image_end = static_cast<const char*>(s.image.data) + end;
    for (int i = begin; i < end_lane; i += Floats::kWidth) {
      Floats result[Channels];
      if (!along_rows || !sample_window<T, mode>(image, image_end, row_bytes, lanes.offset + i,
                                                 lanes.wx + i, lanes.wy + i, result[0])) {
        sample_pairs<T, Channels, mode>(image, row_bytes, lanes.offset + i, lanes.wx + i,
                                        lanes.wy + i, result);
      }
      for (int c = 0; c < Channels; ++c) result[c].store(v[c] + i);
    }
  }

  // The elements at `lanes`.
  void copy(const AugmentLanes& lanes, int padded, int64_t first, int64_t channels,
            Planes& planes) const {
    const char* image = static_cast<const char*>(s.image.data) + first * channel_bytes;
    const int count = whole_vectors(padded);
    if constexpr (sizeof(T) == 1) {
      const bool words = layout == Layout::kInterleaved3 || layout == Layout::kInterleaved4;
      if (words && highest_offset(lanes, 0, count) + int64_t{4} <= end) {
        alignas(64) int32_t pixel[kPaddedSegment];
        for (int i = 0; i < count; ++i) memcpy(pixel + i, image + lanes.offset[i], 4);
        for (int64_t c = 0; c < channels; ++c) {
          const int shift = 8 * static_cast<int>(c);
          for (int i = 0; i < count; ++i) {
            planes.v[c][i] = static_cast<float>((pixel[i] >> shift) & 255);
          }
        }
        return;
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      const char* plane = image + c * channel_bytes;
      alignas(64) T element[kPaddedSegment];
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
