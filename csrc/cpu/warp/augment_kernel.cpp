// NOTE [ Augment forward on the CPU ]
// Work is cut by output row; a task walks its rows in blocks, a block by segments of 128 pixels. A
// segment is sampled into planes of float32 that stay in the first-level cache
// (cpu/warp/augment_lanes.h, cpu/warp/augment_samplers.h); from there it goes through colour and
// normalisation to the output's dtype and layout (cpu/warp/augment_color.h). So the image is read
// once and the output written once. antialias of uint8 without rotation is computed in integers
// (cpu/warp/augment_kernel.cpp), shifts and flips convert runs of pixels
// (cpu/warp/augment_task.h), and bytes that only move are copied (cpu/warp/augment_copies.h).
// float64 images, and segments that lanes can't hold, go pixel by pixel through
// core/warp/augment_pixel.h; all ways agree to the bit. Integers are rounded half to even and
// saturate when stored. Assumes what check_augment() and check_augment_data() establish: regular
// matrices, sizes below 2^31, at most 4 channels with colour, a non-empty window unless padding is
// constant.
#include "cpu/items.h"
#include "cpu/warp/augment_color.h"
#include "cpu/warp/augment_copies.h"
#include "cpu/warp/augment_filter.h"
#include "cpu/warp/augment_read_ahead.h"
#include "cpu/warp/augment_resize.h"
#include "cpu/warp/augment_resize_integers.h"
#include "cpu/warp/augment_task.h"
#include "cpu/warp/copied_rows.h"

