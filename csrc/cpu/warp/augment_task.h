// What the ways of sampling share: one sample, and the functions for its dtype and interpolation.
#pragma once

#include "core/warp/augment_pixel.h"
#include "cpu/simd/floats.h"
#include "cpu/warp/augment_color.h"
#include "cpu/warp/augment_copies.h"
#include "cpu/warp/augment_filter.h"
#include "cpu/warp/augment_lanes.h"
#include "cpu/warp/augment_samplers.h"
#include "cpu/warp/copied_rows.h"

namespace visops {
namespace {

// How maps that only shift and flip cut an output row into runs of an image row.
//
// NOTE [ Straight runs ]
// Pixels that lie side by side in the output lie side by side in the image, forwards or backwards,
// as far as the window goes. Beyond it, padding folds the image, repeats its rim, or fills. So an
// output row is a few runs, and they are the same in all rows.

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

// The image's column (row) that stands for `at`, or -1 for fill.
inline int64_t padded_source(const AxisWindow& window, Padding padding, int64_t at) {
  return augment_tap_index<Interpolation::kNearest>(window, padding, false, at);
}

// Columns [begin, end) of the output: `source`, `source + step` and so on of the image.
struct PixelRun {
  int64_t begin, end;
  int64_t source;  // -1: they are fill
  int64_t step;    // 1 or -1; 0: one pixel, repeated

  bool is_fill() const { return source < 0; }
};

constexpr int kMostRuns = 16;

class StraightRuns {
 public:
  // The runs of a row; many() where there are more than are kept.
  StraightRuns(const AugmentParams& p, const AugmentSample& s) {
    const StraightMap map = straight_map(s);
    Span within = map.columns_within(s.x, p.output_width);
    if (within.begin >= within.end) within = {p.output_width, p.output_width};
    const auto add_beyond = [&](Span columns) {
      if (p.padding == Padding::kConstant) return add({columns.begin, columns.end, -1, 0});
      for (int64_t x = columns.begin; x < columns.end && !many_; ++x) {
        add_pixel(x, padded_source(s.x, p.padding, map.source_x(x)));
      }
    };
    add_beyond({0, within.begin});
    add({within.begin, within.end, map.source_x(within.begin), map.x_step});
    add_beyond({within.end, p.output_width});
  }

  bool many() const { return many_; }
  const PixelRun* begin() const { return runs_; }
  const PixelRun* end() const { return runs_ + count_; }

 private:
  void add(const PixelRun& run) {
    if (run.begin >= run.end) return;
    if (count_ == kMostRuns) {
      many_ = true;
    } else {
      runs_[count_++] = run;
    }
  }

  // A pixel of the image: it goes on the last run where it can.
  void add_pixel(int64_t x, int64_t source) {
    if (count_ > 0) {
      PixelRun& last = runs_[count_ - 1];
      const int64_t length = x - last.begin;
      const int64_t step = length == 1 ? source - last.source : last.step;
      if (step >= -1 && step <= 1 && source == last.source + step * length) {
        last.step = step;
        last.end = x + 1;
        return;
      }
    }
    add({x, x + 1, source, 1});
  }

