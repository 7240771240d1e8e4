// Maps that only shift and flip: crops, flips, and no geometry at all.
//
// NOTE [ Straight rows ]
// Every coordinate is an integer, and the pixels of an output row lie side by side in a row of the
// image, forwards or backwards. So no lane has an offset of its own: a run of elements is converted
// to planes, and lanes beyond the window are fill. Most chains without rotation or scale, such as
// a crop, a flip, ToDtype and Normalize, are one pass of this.
#pragma once

#include "cpu/simd/floats.h"
#include "cpu/warp/augment_lanes.h"
#include "cpu/warp/copied_pixels.h"

namespace visops {
namespace {

// Output (x, y) is pixel (column + x_step x, row + y_step y) of the image; the steps are 1 or -1.
struct StraightMap {
  int64_t x_step, y_step, column, row;

  int64_t source_x(int64_t x) const { return column + x_step * x; }
  int64_t source_y(int64_t y) const { return row + y_step * y; }

  // The columns of an output row of `count` pixels that lie in the window.
  Span columns_within(const AxisWindow& window, int64_t count) const {
    const int64_t first = x_step > 0 ? window.first - column : column - window.last;
    return intersect({0, count}, {first, first + (window.last - window.first) + 1});
  }
};

inline bool has_straight_map(const AugmentSample& s) {
  const double* m = s.map.m;
  return s.mode == Interpolation::kNearest && !s.is_fill && run_of(s.map.integral, m) != 0 &&
         m[1] == 0.0 && fabs(m[4]) == 1.0;
}

inline StraightMap straight_map(const AugmentSample& s) {
  const double* m = s.map.m;
  return {run_of(s.map.integral, m), static_cast<int64_t>(m[4]), static_cast<int64_t>(m[2]),
          static_cast<int64_t>(m[5])};
}

// Whether rows can be written as runs: what lies beyond the window is fill, or nothing does.
inline bool has_straight_rows(const AugmentParams& p, const AugmentSample& s) {
  if (!has_straight_map(s)) return false;
  if (p.padding == Padding::kConstant) return true;
  const StraightMap map = straight_map(s);
  const auto holds = [](const AxisWindow& window, int64_t a, int64_t b) {
    return a >= window.first && a <= window.last && b >= window.first && b <= window.last;
  };
  return holds(s.x, map.source_x(0), map.source_x(p.output_width - 1)) &&
         holds(s.y, map.source_y(0), map.source_y(p.output_height - 1));
}

// Converts elements to lanes from `begin` on, in whole vectors: lanes behind the last are
// overwritten.
template <class T>
VISOPS_ALWAYS_INLINE void convert_run(T* element, int begin, int end, float* v) {
  for (int i = 0; i < kMaxWidth; ++i) element[end - begin + i] = T();
  for (int i = begin; i < end; i += Floats::kWidth) {
    load_floats(element + (i - begin)).store(v + i);
  }
}

// Elements in the other order.
template <class T>
VISOPS_ALWAYS_INLINE void turn_run(const T* last, int count, T* element) {
  turn_pixels<sizeof(T)>(reinterpret_cast<const char*>(last), count,
                         reinterpret_cast<char*>(element));
}

// Elements `step` apart, the first of lane `begin`.
template <class T>
VISOPS_ALWAYS_INLINE void load_run(const T* from, int64_t step, int begin, int end, float* v) {
  if (step == 1) {
    for (; begin + Floats::kWidth <= end; begin += Floats::kWidth, from += Floats::kWidth) {
      load_floats(from).store(v + begin);
    }
    if (begin == end) return;
  }
  T element[kPaddedSegment];
  if (step == -1) {
    turn_run(from, end - begin, element);
  } else {
    for (int i = 0; i < end - begin; ++i) element[i] = from[i * step];
  }
  convert_run(element, begin, end, v);
}

// Channels side by side, all at once; `step` is 1 or -1 pixels.
template <int Channels, class T>
VISOPS_ALWAYS_INLINE void load_pixels(const T* from, int64_t step, int begin, int end,
                                      Planes& planes) {
  T element[Channels][kPaddedSegment];
  const int count = end - begin;
  const T* const lowest = step > 0 ? from : from - (count - 1) * Channels;
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < Channels; ++c) element[c][i] = lowest[i * Channels + c];
  }
  for (int c = 0; c < Channels; ++c) {
    T turned[kPaddedSegment];
    if (step < 0) turn_run(element[c] + count - 1, count, turned);
    convert_run(step < 0 ? turned : element[c], begin, end, planes.v[c]);
  }
}

