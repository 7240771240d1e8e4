// NOTE [ Augment forward on the CPU ]
// Work is cut by output row; a task walks its rows in blocks, a block by segments of 128 pixels. A
// segment is sampled into planes of float32 that stay in the first-level cache
// (cpu/warp/augment_lanes.h, cpu/warp/augment_samplers.h); from there it goes through colour and
// normalisation to the output's dtype and layout (cpu/warp/augment_color.h). So the image is read
// once and the output written once. antialias of uint8 without rotation is computed in integers
// (cpu/warp/augment_resize_integers.h), and bytes that only move are copied
// (cpu/warp/augment_copies.h). float64 images, and segments that lanes can't hold, go pixel by
// pixel through core/warp/augment_pixel.h; all ways agree to the bit. Integers are rounded half to
// even and saturate when stored. Assumes what check_augment() and check_augment_data() establish:
// regular matrices, sizes below 2^31, at most 4 channels with colour, a non-empty window unless
// padding is constant.
#include "cpu/warp/augment_color.h"
#include "cpu/warp/augment_copied_rows.h"
#include "cpu/warp/augment_filter.h"
#include "cpu/warp/augment_read_ahead.h"
#include "cpu/warp/augment_resize.h"
#include "cpu/warp/augment_resize_integers.h"
#include "cpu/warp/augment_samplers.h"
#include "cpu/warp/augment_straight.h"

