// antialias of uint8 without rotation, in integers.
//
// NOTE [ Resized rows in integers ]
// The two steps of NOTE [ Resized rows ] (cpu/warp/augment_resize.h), by the arithmetic of
// NOTE [ Integer filter ] (core/warp/augment_pixel.h): columns of an output row in vectors along
// the row, two tap rows at a time; then each pixel's taps, eight words at a time in every channel.
// Interleaved channels are separated in between, where they can't be summed side by side.
#pragma once

#include "cpu/simd/integer_sums.h"
#include "cpu/warp/augment_resize.h"

namespace visops {
namespace {

// The weights of NOTE [ Resized rows in integers ] (cpu/warp/augment_resize_integers.h): of the
// columns of a chunk, and of rows.

// The runs of a chunk as windows, where they fit.
struct WordWindows {
  int pairs;                                 // of taps; 0: they don't fit
  int32_t base[kPaddedSegment / kMaxWidth];  // the first word of each sixteen pixels
  alignas(64) int16_t index[2 * kPaddedSegment];
  alignas(64) int16_t weight[kPaddedSegment * kMostIntegerTaps];
};

// The runs of a chunk as PixelRuns, for images of interleaved channels.
struct PixelWeights {
  int32_t first[kPaddedSegment];
  alignas(64) int16_t weight[kPixelRuns ? kPaddedSegment * kMostIntegerTaps * 4 : 1];
};

struct IntegerChunk : ResizeColumns {
  int blocks;  // of kWordBlock taps per column, the last ones of weight 0
  int pairs;   // of taps, in the column that has most
  alignas(64) float unit[kPaddedSegment];
  alignas(64) int16_t weight[kPaddedSegment * kMostIntegerTaps];
  WordWindows windows;
  PixelWeights pixels;
};

constexpr int kWindowWords = 64;

inline void make_windows(IntegerChunk& chunk) {
  WordWindows& windows = chunk.windows;
  windows.pairs = 0;
  const int pairs = chunk.pairs, stride = chunk.blocks * kWordBlock;
  for (int i0 = 0; i0 < chunk.count; i0 += kMaxWidth) {
    const int count = chunk.count - i0 < kMaxWidth ? chunk.count - i0 : kMaxWidth;
    int32_t low = chunk.first[i0], high = low;
    for (int i = 1; i < count; ++i) {
      const int32_t first = chunk.first[i0 + i];
      low = first < low ? first : low;
      high = first > high ? first : high;
    }
    if (high + 2 * pairs - low > kWindowWords) return;
    windows.base[i0 / kMaxWidth] = low;
    for (int i = 0; i < kMaxWidth; ++i) {
      int16_t* index = windows.index + 2 * (i0 + i);
      index[0] = static_cast<int16_t>(i < count ? chunk.first[i0 + i] - low : 0);
      index[1] = static_cast<int16_t>(index[0] + 1);
      const int16_t* from = chunk.weight + (i0 + i) * stride;
      for (int k = 0; k < pairs; ++k) {
        memcpy(windows.weight + i0 * 2 * pairs + 32 * k + 2 * i, from + 2 * k, 4);
      }
    }
  }
  windows.pairs = pairs;
}

inline void make_pixel_weights(IntegerChunk& chunk, int channels) {
  PixelWeights& pixels = chunk.pixels;
  const int padded = (chunk.count + kMaxWidth - 1) & -kMaxWidth;
  const int pairs = chunk.pairs, stride = chunk.blocks * kWordBlock;
  for (int i = 0; i < padded; ++i) {
    pixels.first[i] = chunk.first[i] * channels;
    // Runs i and i + 4 of eight share vectors.
    const int vector = i / kPixelSums * 4 + i % 4, half = i / 4 % 2;
    const int16_t* from = chunk.weight + i * stride;
    int16_t* to = pixels.weight + vector * pairs * 16 + half * 8;
    for (int k = 0; k < pairs; ++k) {
      for (int n = 0; n < 4; ++n) memcpy(to + 16 * k + 2 * n, from + 2 * k, 4);
    }
  }
}

// The integer weights of an axis at up to kPositions positions: those of next_weight(), but each
// filter_tap() is computed once, and places go in vectors.
struct PositionWeights {
  static constexpr int kPositions = 16;
  int count = 0;  // places
  FilterTaps<float> taps[kPositions];
  IntegerTaps whole[kPositions];
  int32_t weight[kMostIntegerTaps][kPositions];  // 0 beyond a place's last tap