  PixelRun runs_[kMostRuns];
  int count_ = 0;
  bool many_ = false;
};

// Maps that only shift and flip: crops, flips, and no geometry at all.
//
// NOTE [ Straight rows ]
// Every coordinate is an integer, and an output row is a few runs of an image row (NOTE [ Straight
// runs ], cpu/warp/augment_task.h). So no lane has an offset of its own: runs of elements are
// converted to planes. Most chains without rotation or scale, such as a crop, a flip, ToDtype and
// Normalize, are one pass of this. Bytes that stay bytes are moved.

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

// Whether the bytes of RGB pixels go to planes.
inline bool splits_bytes(const AugmentParams& p, const AugmentSample& s) {
  return copies_bytes(p, s) && p.channels == 3 && s.image.column_stride == 3 &&
         s.image.channel_stride == 1 && p.output_stride.column == 1;
}

// A run of pixels, the first of which is at `from`, to rows of three planes.
inline void split_run(const PixelRun& run, const char* from, char* const (&rows)[3]) {
  const auto count = static_cast<int>(run.end - run.begin);
  char* const to[3] = {rows[0] + run.begin, rows[1] + run.begin, rows[2] + run.begin};
  if (run.step > 0) return split_bytes(from, count, to[0], to[1], to[2]);
  if (run.step == 0) {
    for (int c = 0; c < 3; ++c) memset(to[c], from[c], static_cast<size_t>(count));
    return;
  }
  char turned[3][kSegment];
  for (int i = 0; i < count; i += kSegment) {
    const int part = count - i < kSegment ? count - i : kSegment;
    split_bytes(from - 3 * (i + part - 1), part, turned[0], turned[1], turned[2]);
    for (int c = 0; c < 3; ++c) turn_pixels<1>(turned[c] + part - 1, part, to[c] + i);
  }
}

inline void split_rows(const AugmentParams& p, const AugmentSample& s, const StraightRuns& runs,
                       int64_t sample, Span rows) {
  const StraightMap map = straight_map(s);
  const char* const image = static_cast<const char*>(s.image.data);
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    char* to[3];
    int fill[3];
    for (int c = 0; c < 3; ++c) {
      to[c] = static_cast<char*>(p.output) + sample * p.output_stride.batch +
              c * p.output_stride.channel + y * p.output_stride.row;
      fill[c] = static_cast<int>(fill_bits(p.dtype, p.fill[value_index(p, c)]));
    }
    const auto fill_run = [&](int64_t begin, int64_t end) {
      for (int c = 0; c < 3; ++c) memset(to[c] + begin, fill[c], static_cast<size_t>(end - begin));
    };
    const int64_t row = padded_source(s.y, p.padding, map.source_y(y));
    if (row < 0) {
      fill_run(0, p.output_width);
      continue;
    }
    for (const PixelRun& run : runs) {
      if (run.is_fill()) {
        fill_run(run.begin, run.end);
      } else {
        split_run(run, image + row * s.image.row_stride + 3 * run.source, to);
      }
    }
  }
}

// Samples lanes [begin, end) of a segment into planes, one by one.
template <class T, Interpolation mode>
void sample_lanes(const SegmentAt& at, int begin, int end, int64_t first, int64_t channels,
                  Planes& planes) {
  for (int i = begin; i < end; ++i) {
    const LanePoint<float> point = at.segment.direct
                                       ? lane_point_direct<float>(at.s.map, at.x0 + i, at.y)
                                       : lane_point(at.segment, i);
    float value[kGroup];
    sample_augmented<T, mode>(at.p, at.s, at.axes, point, first, channels, value);
    for (int64_t c = 0; c < channels; ++c) planes.v[c][i] = value[c];
  }
}

// How segments are sampled, for one dtype and interpolation. Calls go through pointers, so that the
// walk over segments is compiled once; a segment is long enough to hide them.
struct SegmentSampler {
  // The taps at `lanes`, which all lie in the image, in vectors; null where all is filtered.
  void (*taps)(const LaneImage&, const AugmentLanes&, int padded, int64_t first, int64_t channels,
               Planes&);
  // filter_segment() and filter_rows(); null for nearest.
  bool (*filter)(const LaneImage&, const FilterLanes&, int64_t first, int64_t channels, Planes&);
  RowFilter* rows;
  // Lanes [begin, end) one by one, wherever they lie.
  void (*pixels)(const SegmentAt&, int begin, int end, int64_t first, int64_t channels, Planes&);
  // load_straight(); nearest only.
  void (*straight)(const AugmentImage&, const void* pixel, int64_t step, Span lanes, int64_t first,
                   int64_t channels, Planes&);
};

template <class T, Interpolation mode>
void sample_taps(const LaneImage& image, const AugmentLanes& lanes, int padded, int64_t first,
                 int64_t channels, Planes& planes) {
  const LaneSampler<T> sampler(image);
  if constexpr (mode == Interpolation::kNearest) {
    sampler.copy(lanes, padded, first, channels, planes);
  } else {
    const int end = (lanes.end + kMaxWidth - 1) & -kMaxWidth;
    sampler.template sample<mode>(lanes, lanes.begin, end, first, channels, planes);
  }
}

template <class T>
SegmentSampler segment_sampler(Interpolation mode) {
  constexpr auto kNearest = Interpolation::kNearest;
  constexpr auto kBilinear = Interpolation::kBilinear;
  constexpr auto kBicubic = Interpolation::kBicubic;
  switch (mode) {
    case kNearest:
      return {sample_taps<T, kNearest>, nullptr, nullptr, sample_lanes<T, kNearest>,
              load_straight<T>};
    case kBilinear:
      return {sample_taps<T, kBilinear>, filter_segment<T>, filter_rows<T>,
              sample_lanes<T, kBilinear>, nullptr};
    case kBicubic:
      return {sample_taps<T, kBicubic>, filter_segment<T>, filter_rows<T>,
              sample_lanes<T, kBicubic>, nullptr};
    default:
      return {nullptr, filter_segment<T>, filter_rows<T>, sample_lanes<T, Interpolation::kLanczos>,
              nullptr};
  }
}

// A sample, and how it is sampled.
struct AugmentTask {
  const AugmentParams& p;
  const AugmentSample& s;
  SegmentSampler sampler;
  bool copies;  // copies_bytes()
  int64_t sample;
  ColorPlan<float> plan;
};

inline SegmentSampler sampler_of(DType dtype, Interpolation mode) {
  switch (dtype) {
    case DType::kUInt8: return segment_sampler<uint8_t>(mode);
    case DType::kFloat16: return segment_sampler<Half>(mode);
    case DType::kBFloat16: return segment_sampler<BFloat16>(mode);
    default: return segment_sampler<float>(mode);  // check_augment() lets no other through
  }
}

}  // namespace
}  // namespace visops
