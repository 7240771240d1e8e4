// antialias without rotation, in float32 and in integers: NOTE [ Resized rows ].
#pragma once

#include "cpu/warp/augment_read_ahead.h"
#include "cpu/warp/augment_resize.h"
#include "cpu/warp/augment_resize_integers.h"
#include "cpu/warp/augment_task.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