  void add(const SegmentAxis<float>& axis, float at) {
    taps[count++] = filter_range(axis, Padding::kConstant, at);
  }

  // Call after the last add().
  template <Interpolation mode>
  void finish(bool is_column) {
    // Loops over all kPositions are vectorized; what they compute for positions not added is not
    // used.
    int32_t first[kPositions] = {}, ends[kPositions] = {};
    float centre[kPositions] = {}, sum[kPositions] = {}, peak[kPositions] = {};
    float sums[kMostIntegerTaps][kPositions];
    int most = 0;
    for (int l = 0; l < count; ++l) {
      first[l] = taps[l].first;
      ends[l] = taps[l].count;
      centre[l] = taps[l].at;
      most = ends[l] > most ? ends[l] : most;
    }
    for (int k = 0; k < most; ++k) {
      for (int l = 0; l < kPositions; ++l) {
        const FilterTaps<float> position = {first[l], ends[l], centre[l], taps[0].scale, 0.0f};
        const float tap = filter_tap<mode>(position, first[l] + k);
        const float used = k < ends[l] ? tap : 0.0f;
        const float size = used < 0.0f ? -used : used;
        peak[l] = size > peak[l] ? size : peak[l];
        sums[k][l] = sum[l] = sum[l] + used;
      }
    }
    float scale[kPositions] = {};
    int32_t total[kPositions] = {}, last[kPositions] = {}, before[kPositions] = {};
    for (int l = 0; l < count; ++l) {
      set_norm<mode>(sum[l], &taps[l]);
      if (sum[l] == 0.0f && taps[l].count > 0) {  // there is another tap now
        sums[0][l] = peak[l] = filter_tap<mode>(taps[l], taps[l].first);
      }
      whole[l] = is_column ? integer_columns<mode>(taps[l], peak[l])
                           : integer_rows<mode>(taps[l], peak[l]);
      scale[l] = whole[l].scale;
      total[l] = whole[l].total;
      last[l] = taps[l].count - 1;
    }
    for (int k = 0; k < most; ++k) {
      for (int l = 0; l < kPositions; ++l) {
        const int32_t until = weight_until(scale[l], sums[k][l]);
        const int32_t now = k < last[l] ? until : total[l];
        weight[k][l] = now - before[l];
        before[l] = now;
      }
    }
  }
};

template <Interpolation mode>
void make_integer_chunk(const SegmentAxis<float>& axis, const AugmentSegment<float>& segment,
                        int64_t x0, int lane, int lanes, IntegerChunk& chunk) {
  constexpr int kPositions = PositionWeights::kPositions;
  const int most = 2 * static_cast<int>(std::ceil(axis.radius));
  chunk.blocks = (most + kWordBlock - 1) / kWordBlock;
  const int stride = chunk.blocks * kWordBlock;
  chunk.begin(x0 + lane, axis);
  int most_taps = 0;
  PositionWeights columns;
  for (int i = lane; i < lanes; ++i) {
    const int l = (i - lane) % kPositions;
    if (l == 0) {
      columns.count = 0;
      for (int j = i; j < lanes && j < i + kPositions; ++j) {
        columns.add(axis, lane_point(segment, j).x);
      }
      columns.finish<mode>(true);
    }
    int16_t* weight = chunk.weight + chunk.count * stride;
    chunk.unit[chunk.count] = integer_unit<mode>(columns.whole[l]);
    const FilterTaps<float>& taps = columns.taps[l];
    if (!chunk.add(taps, edge_cover(axis, lane_point(segment, i).x))) break;
    for (int k = 0; k < taps.count; ++k) weight[k] = static_cast<int16_t>(columns.weight[k][l]);
    for (int k = taps.count; k < stride; ++k) weight[k] = 0;
    most_taps = taps.count > most_taps ? taps.count : most_taps;
  }
  chunk.pairs = (most_taps + 1) / 2;
  chunk.finish();
  for (int i = chunk.count; i % kMaxWidth != 0; ++i) {
    chunk.first[i] = 0;
    chunk.unit[i] = 0.0f;
    for (int j = 0; j < stride; ++j) chunk.weight[i * stride + j] = 0;
  }
  if (kWordWindows) make_windows(chunk);
}

// The tap rows of one output row.
struct IntegerRows {
  int32_t first;  // relative to the axis' origin
  int count;
  int32_t pair[(kMostIntegerTaps + 1) / 2];
  int32_t start;
  int shift;
  int32_t next, next_count;  // rows that the next output row needs and this one does not
};

// `step` is the distance to the next output row.
inline void set_integer_rows(const SegmentAxis<float>& axis, const PositionWeights& positions,
                             int l, double step, IntegerRows& rows) {
  // Taps are as many at every place, so the outer ones often weigh nothing.
  int begin = 0, end = positions.taps[l].count;
  while (begin < end && positions.weight[begin][l] == 0) ++begin;
  while (begin < end && positions.weight[end - 1][l] == 0) --end;
  rows.first = positions.taps[l].first + begin;
  rows.count = end - begin;
  for (int i = begin; i < end; i += 2) {
    const auto low = static_cast<uint32_t>(positions.weight[i][l]);
    const auto high = i + 1 < end ? static_cast<uint32_t>(positions.weight[i + 1][l]) : 0u;
    rows.pair[(i - begin) / 2] = static_cast<int32_t>((low & 0xffff) | high << 16);
  }
  const IntegerTaps& whole = positions.whole[l];
  rows.shift = whole.shift;
  rows.start = ((1 << whole.shift) >> 1) - 128 * whole.total;
  const int32_t steps = static_cast<int32_t>(std::ceil(std::fabs(step)));
  const int32_t last = static_cast<int32_t>(axis.last) + 1;
  if (step > 0.0) {
    const int32_t end_row = rows.first + rows.count;
    rows.next = end_row;
    rows.next_count = last - end_row < steps ? last - end_row : steps;
  } else {
    const int32_t first = static_cast<int32_t>(axis.first);
    rows.next = rows.first - steps > first ? rows.first - steps : first;
    rows.next_count = rows.first - rows.next;
  }
}

// The tap rows of some output rows, prepared together.
struct RowsAhead {
  int64_t begin = 0, end = 0;  // output rows [begin, end)
  IntegerRows rows[PositionWeights::kPositions];

