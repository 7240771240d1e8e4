// antialias of uint8 without rotation, in integers.
//
// NOTE [ Resized rows in integers ]
// The two steps of NOTE [ Resized rows ] (cpu/warp/augment_resize.h), by the arithmetic of
// NOTE [ Integer filter ] (core/warp/augment_integers.h): columns of an output row in vectors along
// the row, two tap rows at a time; then each pixel's taps, eight words at a time in every channel.
// Interleaved channels are separated in between, where they can't be summed side by side.
#pragma once

#include "cpu/warp/augment_integer_weights.h"

namespace visops {
namespace {

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