namespace visops {
namespace {

// antialias without rotation, in float32 and in integers: NOTE [ Resized rows ].

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
    with_filter(task.s.mode, [&](auto mode) {
      make_integer_chunk<mode.value>(axis, segment, x0, lane, lanes, chunk);
    });
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
    with_filter(task.s.mode,
                [&](auto mode) { ahead.template prepare<mode.value>(task.s, axis, x0, y, last); });
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
      position_axis(s.x, segment.x, &axes.x);
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
      position_axis(s.y, segment.y, &axes.y);
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

constexpr int kBlockRows = 4;

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

// How a segment's lanes are sampled.
enum class LaneWay { kFill, kCopy, kTaps, kFilter, kPixels };

// The nearest taps where the image goes on beyond the window. Vectors find the taps within it; the
// others follow lane by lane, but once for all channels.
VISOPS_ALWAYS_INLINE void repeated_taps(const SegmentAt& at, int32_t row_bytes,
                                        int32_t column_bytes, AugmentLanes& lanes) {
  constexpr Interpolation kMode = Interpolation::kNearest;
  for (float& beyond : lanes.out) beyond = 0.0f;  // stays where all lanes are within
  nearest_taps(at, row_bytes, column_bytes, lanes);
  const auto tap = [&at](const SegmentAxis<float>& axis, const AxisWindow& window, float where) {
    const int64_t first = augment_axis_start<kMode>(axis, where).first;
    return augment_tap_index<kMode>(window, at.p.padding, at.s.soft_edge, first);
  };
  for (int i = 0; i < at.count; ++i) {
    if (lanes.out[i] == 0.0f) continue;
    const LanePoint<float> point = lane_point(at.segment, i);
    lanes.offset[i] = tap(at.axes.y, at.s.y, point.y) * row_bytes +
                      tap(at.axes.x, at.s.x, point.x) * column_bytes;
  }
  for (int i = at.count; i < at.padded; ++i) lanes.offset[i] = lanes.offset[at.count - 1];
}

// Chooses the way. Sets the lanes for kCopy and kTaps, and `out` for kFilter. Inlined, or compilers
// don't vectorize its loops: they can't tell that lanes and parameters are different memory.
VISOPS_ALWAYS_INLINE LaneWay prepare_lanes(const AugmentTask& task, const SegmentAt& at,
                                           const LaneImage& image, AugmentLanes& lanes) {
  if (at.s.is_fill) return LaneWay::kFill;
  if (!image.fits || !fits_lanes(at)) return LaneWay::kPixels;
  const Interpolation mode = at.s.mode;
  const bool clamps = at.p.padding == Padding::kConstant || at.p.padding == Padding::kReplicate;
  if (mode == Interpolation::kNearest) {
    if (clamps) {
      nearest_taps(at, image.row_bytes, image.column_bytes, lanes);
    } else {
      repeated_taps(at, image.row_bytes, image.column_bytes, lanes);
    }
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
  return with_filter(at.s.mode, [&](auto mode) {
    return filter_lanes<mode.value>(at, lanes, image.row_bytes, image.column_bytes, filter);
  });
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

// Where a segment of one row lies, and how it is sampled.
struct SegmentPosition {
  AugmentSegment<float> segment;
  SegmentAxes<float> axes;
  LaneWay way;
  AugmentLanes lanes;
};

// Writes a segment whose lanes are prepared to the output.
void augment_position(const AugmentTask& task, const SegmentAt& at, const LaneImage& image,
                      SegmentPosition& position, FilterLanes& filter, Planes& planes) {
  if (position.way == LaneWay::kCopy) {
    const CopiedSegment segment = {at.x0, at.y, at.count};
    copy_segment(copied_sample(image, at.sample), segment, lanes_inside(position.lanes), 0, 0,
                 position.lanes.offset);
    return erase_bytes(at.p, at.sample, at.x0, at.y, at.count);
  }
  for (int64_t c = 0; c < at.p.channels; c += kGroup) {
    const int64_t channels = at.p.channels - c < kGroup ? at.p.channels - c : kGroup;
    switch (position.way) {
      case LaneWay::kCopy: break;  // done above, all channels at once
      case LaneWay::kFill: fill_lanes(at.p, {0, at.padded}, c, channels, planes); break;
      case LaneWay::kTaps:
        task.sampler.taps(image, position.lanes, at.padded, c, channels, planes);
        blend_planes(at, position.lanes, c, channels, planes);
        break;
      case LaneWay::kFilter:
        sample_filter(task, at, image, position.lanes, filter, c, channels, planes);
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
  SegmentPosition positions[kBlockRows];
  FilterLanes filter;
  Planes planes;
  for (SegmentPosition& position : positions) {
    set_axis_widths(s, s.x, s.map.width_x, &position.axes.x);
    set_axis_widths(s, s.y, s.map.width_y, &position.axes.y);
  }
  const auto augment_block = [&](int64_t x0, int64_t y0, int count, int rows) {
    const auto at = [&](int row) -> SegmentAt {
      const SegmentPosition& position = positions[row];
      return {p,
              s,
              position.segment,
              position.axes,
              task.sample,
              x0,
              y0 + row,
              count,
              (count + kMaxWidth - 1) & -kMaxWidth};
    };
    // Compute all rows' coordinates ahead of their use: they begin with a long chain of float64
    // operations, and offsets are loaded one by one from where vectors stored them.
    for (int row = 0; row < rows; ++row) {
      SegmentPosition& position = positions[row];
      position.segment = augment_segment<float>(s.map, x0, y0 + row);
      if (s.map.perspective) {
        position.axes = segment_axes(s, position.segment);
      } else {
        position_axis(s.x, position.segment.x, &position.axes.x);
        position_axis(s.y, position.segment.y, &position.axes.y);
      }
    }
    for (int row = 0; row < rows; ++row) {
      positions[row].way = prepare_lanes(task, at(row), image, positions[row].lanes);
    }
    for (int row = 0; row < rows; ++row) {
      augment_position(task, at(row), image, positions[row], filter, planes);
    }
  };
  ReadAhead ahead = read_ahead(p, s, strip, {first, last});
  for_each_block<kBlockRows>(ahead, strip, {first, last}, augment_block);
}

// NOTE [ Straight rows ]
void augment_straight(const AugmentTask& task, const StraightRuns& runs, int64_t first,
                      int64_t last, Span strip) {
  const AugmentParams& p = task.p;
  const AugmentSample& s = task.s;
  const StraightMap map = straight_map(s);
  const AugmentSegment<float> segment = {};  // what follows sampling asks for neither
  const SegmentAxes<float> axes = {};
  const int64_t size = element_size(p.dtype);
  const char* const data = static_cast<const char*>(s.image.data);
  Planes planes;
  // From left to right: a run may overwrite what lies behind it.
  const auto load_runs = [&](int64_t x0, int64_t row, int count, int64_t c, int64_t channels) {
    for (const PixelRun& run : runs) {
      const Span lanes = intersect({0, count}, {run.begin - x0, run.end - x0});
      if (lanes.begin >= lanes.end) continue;
      if (run.is_fill()) {
        fill_lanes(p, lanes, c, channels, planes);
        continue;
      }
      const int64_t x = run.source + run.step * (x0 + lanes.begin - run.begin);
      const char* const pixel =
          data + (row * s.image.row_stride + x * s.image.column_stride) * size;
      const bool repeats = run.step == 0;
      const Span loaded = {lanes.begin, repeats ? lanes.begin + 1 : lanes.end};
      task.sampler.straight(s.image, pixel, repeats ? 1 : run.step, loaded, c, channels, planes);
      for (int64_t k = 0; repeats && k < channels; ++k) {
        float* const v = planes.v[k];
        for (int64_t i = lanes.begin; i < lanes.end; ++i) v[i] = v[lanes.begin];
      }
    }
  };
  const auto augment_row = [&](int64_t x0, int64_t y, int count) {
    const SegmentAt at = {
        p, s, segment, axes, task.sample, x0, y, count, (count + kMaxWidth - 1) & -kMaxWidth};
    const int64_t row = padded_source(s.y, p.padding, map.source_y(y));
    for (int64_t c = 0; c < p.channels; c += kGroup) {
      const int64_t channels = p.channels - c < kGroup ? p.channels - c : kGroup;
      if (row < 0) {
        fill_lanes(p, {0, count}, c, channels, planes);
      } else {
        load_runs(x0, row, count, c, channels);
      }
      fill_lanes(p, {count, at.padded}, c, channels, planes);
      finish_segment(at, task.plan, c, channels, planes);
    }
  };
  for (int64_t y = first; y < last; ++y) {
    for (int64_t x0 = strip.begin; x0 < strip.end; x0 += kSegment) {
      const int64_t left = strip.end - x0;
      augment_row(x0, y, static_cast<int>(left < kSegment ? left : kSegment));
    }
  }
}

template <class Strip>
void for_each_strip(const AugmentParams& p, const Strip& strip) {
  for (int64_t x = 0; x < p.output_width; x += kStripColumns) {
    strip(intersect({0, p.output_width}, {x, x + kStripColumns}));
  }
}

// Rows of a sample with a straight map. False where another way is faster, or the only one.
bool augment_straight_rows(const AugmentTask& task, int64_t first, int64_t last) {
  const AugmentParams& p = task.p;
  const AugmentSample& s = task.s;
  const bool moves = moves_bytes(p, s), splits = splits_bytes(p, s);
  if (task.copies && !moves && !splits && p.padding == Padding::kConstant) return false;
  const StraightRuns runs(p, s);
  if (runs.many()) return false;
  if (moves || splits) {
    if (splits) split_rows(p, s, runs, task.sample, {first, last});
    for (int64_t c = 0; moves && c < p.channels; ++c) {
      move_rows(p, s, runs, task.sample, c, {first, last});
    }
    for (int64_t y = first; y < last; ++y) erase_bytes(p, task.sample, 0, y, p.output_width);
  } else if (only_converts(p, s)) {
    const auto convert = p.dtype == DType::kUInt8 ? convert_rows<uint8_t> : convert_rows<float>;
    for (int64_t c = 0; c < p.channels; ++c) convert(p, s, runs, task.sample, c, {first, last});
  } else {
    for_each_strip(p, [&](Span strip) { augment_straight(task, runs, first, last, strip); });
  }
  return true;
}

// Images that are sampled in float32.
void augment_rows(AugmentTask& task, int64_t first, int64_t last) {
  const AugmentParams& p = task.p;
  load_color_plan(p, task.sample, &task.plan);
  if (is_resize(p, task.s)) return augment_resized(task, first, last);
  const LaneImage image(p, task.s);
  if (has_straight_map(task.s) && augment_straight_rows(task, first, last)) return;
  if (task.copies) {
    const CopiedSample copied = copied_sample(image, task.sample);
    if (copies_rows(image, copied)) {
      copy_sample(copied, {first, last}, p.output_height, p.output_width);
      for (int64_t y = first; y < last; ++y) erase_bytes(p, task.sample, 0, y, p.output_width);
      return;
    }
  }
  for_each_strip(p, [&](Span strip) { augment_segments(task, image, first, last, strip); });
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
    case Interpolation::kLanczos:
      return augment_double_rows<Interpolation::kLanczos>(p, s, sample, first, last);
  }
}

void augment_range(const AugmentParams& p, int64_t begin, int64_t end) {
  for_each_sample(begin, end, p.output_height, [&](int64_t sample, int64_t first, int64_t last) {
    const AugmentSample s =
        augment_sample(p, sample, p.list != nullptr ? p.list[sample] : augment_image(p, sample));
    if (p.dtype == DType::kFloat64) return augment_doubles(p, s, sample, first, last);
    AugmentTask task = {p, s, sampler_of(p.dtype, s.mode), copies_bytes(p, s), sample, {}};
    augment_rows(task, first, last);
  });
}

void augment_kernel(const AugmentParams& p, Workspace& workspace) {
  for_items(workspace, p, p.batch * p.output_height, 4 * p.channels * p.output_width,
            augment_range);
}

const bool registered = augment_stub.set(kIsaSlot, augment_kernel);

}  // namespace
}  // namespace visops