  // Output rows from y on, at most up to `last`. `axis` has the widths of the sample.
  template <Interpolation mode>
  void prepare(const AugmentSample& s, SegmentAxis<float> axis, int64_t x0, int64_t y,
               int64_t last) {
    PositionWeights positions;
    SegmentAxis<float> axes[PositionWeights::kPositions];
    begin = y;
    end = last - y < PositionWeights::kPositions ? last : y + PositionWeights::kPositions;
    for (int64_t row = begin; row < end; ++row) {
      const auto segment = augment_segment<float>(s.map, x0, row);
      position_axis(s.y, segment.y, &axis);
      axes[row - begin] = axis;
      positions.add(axis, segment.fy);
    }
    positions.finish<mode>(false);
    for (int l = 0; l < positions.count; ++l) {
      set_integer_rows(axes[l], positions, l, s.map.m[4], rows[l]);
    }
  }
};

// Rows to fetch into the second-level cache meanwhile.
struct NextRows {
  uintptr_t data;  // a number: there may be no such rows
  int64_t stride;
  int32_t count;

  // Bytes [at, at + kByteBlock) of `Count` rows, or of all for 0.
  template <int Count>
  VISOPS_ALWAYS_INLINE void fetch([[maybe_unused]] int64_t at) const {
#if defined(__GNUC__)
    uintptr_t row = data + static_cast<uintptr_t>(at);
    const int rows = Count > 0 ? Count : count;
    VISOPS_UNROLL
    for (int k = 0; k < rows; ++k, row += static_cast<uintptr_t>(stride)) {
      for (uintptr_t line = 0; line < kByteBlock; line += kCacheLine) {
        __builtin_prefetch(reinterpret_cast<const void*>(row + line), 0, 2);
      }
    }
#endif
  }
};

// Copies of `rows` and `next`: what is stored can't change them, so they stay in registers.
template <int Count>
inline void filter_byte_blocks(const ByteRows rows, const NextRows next, int64_t n, int16_t* out) {
  int64_t at = 0;
  for (; at + kByteBlock <= n; at += kByteBlock) {
    next.fetch<Count>(at);
    byte_sums(rows, at, out + at);
  }
  // The last block overlaps the previous one, and finds the same sums.
  if (at < n) byte_sums(rows, n - kByteBlock, out + n - kByteBlock);
}

// The sums of n bytes of the rows.
inline void filter_byte_rows(const ByteRows& rows, const NextRows& next, int64_t n, int16_t* out) {
  if (n >= kByteBlock) {
    switch (next.count) {
      case 1: return filter_byte_blocks<1>(rows, next, n, out);
      case 2: return filter_byte_blocks<2>(rows, next, n, out);
      case 3: return filter_byte_blocks<3>(rows, next, n, out);
      default: return filter_byte_blocks<0>(rows, next, n, out);
    }
  }
  int32_t sum[kByteBlock];
  for (int64_t e = 0; e < n; ++e) sum[e] = rows.start;
  for (int k = 0; k < rows.count; ++k) {
    const uint8_t* row = rows.data + k * rows.stride;
    const int16_t weight = rows.weight(k);
    for (int64_t e = 0; e < n; ++e) sum[e] += weight * static_cast<int16_t>(row[e]);
  }
  for (int64_t e = 0; e < n; ++e) out[e] = saturate_words(sum[e] >> rows.shift);
}

constexpr int kBufferColumns = kBufferFloats / 4;  // what ResizeColumns::add() allows

// Columns of the image that are filtered vertically in one go.
struct ColumnSpan {
  int64_t first, count;