namespace visops {
namespace {

// One pixel after another, in any layout.
template <class T, Interpolation mode>
void augment_pixels(const AugmentParams& p, const AugmentSample& s,
                    const ColorPlan<typename Accumulate<T>::type>& plan, int64_t sample, int64_t y,
                    int64_t begin, int64_t end) {
  using Acc = typename Accumulate<T>::type;
  for (int64_t x0 = begin & -kSegment; x0 < end; x0 += kSegment) {
    const auto segment = augment_segment<Acc>(s.map, x0, y);
    const auto axes = segment_axes(s, segment);
    const Span span = intersect({begin, end}, {x0, x0 + kSegment});
    for (int64_t x = span.begin; x < span.end; ++x) {
      const LanePoint<Acc> point = segment.direct ? lane_point_direct<Acc>(s.map, x, y)
                                                  : lane_point(segment, static_cast<int>(x - x0));
      const bool erased = is_erased(p, sample, x, y);
      for (int64_t c0 = 0; c0 < p.channels; c0 += kGroup) {
        const int64_t count = p.channels - c0 < kGroup ? p.channels - c0 : kGroup;
        Acc value[kGroup];
        sample_augmented<T, mode>(p, s, axes, point, c0, count, value);
        if (p.color_steps > 0) color_pixel(p, plan, value);
        for (int64_t c = 0; c < count; ++c) {
          Acc v = finish_value(p, c0 + c, value[c]);
          if (erased) v = static_cast<Acc>(p.erase_value[value_index(p, c0 + c)]);
          store_output(p.output_dtype, p.output,
                       sample * p.output_stride.batch + (c0 + c) * p.output_stride.channel +
                           y * p.output_stride.row + x * p.output_stride.column,
                       v);
        }
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

void fill_planes(const SegmentAt& at, int64_t first, int64_t channels, Planes& planes) {
  for (int64_t c = 0; c < channels; ++c) {
    const float fill = static_cast<float>(at.p.fill[value_index(at.p, first + c)]);
    for (int i = 0; i < at.padded; ++i) planes.v[c][i] = fill;
  }
}

// How segments are sampled, for one dtype and interpolation. Calls go through pointers, so that the
// walk over segments is compiled once; a segment is long enough to hide them.
struct SegmentSampler {
  // The taps at `lanes`, which all lie in the image, in vectors.
  void (*taps)(const LaneImage&, const AugmentLanes&, int padded, int64_t first, int64_t channels,
               Planes&);
  // filter_segment() and filter_rows(); null for nearest.
  bool (*filter)(const LaneImage&, const FilterLanes&, int64_t first, int64_t channels, Planes&);
  RowFilter* rows;
  // Lanes [begin, end) one by one, wherever they lie.
  void (*pixels)(const SegmentAt&, int begin, int end, int64_t first, int64_t channels, Planes&);
  // load_straight(); nearest only.
  void (*straight)(const AugmentImage&, const void* pixel, int64_t direction, Span lanes,
                   int64_t first, int64_t channels, Planes&);
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
    default:
      return {sample_taps<T, kBicubic>, filter_segment<T>, filter_rows<T>,
              sample_lanes<T, kBicubic>, nullptr};
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

// How a segment's lanes are sampled.
enum class LaneWay { kFill, kCopy, kTaps, kFilter, kPixels };

// Chooses the way. Sets the lanes for kCopy and kTaps, and `out` for kFilter.
LaneWay prepare_lanes(const AugmentTask& task, const SegmentAt& at, const LaneImage& image,
                      AugmentLanes& lanes) {
  if (at.s.is_fill) return LaneWay::kFill;
  if (!image.fits || !fits_lanes(at)) return LaneWay::kPixels;
  const Interpolation mode = at.s.mode;
  const bool clamps = at.p.padding == Padding::kConstant || at.p.padding == Padding::kReplicate;
  if (mode == Interpolation::kNearest) {
    if (!clamps) return LaneWay::kPixels;
    nearest_taps(at, image.row_bytes, image.column_bytes, lanes);
    if (task.copies) return LaneWay::kCopy;
    return lanes.begin == lanes.end ? LaneWay::kFill : LaneWay::kTaps;
  }
  blend_lanes(at, lanes);
  if (lanes.begin == lanes.end) return LaneWay::kFill;
  if (at.s.antialias) return at.s.integers ? LaneWay::kPixels : LaneWay::kFilter;
  if (mode == Interpolation::kBilinear && clamps) {
    bilinear_taps(at, image.row_bytes, image.column_bytes, lanes);
    return LaneWay::kTaps;
  }
  const bool inner =
      inner_taps(at, first_tap(mode), tap_count(mode), image.row_bytes, image.column_bytes, lanes);
  return inner ? LaneWay::kTaps : LaneWay::kPixels;
}

bool filter_lanes_of(const SegmentAt& at, const LaneImage& image, const AugmentLanes& lanes,
                     FilterLanes& filter) {
  if (at.s.mode == Interpolation::kBilinear) {
    return filter_lanes<Interpolation::kBilinear>(at, lanes, image.row_bytes, image.column_bytes,
                                                  filter);
  }
  return filter_lanes<Interpolation::kBicubic>(at, lanes, image.row_bytes, image.column_bytes,
                                               filter);
}

// antialias: lanes with all their taps in the window as vectors, the others one by one.
void sample_filter(const AugmentTask& task, const SegmentAt& at, const LaneImage& image,
                   AugmentLanes& lanes, FilterLanes& filter, int64_t first, int64_t channels,
                   Planes& planes) {
  lane_points(at, lanes);
  if (!filter_lanes_of(at, image, lanes, filter) ||
      !task.sampler.filter(image, filter, first, channels, planes)) {
    filter.begin = filter.end = lanes.end;
  }
  blend_planes(at, lanes, first, channels, planes);
  task.sampler.pixels(at, lanes.begin, filter.begin, first, channels, planes);
  task.sampler.pixels(at, filter.end, lanes.end, first, channels, planes);
}

// augment_resized() in float32.
struct FloatResizer {
  static constexpr bool kReadAhead = true;
  ResizeBuffers buffers;
  RowFilter* filter;

  void make_chunk(const AugmentTask& task, const SegmentAxis<float>& axis,
                  const AugmentSegment<float>& segment, int64_t x0, int lane, int lanes,
                  ResizeChunk& chunk) {
    visops::make_chunk(task.s.mode, axis, segment, x0, lane, lanes, task.p.dtype == DType::kUInt8,
                       chunk);
  }
  void start_chunks(const AugmentTask&, int) {}
  void start_row(const AugmentTask&, const SegmentAxis<float>&, int64_t, int64_t, int64_t) {}
  void sample(const SegmentAt& at, const ResizeChunk& chunk, int64_t first, int64_t channels) {
    resize_row(at, chunk, filter, first, channels, buffers, buffers.planes);
  }
};

// In integers.
struct IntegerResizer {
  static constexpr bool kReadAhead = false;  // fetches rows itself
  IntegerResizeBuffers buffers;
  ColumnSpan columns = {0, 0};
  bool shared;  // `columns` are those of all chunks, filtered vertically when the first one is

  void make_chunk(const AugmentTask& task, const SegmentAxis<float>& axis,
                  const AugmentSegment<float>& segment, int64_t x0, int lane, int lanes,
                  IntegerChunk& chunk) {
    if (task.s.mode == Interpolation::kBilinear) {
      make_integer_chunk<Interpolation::kBilinear>(axis, segment, x0, lane, lanes, chunk);
    } else {
      make_integer_chunk<Interpolation::kBicubic>(axis, segment, x0, lane, lanes, chunk);
    }
    if (kPixelRuns && is_interleaved(task.p, task.s.image)) {
      make_pixel_weights(chunk, static_cast<int>(task.p.channels));
    }
  }
  // Call when `count` chunks are made.
  void start_chunks(const AugmentTask& task, int count) {
    columns = columns_of(buffers.chunks[0]);
    shared = task.p.channels <= kGroup;
    for (int i = 1; i < count; ++i) {
      shared = shared && columns.add(columns_of(buffers.chunks[i]));
    }
  }
  void start_row(const AugmentTask& task, const SegmentAxis<float>& axis, int64_t x0, int64_t y,
                 int64_t last) {
    RowsAhead& ahead = buffers.ahead;
    if (y >= ahead.begin && y < ahead.end) return;
    if (task.s.mode == Interpolation::kBilinear) {
      ahead.prepare<Interpolation::kBilinear>(task.s, axis, x0, y, last);
    } else {
      ahead.prepare<Interpolation::kBicubic>(task.s, axis, x0, y, last);
    }
  }
  void sample(const SegmentAt& at, const IntegerChunk& chunk, int64_t first, int64_t channels) {
    if (!shared) columns = columns_of(chunk);
    if (!shared || &chunk == buffers.chunks) {
      filter_integer_rows(at, columns, first, channels, buffers);
    }
    filter_integer_chunk(at, chunk, columns, channels, buffers);
  }
};

// Writes one row of a chunk to the output.
template <class Resizer, class Chunk>
void augment_resized_row(const AugmentTask& task, const SegmentAt& at, const Chunk& chunk,
                         Resizer& resizer) {
  AugmentLanes& lanes = resizer.buffers.lanes;
  Planes& planes = resizer.buffers.planes;
  const float cover = edge_cover(at.axes.y, at.segment.fy);
  lanes.blended = !(chunk.covered && cover == 1.0f);
  for (int i = 0; lanes.blended && i < chunk.count; ++i) {
    lanes.out[i] = 1.0f - chunk.cover[i] * cover;
  }
  for (int64_t c = 0; c < at.p.channels; c += kGroup) {
    const int64_t channels = at.p.channels - c < kGroup ? at.p.channels - c : kGroup;
    resizer.sample(at, chunk, c, channels);
    blend_planes(at, lanes, c, channels, planes);
    finish_segment(at, task.plan, c, channels, planes);
  }
}

// antialias without rotation (NOTE [ Resized rows ], cpu/warp/augment_resize.h).
template <class Resizer>
void augment_resized(const AugmentTask& task, int64_t first, int64_t last, Resizer& resizer) {
  const AugmentParams& p = task.p;
  const AugmentSample& s = task.s;
  auto& chunk = resizer.buffers.chunks;
  SegmentAxes<float> axes;
  set_axis_widths(s, s.x, s.map.width_x, &axes.x);
  set_axis_widths(s, s.y, s.map.width_y, &axes.y);
  for (int64_t x = 0; x < p.output_width;) {
    int chunks = 0;
    const int64_t begin = x;
    for (; chunks < kChunks && x < p.output_width; ++chunks) {
      const int64_t x0 = x & -kSegment, left = p.output_width - x0;
      const auto segment = augment_segment<float>(s.map, x0, first);
      place_axis(s.x, segment.x, &axes.x);
      resizer.make_chunk(task, axes.x, segment, x0, static_cast<int>(x - x0),
                         static_cast<int>(left < kSegment ? left : kSegment), chunk[chunks]);
      x += chunk[chunks].count;
    }
    resizer.start_chunks(task, chunks);
    ReadAhead ahead = read_ahead(p, s, {begin, x}, {first, last});
    for (int64_t y = first; y < last; ++y) {
      if (Resizer::kReadAhead) ahead.at(y);
      // Rows depend on y alone, so all chunks have the same.
      const int64_t x0 = begin & -kSegment;
      const auto segment = augment_segment<float>(s.map, x0, y);
      place_axis(s.y, segment.y, &axes.y);
      resizer.start_row(task, axes.y, x0, y, last);
      for (int i = 0; i < chunks; ++i) {
        const int count = chunk[i].count;
        const int padded = (count + kMaxWidth - 1) & -kMaxWidth;
        augment_resized_row(task, {p, s, segment, axes, task.sample, chunk[i].x0, y, count, padded},
                            chunk[i], resizer);
      }
    }
  }
}

void augment_resized(const AugmentTask& task, int64_t first, int64_t last) {
  if (task.s.integers) {
    IntegerResizer resizer;
    return augment_resized(task, first, last, resizer);
  }
  FloatResizer resizer;
  resizer.filter = task.sampler.rows;
  augment_resized(task, first, last, resizer);
}

// Where a segment of one row lies, and how it is sampled.
struct SegmentPlace {
  AugmentSegment<float> segment;
  SegmentAxes<float> axes;
  LaneWay way;
  AugmentLanes lanes;
};

// Writes a segment whose lanes are prepared to the output.
void augment_place(const AugmentTask& task, const SegmentAt& at, const LaneImage& image,
                   SegmentPlace& place, FilterLanes& filter, Planes& planes) {
  if (place.way == LaneWay::kCopy) {
    const CopiedSegment copied = {at.sample, at.x0, at.y, at.count};
    return copy_segment(image, copied, lanes_inside(place.lanes), place.lanes.offset);
  }
  for (int64_t c = 0; c < at.p.channels; c += kGroup) {
    const int64_t channels = at.p.channels - c < kGroup ? at.p.channels - c : kGroup;
    switch (place.way) {
      case LaneWay::kCopy: break;  // done above, all channels at once
      case LaneWay::kFill: fill_planes(at, c, channels, planes); break;
      case LaneWay::kTaps:
        task.sampler.taps(image, place.lanes, at.padded, c, channels, planes);
        blend_planes(at, place.lanes, c, channels, planes);
        break;
      case LaneWay::kFilter:
        sample_filter(task, at, image, place.lanes, filter, c, channels, planes);
        break;
      case LaneWay::kPixels: task.sampler.pixels(at, 0, at.count, c, channels, planes); break;
    }
    finish_segment(at, task.plan, c, channels, planes);
  }
}

void augment_segments(const AugmentTask& task, const LaneImage& image, int64_t first, int64_t last,
                      Span strip) {
  const AugmentParams& p = task.p;
  const AugmentSample& s = task.s;
  SegmentPlace places[kBlockRows];
  FilterLanes filter;
  Planes planes;
  for (SegmentPlace& place : places) {
    set_axis_widths(s, s.x, s.map.width_x, &place.axes.x);
    set_axis_widths(s, s.y, s.map.width_y, &place.axes.y);
  }
  const auto augment_block = [&](int64_t x0, int64_t y0, int count, int rows) {
    const auto at = [&](int row) -> SegmentAt {
      const SegmentPlace& place = places[row];
      return {p,          s,           place.segment,
              place.axes, task.sample, x0,
              y0 + row,   count,       (count + kMaxWidth - 1) & -kMaxWidth};
    };
    // Compute all rows' coordinates ahead of their use: they begin with a long chain of float64
    // operations, and offsets are loaded one by one from where vectors stored them.
    for (int row = 0; row < rows; ++row) {
      SegmentPlace& place = places[row];
      place.segment = augment_segment<float>(s.map, x0, y0 + row);
      if (s.map.perspective) {
        place.axes = segment_axes(s, place.segment);
      } else {
        place_axis(s.x, place.segment.x, &place.axes.x);
        place_axis(s.y, place.segment.y, &place.axes.y);
      }
    }
    for (int row = 0; row < rows; ++row) {
      places[row].way = prepare_lanes(task, at(row), image, places[row].lanes);
    }
    for (int row = 0; row < rows; ++row) {
      augment_place(task, at(row), image, places[row], filter, planes);
    }
  };
  for_each_block(p, s, strip, {first, last}, augment_block);
}

// NOTE [ Straight rows ]
void augment_straight(const AugmentTask& task, int64_t first, int64_t last, Span strip) {
  const AugmentParams& p = task.p;
  const AugmentSample& s = task.s;
  const StraightMap map = straight_map(s);
  const Span within = map.columns_within(s.x, p.output_width);
  const AugmentSegment<float> segment = {};  // what follows sampling asks for neither
  const SegmentAxes<float> axes = {};
  const int64_t size = element_size(p.dtype);
  const char* const data = static_cast<const char*>(s.image.data);
  Planes planes;
  const auto augment_row = [&](int64_t x0, int64_t y, int count) {
    const SegmentAt at = {
        p, s, segment, axes, task.sample, x0, y, count, (count + kMaxWidth - 1) & -kMaxWidth};
    const int64_t row = map.source_y(y);
    Span lanes = intersect({0, count}, {within.begin - x0, within.end - x0});
    if (row < s.y.first || row > s.y.last || lanes.begin >= lanes.end) lanes = {0, 0};
    const char* const pixel =
        data +
        (row * s.image.row_stride + map.source_x(x0 + lanes.begin) * s.image.column_stride) * size;
    for (int64_t c = 0; c < p.channels; c += kGroup) {
      const int64_t channels = p.channels - c < kGroup ? p.channels - c : kGroup;
      if (lanes.begin < lanes.end) {
        task.sampler.straight(s.image, pixel, map.x_step, lanes, c, channels, planes);
      }
      if (lanes.end - lanes.begin < count) fill_around(p, lanes, at.padded, c, channels, planes);
      finish_segment(at, task.plan, c, channels, planes);
    }
  };
  for_each_block(p, s, strip, {first, last}, [&](int64_t x0, int64_t y0, int count, int rows) {
    for (int row = 0; row < rows; ++row) augment_row(x0, y0 + row, count);
  });
}

// Images that are sampled in float32.
void augment_rows(AugmentTask& task, int64_t first, int64_t last) {
  const AugmentParams& p = task.p;
  load_color_plan(p, task.sample, &task.plan);
  if (is_resize(p, task.s)) return augment_resized(task, first, last);
  const LaneImage image(p, task.s);
  const bool copies_rows = task.copies && copies_lane_runs(image);
  const bool straight = !task.copies && has_straight_rows(p, task.s);
  for (int64_t x = 0; x < p.output_width; x += kStripColumns) {
    const Span strip = intersect({0, p.output_width}, {x, x + kStripColumns});
    if (copies_rows) {
      copy_rows(image, task.sample, first, last, strip);
    } else if (straight) {
      augment_straight(task, first, last, strip);
    } else {
      augment_segments(task, image, first, last, strip);
    }
  }
}

// float64 images, in float64.
template <Interpolation mode>
void augment_double_rows(const AugmentParams& p, const AugmentSample& s, int64_t sample,
                         int64_t first, int64_t last) {
  ColorPlan<double> plan;
  load_color_plan(p, sample, &plan);
  for (int64_t y = first; y < last; ++y) {
    augment_pixels<double, mode>(p, s, plan, sample, y, 0, p.output_width);
  }
}

void augment_doubles(const AugmentParams& p, const AugmentSample& s, int64_t sample, int64_t first,
                     int64_t last) {
  switch (s.mode) {
    case Interpolation::kNearest:
      return augment_double_rows<Interpolation::kNearest>(p, s, sample, first, last);
    case Interpolation::kBilinear:
      return augment_double_rows<Interpolation::kBilinear>(p, s, sample, first, last);
    case Interpolation::kBicubic:
      return augment_double_rows<Interpolation::kBicubic>(p, s, sample, first, last);
  }
}

SegmentSampler sampler_of(DType dtype, Interpolation mode) {
  switch (dtype) {
    case DType::kUInt8: return segment_sampler<uint8_t>(mode);
    case DType::kFloat16: return segment_sampler<Half>(mode);
    case DType::kBFloat16: return segment_sampler<BFloat16>(mode);
    default: return segment_sampler<float>(mode);  // check_augment() lets no other through
  }
}

void augment_kernel(const AugmentParams& p, int64_t begin, int64_t end) {
  for_each_sample(begin, end, p.output_height, [&](int64_t sample, int64_t first, int64_t last) {
    const AugmentSample s =
        augment_sample(p, sample, p.list != nullptr ? p.list[sample] : augment_image(p, sample));
    if (p.dtype == DType::kFloat64) return augment_doubles(p, s, sample, first, last);
    AugmentTask task = {p, s, sampler_of(p.dtype, s.mode), copies_bytes(p, s), sample, {}};
    augment_rows(task, first, last);
  });
}

const bool registered = augment_stub.set(kIsaSlot, augment_kernel);

}  // namespace
}  // namespace visops