// Loads channels [first, first + channels) of lanes, in whole vectors, into planes. `pixel` is that
// of the first lane, `step` 1 or -1.
template <class T>
void load_straight(const AugmentImage& image, const void* pixel, int64_t step, Span lanes,
                   int64_t first, int64_t channels, Planes& planes) {
  const T* from = static_cast<const T*>(pixel) + first * image.channel_stride;
  const int begin = static_cast<int>(lanes.begin), end = static_cast<int>(lanes.end);
  if (image.channel_stride == 1 && image.column_stride == channels) {
    if (channels == 3) return load_pixels<3>(from, step, begin, end, planes);
    if (channels == 4) return load_pixels<4>(from, step, begin, end, planes);
  }
  for (int64_t c = 0; c < channels; ++c) {
    load_run(from + c * image.channel_stride, step * image.column_stride, begin, end, planes.v[c]);
  }
}

// Whether rows of bytes become rows of floats and nothing else happens to them: ToDtype and
// Normalize, and the last step of chains that change bytes.
inline bool only_converts(const AugmentParams& p, const AugmentSample& s) {
  const StraightMap map = straight_map(s);
  const Span columns = map.columns_within(s.x, p.output_width);
  const int64_t first = map.source_y(0), last = map.source_y(p.output_height - 1);
  return p.dtype == DType::kUInt8 && p.output_dtype == DType::kFloat32 &&
         s.image.column_stride == 1 && p.output_stride.column == 1 && map.x_step == 1 &&
         columns.begin == 0 && columns.end == p.output_width && first >= s.y.first &&
         first <= s.y.last && last >= s.y.first && last <= s.y.last && p.color_steps == 0 &&
         p.erase_count == 0;
}

inline void convert_rows(const AugmentParams& p, const AugmentSample& s, int64_t sample,
                         int64_t first, int64_t last) {
  const StraightMap map = straight_map(s);
  constexpr int kWidth = Floats::kWidth;
  const int64_t whole = p.output_width / kWidth * kWidth;
  const int64_t rest = p.output_width - whole;
  for (int64_t c = 0; c < p.channels; ++c) {
    const ChannelFinish finish(p, c);
    for (int64_t y = first; y < last; ++y) {
      const uint8_t* const from = static_cast<const uint8_t*>(s.image.data) +
                                  c * s.image.channel_stride +
                                  map.source_y(y) * s.image.row_stride + map.column;
      float* const to = static_cast<float*>(p.output) + sample * p.output_stride.batch +
                        c * p.output_stride.channel + y * p.output_stride.row;
      for (int64_t x = 0; x < whole; x += kWidth) finish(load_floats(from + x)).store(to + x);
      if (rest == 0) continue;
      uint8_t element[kWidth] = {};
      float result[kWidth];
      memcpy(element, from + whole, static_cast<size_t>(rest));
      finish(load_floats(element)).store(result);
      memcpy(to + whole, result, static_cast<size_t>(rest) * sizeof(float));
    }
  }
}

// Fills the lanes beyond `lanes`.
inline void fill_around(const AugmentParams& p, Span lanes, int padded, int64_t first,
                        int64_t channels, Planes& planes) {
  for (int64_t c = 0; c < channels; ++c) {
    const float fill = static_cast<float>(p.fill[value_index(p, first + c)]);
    for (int64_t i = 0; i < lanes.begin; ++i) planes.v[c][i] = fill;
    for (int64_t i = lanes.end; i < padded; ++i) planes.v[c][i] = fill;
  }
}

}  // namespace
}  // namespace visops