  // Takes in those of `other`. False if they are too many, or either has none: it may lie outside
  // the image.
  bool add(const ColumnSpan& other) {
    if (count == 0 || other.count == 0) return false;
    const int64_t begin = first < other.first ? first : other.first;
    const int64_t end = first + count, other_end = other.first + other.count;
    const int64_t last = end > other_end ? end : other_end;
    if (last - begin > kBufferColumns) return false;
    first = begin;
    count = last - begin;
    return true;
  }
};

inline ColumnSpan columns_of(const ResizeColumns& chunk) {
  return {chunk.origin + chunk.low, chunk.high - chunk.low};
}

struct IntegerResizeBuffers {
  IntegerChunk chunks[kChunks];
  AugmentLanes lanes;
  Planes planes;
  RowsAhead ahead;
  // The taps of weight 0 reach beyond the last column.
  alignas(64) int16_t pixels[4 * (kBufferColumns + kMostIntegerTaps) + kWordBlock];
  alignas(64) int16_t plane[kGroup][kBufferColumns + kMostIntegerTaps];
};

template <int Channels>
void separate_channels(const int16_t* pixels, int64_t n,
                       int16_t (*plane)[kBufferColumns + kMostIntegerTaps]) {
  for (int64_t i = 0; i < n; ++i) {
    for (int c = 0; c < Channels; ++c) plane[c][i] = pixels[i * Channels + c];
  }
}

// The functions below filter a chunk along the row; `begin` is where its columns begin in buffers.
template <int Channels, int Blocks>
void filter_integer_columns(const IntegerChunk& chunk, int64_t begin, int padded,
                            IntegerResizeBuffers& buffers) {
  WordRuns runs = {{}, chunk.first, chunk.weight, chunk.blocks};
  float* out[4] = {};
  for (int c = 0; c < Channels; ++c) {
    runs.plane[c] = buffers.plane[c] + begin;
    out[c] = buffers.planes.v[c];
  }
  for (int i = 0; i < padded; i += 4) {
    word_sums<Channels, Blocks>(runs, chunk.unit + i, 128.0f, out);
    runs.first += 4;
    runs.weight += 4 * chunk.blocks * kWordBlock;
    for (int c = 0; c < Channels; ++c) out[c] += 4;
  }
}

template <int Channels>
void filter_windows(const IntegerChunk& chunk, int64_t begin, int padded,
                    IntegerResizeBuffers& buffers) {
  if constexpr (kWordWindows) {
    const WordWindows& windows = chunk.windows;
    for (int i = 0; i < padded; i += kMaxWidth) {
      WordWindow window = {
          {}, windows.index + 2 * i, windows.weight + 2 * i * windows.pairs, windows.pairs};
      float* out[4] = {};
      for (int c = 0; c < Channels; ++c) {
        window.plane[c] = buffers.plane[c] + begin + windows.base[i / kMaxWidth];
        out[c] = buffers.planes.v[c] + i;
      }
      window_sums<Channels>(window, chunk.unit + i, 128.0f, out);
    }
  }
}

template <int Channels, int Pairs>
void filter_integer_pixels(const IntegerChunk& chunk, int64_t begin, int padded,
                           IntegerResizeBuffers& buffers) {
  PixelRuns runs = {buffers.pixels + begin * Channels, chunk.pixels.first, chunk.pixels.weight,
                    chunk.pairs};
  float* out[4] = {};
  for (int c = 0; c < Channels; ++c) out[c] = buffers.planes.v[c];
  for (int i = 0; i < padded; i += kPixelSums) {
    pixel_sums<Channels, Pairs>(runs, chunk.unit + i, 128.0f, out);
    runs.first += kPixelSums;
    runs.weight += kPixelSums / 2 * chunk.pairs * 16;
    for (int c = 0; c < Channels; ++c) out[c] += kPixelSums;
  }
}

template <int Channels>
void filter_integer_pixels(const IntegerChunk& chunk, int64_t begin, int padded,
                           IntegerResizeBuffers& buffers) {
  switch (chunk.pairs) {
    case 2: return filter_integer_pixels<Channels, 2>(chunk, begin, padded, buffers);
    case 3: return filter_integer_pixels<Channels, 3>(chunk, begin, padded, buffers);
    default: return filter_integer_pixels<Channels, 0>(chunk, begin, padded, buffers);
  }
}

template <int Channels>
void filter_integer_columns(const IntegerChunk& chunk, int64_t begin, int padded,
                            IntegerResizeBuffers& buffers) {
  if (kWordWindows && chunk.windows.pairs > 0) {
    return filter_windows<Channels>(chunk, begin, padded, buffers);
  }
  switch (chunk.blocks) {
    case 1: return filter_integer_columns<Channels, 1>(chunk, begin, padded, buffers);
    case 2: return filter_integer_columns<Channels, 2>(chunk, begin, padded, buffers);
    case 3: return filter_integer_columns<Channels, 3>(chunk, begin, padded, buffers);
    default: return filter_integer_columns<Channels, 0>(chunk, begin, padded, buffers);
  }
}

// Filters columns of channels [first, first + channels) vertically, into buffers.
inline void filter_integer_rows(const SegmentAt& at, const ColumnSpan& columns, int64_t first,
                                int64_t channels, IntegerResizeBuffers& buffers) {
  const AugmentImage& image = at.s.image;
  const IntegerRows& y = buffers.ahead.rows[at.y - buffers.ahead.begin];
  const int64_t n = columns.count;
  const uint8_t* data = static_cast<const uint8_t*>(image.data) + first * image.channel_stride +
                        (at.segment.y + y.first) * image.row_stride +
                        columns.first * image.column_stride;
  ByteRows rows = {data, image.row_stride, y.count, y.pair, y.start, y.shift};
  NextRows next = {reinterpret_cast<uintptr_t>(data) +
                       static_cast<uintptr_t>((y.next - y.first) * image.row_stride),
                   image.row_stride, y.next_count};
  // Taps of weight 0 reach beyond the last column.
  if (is_interleaved(at.p, image)) {
    filter_byte_rows(rows, next, n * channels, buffers.pixels);
    if (kPixelRuns) {
      const int64_t beyond = kMostIntegerTaps * channels + kWordBlock;
      memset(buffers.pixels + n * channels, 0, static_cast<size_t>(beyond) * sizeof(int16_t));
      return;
    }
    if (channels == 3) {
      separate_channels<3>(buffers.pixels, n, buffers.plane);
    } else {
      separate_channels<4>(buffers.pixels, n, buffers.plane);
    }
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      filter_byte_rows(rows, next, n, buffers.plane[c]);
      rows.data += image.channel_stride;
      next.data += static_cast<uintptr_t>(image.channel_stride);
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int j = 0; j < kMostIntegerTaps; ++j) buffers.plane[c][n + j] = 0;
  }
}

// Filters a chunk of what filter_integer_rows() has put into buffers along the row, into planes.
inline void filter_integer_chunk(const SegmentAt& at, const IntegerChunk& chunk,
                                 const ColumnSpan& columns, int64_t channels,
                                 IntegerResizeBuffers& buffers) {
  const int64_t begin = columns_of(chunk).first - columns.first;
  if constexpr (kPixelRuns) {
    if (is_interleaved(at.p, at.s.image)) {
      return channels == 3 ? filter_integer_pixels<3>(chunk, begin, at.padded, buffers)
                           : filter_integer_pixels<4>(chunk, begin, at.padded, buffers);
    }
  }
  switch (channels) {
    case 1: return filter_integer_columns<1>(chunk, begin, at.padded, buffers);
    case 2: return filter_integer_columns<2>(chunk, begin, at.padded, buffers);
    case 3: return filter_integer_columns<3>(chunk, begin, at.padded, buffers);
    default: return filter_integer_columns<4>(chunk, begin, at.padded, buffers);
  }
}

}  // namespace
}  // namespace visops
