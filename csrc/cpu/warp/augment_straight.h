// Maps that only shift and flip: crops, flips, and no geometry at all.
//
// NOTE [ Straight rows ]
// Every coordinate is an integer, and an output row is a few runs of an image row (NOTE [ Straight
// runs ], cpu/warp/augment_runs.h). So no lane has an offset of its own: runs of elements are
// converted to planes. Most chains without rotation or scale, such as a crop, a flip, ToDtype and
// Normalize, are one pass of this. Bytes that stay bytes are moved.
#pragma once

#include "cpu/simd/floats.h"
#include "cpu/warp/augment_copies.h"
#include "cpu/warp/augment_lanes.h"
#include "cpu/warp/augment_runs.h"

namespace visops {
namespace {

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

// Whether rows become rows of floats, value by value: ToDtype and Normalize, flips and crops of
// floats, and the last step of chains that change bytes.
inline bool only_converts(const AugmentParams& p, const AugmentSample& s) {
  return (p.dtype == DType::kUInt8 || p.dtype == DType::kFloat32) &&
         p.output_dtype == DType::kFloat32 && s.image.column_stride == 1 &&
         p.output_stride.column == 1 && p.color_steps == 0 && p.erase_count == 0;
}

// `count` elements, one after another.
template <class T>
VISOPS_ALWAYS_INLINE void finish_elements(const T* from, int64_t count, const ChannelFinish& finish,
                                          float* to) {
  constexpr int kWidth = Floats::kWidth;
  const int64_t whole = count & -kWidth;
  for (int64_t x = 0; x < whole; x += kWidth) finish(load_floats(from + x)).store(to + x);
  if (whole == count) return;
  T element[kWidth] = {};
  float result[kWidth];
  memcpy(element, from + whole, static_cast<size_t>(count - whole) * sizeof(T));
  finish(load_floats(element)).store(result);
  memcpy(to + whole, result, static_cast<size_t>(count - whole) * sizeof(float));
}

// `count` times the same element.
template <class T>
VISOPS_ALWAYS_INLINE void repeat_element(T value, int64_t count, const ChannelFinish& finish,
                                         float* to) {
  T element[Floats::kWidth];
  float result[Floats::kWidth];
  for (T& each : element) each = value;
  finish(load_floats(element)).store(result);
  for (int64_t i = 0; i < count; ++i) to[i] = result[0];
}

// A run of a row; `from` is its first element.
template <class T>
void convert_pixels(const PixelRun& run, const T* from, const ChannelFinish& finish, float* to) {
  const int64_t count = run.end - run.begin;
  if (run.step > 0) return finish_elements(from, count, finish, to);
  if (run.step == 0) return repeat_element(*from, count, finish, to);
  T turned[kSegment];
  for (int64_t i = 0; i < count; i += kSegment) {
    const int64_t part = count - i < kSegment ? count - i : kSegment;
    turn_run(from - i, static_cast<int>(part), turned);
    finish_elements(turned, part, finish, to + i);
  }
}

// Rows of one channel.
template <class T>
void convert_rows(const AugmentParams& p, const AugmentSample& s, const StraightRuns& runs,
                  int64_t sample, int64_t c, Span rows) {
  const StraightMap map = straight_map(s);
  const ChannelFinish finish(p, c);
  const auto fill = static_cast<float>(p.fill[value_index(p, c)]);
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t row = padded_source(s.y, p.padding, map.source_y(y));
    const T* const from =
        static_cast<const T*>(s.image.data) + c * s.image.channel_stride + row * s.image.row_stride;
    float* const to = static_cast<float*>(p.output) + sample * p.output_stride.batch +
                      c * p.output_stride.channel + y * p.output_stride.row;
    if (row < 0) {
      repeat_element(fill, p.output_width, finish, to);
      continue;
    }
    for (const PixelRun& run : runs) {
      if (run.is_fill()) {
        repeat_element(fill, run.end - run.begin, finish, to + run.begin);
      } else {
        convert_pixels(run, from + run.source, finish, to + run.begin);
      }
    }
  }
}

// Fills lanes.
inline void fill_lanes(const AugmentParams& p, Span lanes, int64_t first, int64_t channels,
                       Planes& planes) {
  for (int64_t c = 0; c < channels; ++c) {
    const float fill = static_cast<float>(p.fill[value_index(p, first + c)]);
    for (int64_t i = lanes.begin; i < lanes.end; ++i) planes.v[c][i] = fill;
  }
}

// Whether rows of bytes are moved: copied pixels, and columns side by side.
inline bool moves_bytes(const AugmentParams& p, const AugmentSample& s) {
  return copies_bytes(p, s) && s.image.column_stride == 1 && p.output_stride.column == 1;
}

// Rows of one channel.
inline void move_rows(const AugmentParams& p, const AugmentSample& s, const StraightRuns& runs,
                      int64_t sample, int64_t c, Span rows) {
  const StraightMap map = straight_map(s);
  const char* const image = static_cast<const char*>(s.image.data) + c * s.image.channel_stride;
  char* const out =
      static_cast<char*>(p.output) + sample * p.output_stride.batch + c * p.output_stride.channel;
  const auto fill = static_cast<int>(fill_bits(p.dtype, p.fill[value_index(p, c)]));
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t row = padded_source(s.y, p.padding, map.source_y(y));
    char* const to = out + y * p.output_stride.row;
    if (row < 0) {
      memset(to, fill, static_cast<size_t>(p.output_width));
      continue;
    }
    for (const PixelRun& run : runs) {
      const int64_t count = run.end - run.begin;
      const char* const from = image + row * s.image.row_stride + run.source;
      if (run.is_fill()) {
        memset(to + run.begin, fill, static_cast<size_t>(count));
      } else if (run.step > 0) {
        memcpy(to + run.begin, from, static_cast<size_t>(count));
      } else if (run.step < 0) {
        turn_pixels<1>(from, static_cast<int>(count), to + run.begin);
      } else {
        memset(to + run.begin, *from, static_cast<size_t>(count));
      }
    }
  }
}

}  // namespace
}  // namespace visops
