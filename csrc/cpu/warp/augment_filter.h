// antialias under rotation, shear and perspective: filters of many taps, in vectors over pixels.
//
// NOTE [ Filtered lanes ]
// All lanes of a segment have the same number of taps, 2 ceil(radius) along each axis; they differ
// only in the first one. Lanes with all taps in the window are filtered in vectors, two tap columns
// at a time as in cpu/warp/pairs.h. Lanes at the window's edge have fewer taps and go
// through core/warp/augment_pixel.h, which gives the same bits.
#pragma once

#include "cpu/warp/augment_samplers.h"

namespace visops {
namespace {

constexpr int kMaxFilterTaps = 32;  // a pixel with more is so much work that vectors save little

struct FilterLanes {
  int count_x, count_y;
  int begin, end;  // lanes with all their taps in the window
  alignas(64) int32_t offset[kPaddedSegment];
  alignas(64) float first_x[kPaddedSegment];
  alignas(64) float first_y[kPaddedSegment];
  alignas(64) float wx[kMaxFilterTaps][kPaddedSegment];
  alignas(64) float wy[kMaxFilterTaps][kPaddedSegment];
};

// The number of taps of an axis; 0 if there are too many.
inline int filter_count(const SegmentAxis<float>& axis) {
  const float count = 2.0f * std::ceil(axis.radius);
  return count <= static_cast<float>(kMaxFilterTaps) ? static_cast<int>(count) : 0;
}

VISOPS_ALWAYS_INLINE void filter_firsts(const SegmentAxis<float>& axis, const float* at, int padded,
                                        float* first) {
  const float radius = axis.radius;
  for (int i = 0; i < padded; ++i) first[i] = floor_of(at[i] - radius) + 1.0f;
}

template <Interpolation mode>
VISOPS_ALWAYS_INLINE void filter_weights(const SegmentAxis<float>& axis, const float* at,
                                         const float* first, int count, int padded,
                                         float (*weight)[kPaddedSegment]) {
  const float scale = axis.filter_scale;
  alignas(64) float norm[kPaddedSegment];
  for (int i = 0; i < padded; ++i) norm[i] = 0.0f;
  for (int k = 0; k < count; ++k) {
    const float step = static_cast<float>(k);
    float* w = weight[k];
    for (int i = 0; i < padded; ++i) {
      w[i] = filter_weight<mode>(((first[i] + step) - at[i]) * scale);
      norm[i] = norm[i] + w[i];
    }
  }
  for (int i = 0; i < padded; ++i) norm[i] = norm[i] != 0.0f ? 1.0f / norm[i] : 0.0f;
  for (int k = 0; k < count; ++k) {
    float* w = weight[k];
    for (int i = 0; i < padded; ++i) w[i] = w[i] * norm[i];
  }
}

// Fills `f` for the lanes of a segment, whose points are set. False if no lane has all its taps.
template <Interpolation mode>
bool filter_lanes(const SegmentAt& at, const AugmentLanes& lanes, int32_t row_bytes,
                  int32_t column_bytes, FilterLanes& f) {
  const SegmentAxis<float>&ax = at.axes.x, &ay = at.axes.y;
  f.count_x = filter_count(ax);
  f.count_y = filter_count(ay);
  if (f.count_x == 0 || f.count_y == 0) return false;
  filter_firsts(ax, lanes.x, at.padded, f.first_x);
  filter_firsts(ay, lanes.y, at.padded, f.first_y);
  const float reach_x = static_cast<float>(f.count_x - 1);
  const float reach_y = static_cast<float>(f.count_y - 1);
  const auto inside = [&](int i) {
    return f.first_x[i] >= ax.first && f.first_x[i] + reach_x <= ax.last &&
           f.first_y[i] >= ay.first && f.first_y[i] + reach_y <= ay.last;
  };
  f.begin = 0;
  f.end = at.count;
  while (f.begin < f.end && !inside(f.begin)) ++f.begin;
  while (f.begin < f.end && !inside(f.end - 1)) --f.end;
  if (f.begin == f.end) return false;
  filter_weights<mode>(ax, lanes.x, f.first_x, f.count_x, at.padded, f.wx);
  filter_weights<mode>(ay, lanes.y, f.first_y, f.count_y, at.padded, f.wy);
  const int32_t x0 = static_cast<int32_t>(at.segment.x), y0 = static_cast<int32_t>(at.segment.y);
  for (int i = f.begin; i < f.end; ++i) {
    f.offset[i] = (static_cast<int32_t>(f.first_y[i]) + y0) * row_bytes +
                  (static_cast<int32_t>(f.first_x[i]) + x0) * column_bytes;
  }
  for (int i = f.end; i < kPaddedSegment; ++i) f.offset[i] = f.offset[f.end - 1];
  return true;
}

template <class T, int Channels>
VISOPS_ALWAYS_INLINE void add_filtered(const PixelPairs& raw, const FloatPairs& weight,
                                       FloatPairs (&v)[Channels]) {
  v[0] = v[0] + weight * channel_pairs<T, Channels, 0>(raw);
  if constexpr (Channels > 1) v[1] = v[1] + weight * channel_pairs<T, Channels, 1>(raw);
  if constexpr (Channels > 2) v[2] = v[2] + weight * channel_pairs<T, Channels, 2>(raw);
  if constexpr (Channels > 3) v[3] = v[3] + weight * channel_pairs<T, Channels, 3>(raw);
}

// Lanes [f.begin, f.end), up to a whole vector.
template <class T, int Channels>
void filter_run(const char* image, int64_t row_bytes, const FilterLanes& f,
                float (*planes)[kPaddedSegment]) {
  const Floats zero(0.0f);
  for (int i = f.begin; i < f.end; i += Floats::kWidth) {
    Floats sum[Channels];
    for (int c = 0; c < Channels; ++c) sum[c] = zero;
    const char* column = image;
    for (int j = 0; j < f.count_x; j += 2) {
      FloatPairs v[Channels];
      for (int c = 0; c < Channels; ++c) v[c] = {zero, zero};
      const char* tap = column;
      for (int k = 0; k < f.count_y; ++k) {
        PixelPairs raw[1];
        load_pairs({tap}, f.offset + i, raw);
        add_filtered<T, Channels>(raw[0], spread(Floats::load(f.wy[k] + i)), v);
        tap += row_bytes;
      }
      const Floats w0 = Floats::load(f.wx[j] + i), w1 = Floats::load(f.wx[j + 1] + i);
      for (int c = 0; c < Channels; ++c) {
        sum[c] = sum[c] + w0 * first_of_pairs(v[c]);
        sum[c] = sum[c] + w1 * second_of_pairs(v[c]);
      }
      column += 2 * Channels * sizeof(T);
    }
    for (int c = 0; c < Channels; ++c) sum[c].store(planes[c] + i);
  }
}

// The same for float32 pixels of three or four channels, all channels at once.
inline void filter_quads(const char* image, int64_t row_bytes, int64_t column_bytes,
                         const FilterLanes& f, Planes& planes) {
  for (int i = f.begin; i < f.end; i += 4) {
    Quad q[4];
    for (int l = 0; l < 4; ++l) {
      const char* column = image + f.offset[i + l];
      q[l] = Quad(0.0f);
      for (int j = 0; j < f.count_x; ++j, column += column_bytes) {
        const char* tap = column;
        Quad v(0.0f);
        for (int k = 0; k < f.count_y; ++k, tap += row_bytes) {
          v = v + Quad(f.wy[k][i + l]) * Quad::load(reinterpret_cast<const float*>(tap));
        }
        q[l] = q[l] + Quad(f.wx[j][i + l]) * v;
      }
    }
    transpose(q);
    for (int c = 0; c < kGroup; ++c) q[c].store(planes.v[c] + i);
  }
}

// Filters the lanes [f.begin, f.end) of a segment. False if the layout or the image's end rules out
// loads of 8 bytes.
template <class T>
bool filter_segment(const LaneImage& sampler, const FilterLanes& f, int64_t first, int64_t channels,
                    Planes& planes) {
  if (sampler.layout == Layout::kPixels) return false;
  const char* image =
      static_cast<const char*>(sampler.s.image.data) + first * sampler.channel_bytes;
  int32_t highest = f.offset[f.begin];
  for (int i = f.begin; i < f.end; ++i) highest = f.offset[i] > highest ? f.offset[i] : highest;
  if (!sampler.reads_within(highest, f.count_y, f.count_x, first + channels)) return false;
  if (sampler.layout == Layout::kQuads) {
    filter_quads(image, sampler.row_bytes, sampler.column_bytes, f, planes);
    return true;
  }
  if constexpr (sizeof(T) == 1) {
    if (sampler.layout == Layout::kInterleaved3) {
      filter_run<T, 3>(image, sampler.row_bytes, f, planes.v);
      return true;
    }
    if (sampler.layout == Layout::kInterleaved4) {
      filter_run<T, 4>(image, sampler.row_bytes, f, planes.v);
      return true;
    }
  }
  if constexpr (sizeof(T) <= 4) {
    for (int64_t c = 0; c < channels; ++c) {
      filter_run<T, 1>(image + c * sampler.channel_bytes, sampler.row_bytes, f, planes.v + c);
    }
  }
  return true;
}

}  // namespace
}  // namespace visops
