// antialias of uint8 without rotation, in integers.
//
// NOTE [ Resized rows in integers ]
// The two steps of NOTE [ Resized rows ] (cpu/warp/augment_resize.h), by the arithmetic of
// NOTE [ Integer filter ] (core/warp/augment_integers.h): columns of an output row in vectors along
// the row, two tap rows at a time; then each pixel's taps, eight words at a time in every channel.
// Interleaved channels are separated in between, where they can't be summed side by side.
#pragma once

#include "cpu/simd/integer_sums.h"
#include "cpu/warp/augment_resize.h"

namespace visops {
namespace {

// The runs of a chunk as windows, where they fit.
struct WordWindows {
  int pairs;                                 // of taps; 0: they don't fit
  int32_t base[kPaddedSegment / kMaxWidth];  // the first word of each sixteen pixels
  alignas(64) int16_t index[2 * kPaddedSegment];
  alignas(64) int16_t weight[kPaddedSegment * kMostIntegerTaps];
};

struct IntegerChunk : ResizeColumns {
  int blocks;  // of kWordBlock taps per column, the last ones of weight 0
  int pairs;   // of taps, in the column that has most
  alignas(64) float unit[kPaddedSegment];
  alignas(64) int16_t weight[kPaddedSegment * kMostIntegerTaps];
  WordWindows windows;
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

template <Interpolation mode>
void make_integer_chunk(const SegmentAxis<float>& axis, const AugmentSegment<float>& segment,
                        int64_t x0, int lane, int lanes, IntegerChunk& chunk) {
  const int most = 2 * static_cast<int>(std::ceil(axis.radius));
  chunk.blocks = (most + kWordBlock - 1) / kWordBlock;
  const int stride = chunk.blocks * kWordBlock;
  chunk.begin(x0 + lane);
  int most_taps = 0;
  for (int i = lane; i < lanes; ++i) {
    const LanePoint<float> point = lane_point(segment, i);
    const FilterTaps<float> taps = filter_taps<mode>(axis, Padding::kConstant, point.x);
    IntegerTaps weights = integer_columns<mode>(taps);
    int16_t* weight = chunk.weight + chunk.count * stride;
    chunk.unit[chunk.count] = integer_unit<mode>(weights);
    if (!chunk.add(taps, edge_cover(axis, point.x))) break;
    for (int32_t j = 0; j < taps.count; ++j) {
      weight[j] = static_cast<int16_t>(next_weight<mode>(taps, j, &weights));
    }
    for (int32_t j = taps.count; j < stride; ++j) weight[j] = 0;
    most_taps = taps.count > most_taps ? taps.count : most_taps;
  }
  chunk.pairs = (most_taps + 1) / 2;
  chunk.finish();
  for (int i = chunk.count; i % kMaxWidth != 0; ++i) {
    chunk.first[i] = 0;
    chunk.unit[i] = 0.0f;
    for (int j = 0; j < stride; ++j) chunk.weight[i * stride + j] = 0;
  }
  if constexpr (kWordWindows) make_windows(chunk);
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
template <Interpolation mode>
void set_integer_rows(const SegmentAxis<float>& axis, float at, double step, IntegerRows& rows) {
  const FilterTaps<float> taps = filter_taps<mode>(axis, Padding::kConstant, at);
  IntegerTaps weights = integer_rows<mode>(taps);
  rows.first = taps.first;
  rows.count = taps.count;
  for (int32_t i = 0; i < taps.count; i += 2) {
    const int32_t low = next_weight<mode>(taps, i, &weights);
    const int32_t high = i + 1 < taps.count ? next_weight<mode>(taps, i + 1, &weights) : 0;
    rows.pair[i / 2] = static_cast<int32_t>((static_cast<uint32_t>(low) & 0xffff) |
                                            static_cast<uint32_t>(high) << 16);
  }
  rows.shift = weights.shift;
  rows.start = ((1 << weights.shift) >> 1) - 128 * weights.total;
  const int32_t steps = static_cast<int32_t>(std::ceil(std::fabs(step)));
  const int32_t last = static_cast<int32_t>(axis.last) + 1;
  if (step > 0.0) {
    const int32_t end = rows.first + rows.count;
    rows.next = end;
    rows.next_count = last - end < steps ? last - end : steps;
  } else {
    const int32_t first = static_cast<int32_t>(axis.first);
    rows.next = rows.first - steps > first ? rows.first - steps : first;
    rows.next_count = rows.first - rows.next;
  }
}

// Rows to fetch into the second-level cache meanwhile.
struct NextRows {
  uintptr_t data;  // a number: there may be no such rows
  int64_t stride;
  int32_t count;

  VISOPS_ALWAYS_INLINE void fetch([[maybe_unused]] int64_t at) const {
#if defined(__GNUC__)
    uintptr_t row = data + static_cast<uintptr_t>(at);
    for (int32_t k = 0; k < count; ++k, row += static_cast<uintptr_t>(stride)) {
      for (uintptr_t line = 0; line < kByteBlock; line += kCacheLine) {
        __builtin_prefetch(reinterpret_cast<const void*>(row + line), 0, 2);
      }
    }
#endif
  }
};

// The sums of n bytes of the rows.
inline void filter_byte_rows(const ByteRows& rows, const NextRows& next, int64_t n, int16_t* out) {
  if (n >= kByteBlock) {
    int64_t at = 0;
    for (; at + kByteBlock <= n; at += kByteBlock) {
      next.fetch(at);
      byte_sums(rows, at, out + at);
    }
    // The last block overlaps the previous one, and finds the same sums.
    if (at < n) byte_sums(rows, n - kByteBlock, out + n - kByteBlock);
    return;
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

struct IntegerResizeBuffers {
  IntegerChunk chunks[kChunks];
  AugmentLanes lanes;
  Planes planes;
  IntegerRows rows;
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

template <int Channels, int Blocks>
void filter_integer_columns(const IntegerChunk& chunk, int padded,
                            const IntegerResizeBuffers& buffers, Planes& planes) {
  WordRuns runs = {{}, chunk.first, chunk.weight, chunk.blocks};
  float* out[4] = {};
  for (int c = 0; c < Channels; ++c) {
    runs.plane[c] = buffers.plane[c];
    out[c] = planes.v[c];
  }
  for (int i = 0; i < padded; i += 4) {
    word_sums<Channels, Blocks>(runs, chunk.unit + i, 128.0f, out);
    runs.first += 4;
    runs.weight += 4 * chunk.blocks * kWordBlock;
    for (int c = 0; c < Channels; ++c) out[c] += 4;
  }
}

template <int Channels>
void filter_windows(const IntegerChunk& chunk, int padded, IntegerResizeBuffers& buffers) {
  if constexpr (kWordWindows) {
    const WordWindows& windows = chunk.windows;
    for (int i = 0; i < padded; i += kMaxWidth) {
      WordWindow window = {
          {}, windows.index + 2 * i, windows.weight + 2 * i * windows.pairs, windows.pairs};
      float* out[4] = {};
      for (int c = 0; c < Channels; ++c) {
        window.plane[c] = buffers.plane[c] + windows.base[i / kMaxWidth];
        out[c] = buffers.planes.v[c] + i;
      }
      window_sums<Channels>(window, chunk.unit + i, 128.0f, out);
    }
  }
}

template <int Channels, int Pairs>
void filter_integer_pixels(const IntegerChunk& chunk, int padded, IntegerResizeBuffers& buffers) {
  PixelRuns runs = {buffers.pixels, chunk.first, chunk.weight, chunk.blocks};
  float* out[4] = {};
  for (int c = 0; c < Channels; ++c) out[c] = buffers.planes.v[c];
  for (int i = 0; i < padded; i += kPixelSums) {
    pixel_sums<Channels, Pairs>(runs, chunk.unit + i, 128.0f, out);
    runs.first += kPixelSums;
    runs.weight += kPixelSums * chunk.blocks * kWordBlock;
    for (int c = 0; c < Channels; ++c) out[c] += kPixelSums;
  }
}

// Filters `n` columns of interleaved channels along the row.
template <int Channels>
void filter_integer_pixels(const IntegerChunk& chunk, int64_t n, int padded,
                           IntegerResizeBuffers& buffers) {
  const int beyond = (chunk.blocks * Channels + 1) * kWordBlock;
  for (int j = 0; j < beyond; ++j) buffers.pixels[n * Channels + j] = 0;
  switch (chunk.blocks == 1 ? chunk.pairs : 0) {
    case 1:
    case 2: return filter_integer_pixels<Channels, 2>(chunk, padded, buffers);
    case 3: return filter_integer_pixels<Channels, 3>(chunk, padded, buffers);
    default: return filter_integer_pixels<Channels, 0>(chunk, padded, buffers);
  }
}

template <int Channels>
void filter_integer_columns(const IntegerChunk& chunk, int padded, IntegerResizeBuffers& buffers) {
  if (kWordWindows && chunk.windows.pairs > 0) {
    return filter_windows<Channels>(chunk, padded, buffers);
  }
  switch (chunk.blocks) {
    case 1: return filter_integer_columns<Channels, 1>(chunk, padded, buffers, buffers.planes);
    case 2: return filter_integer_columns<Channels, 2>(chunk, padded, buffers, buffers.planes);
    case 3: return filter_integer_columns<Channels, 3>(chunk, padded, buffers, buffers.planes);
    default: return filter_integer_columns<Channels, 0>(chunk, padded, buffers, buffers.planes);
  }
}

// Samples channels [first, first + channels) of one row of a chunk into planes.
inline void resize_integer_row(const SegmentAt& at, const IntegerChunk& chunk, int64_t first,
                               int64_t channels, IntegerResizeBuffers& buffers) {
  const AugmentImage& image = at.s.image;
  const IntegerRows& y = buffers.rows;
  const int64_t n = chunk.high - chunk.low;
  const uint8_t* data = static_cast<const uint8_t*>(image.data) + first * image.channel_stride +
                        (at.segment.y + y.first) * image.row_stride +
                        (at.segment.x + chunk.low) * image.column_stride;
  ByteRows rows = {data, image.row_stride, y.count, y.pair, y.start, y.shift};
  NextRows next = {reinterpret_cast<uintptr_t>(data) +
                       static_cast<uintptr_t>((y.next - y.first) * image.row_stride),
                   image.row_stride, y.next_count};
  if (is_interleaved(at.p, image)) {
    filter_byte_rows(rows, next, n * channels, buffers.pixels);
    if constexpr (kPixelRuns) {
      return channels == 3 ? filter_integer_pixels<3>(chunk, n, at.padded, buffers)
                           : filter_integer_pixels<4>(chunk, n, at.padded, buffers);
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
  switch (channels) {
    case 1: return filter_integer_columns<1>(chunk, at.padded, buffers);
    case 2: return filter_integer_columns<2>(chunk, at.padded, buffers);
    case 3: return filter_integer_columns<3>(chunk, at.padded, buffers);
    default: return filter_integer_columns<4>(chunk, at.padded, buffers);
  }
}

}  // namespace
}  // namespace visops
